"""``python -m experiments run SPEC.toml --out FOLDER``."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from experiments.runs.arms import arms_of, order_of_runs
from experiments.runs.folder import ExperimentFolder
from experiments.runs.spec import Spec, SpecError, read_spec
from experiments.runs.workload import trace_of
from experiments.trace import Trace
from scheduler import custom

CANCELLED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``run``."""
    parser.add_argument("spec", type=Path, help="SPEC.toml: model, workload and arms")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the results; the same again goes on where it stopped"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the spec and print the order of the runs only")


def main(options: argparse.Namespace) -> int:
    """0 = every run is there, 1 = the engine failed, 2 = the input is wrong, 3 = cancelled."""
    custom.load_from_environment()
    try:
        spec = read_spec(options.spec)
        trace = trace_of(spec, options.spec.parent)
        arms = arms_of(spec)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.dry_run:
        print(f"{trace.name}: {len(trace.requests)} requests, {trace.requests[-1].arrival_s:.1f} s of arrivals")
        for planned in order_of_runs([arm.label for arm in arms], spec.repeats):
            print(f"{planned.position:3} {planned.label}, repeat {planned.repeat}")
        return 0
    return _run(spec, trace, options)


def _run(spec: Spec, trace: Trace, options: argparse.Namespace) -> int:
    from experiments.runs.measured import CancelledError, RunnerError, StopWish, run_experiment

    folder, stop = ExperimentFolder(options.out), StopWish(options.out)
    command = shlex.join(["python", "-m", "experiments", "run", str(options.spec), "--out", str(options.out)])
    try:
        with _signals_to(stop.ask):
            run_experiment(spec, trace, folder, stop, command=command)
    except CancelledError as error:
        print(f"{error}; the same command goes on from here", file=sys.stderr)
        return CANCELLED
    except (SpecError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RunnerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"results in {options.out}; python -m experiments report {shlex.quote(str(options.out))} shows them")
    return 0


@contextlib.contextmanager
def _signals_to(ask: Callable[[str], None]) -> Iterator[None]:
    """SIGINT and SIGTERM ask; a second one ends the process at once."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        ask(signal.Signals(number).name)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
