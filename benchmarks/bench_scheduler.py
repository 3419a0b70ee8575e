"""Microseconds a step of ``schedule`` + ``update``, with events and a snapshot, for n running decodes.

    python benchmarks/bench_scheduler.py [--waiting N] [--nano-vllm CHECKOUT] [--repeats R] [--out FILE.json]

Every row decodes all the time; with block size 16 one row in sixteen takes a new block in each step, as in a real run.
What is measured takes turns, so that a noisy machine disturbs all alike. Times are CPU time of this process; the
minimum is the figure to compare, the median says how noisy the machine is.

    steps           nobody reads the snapshot
    all read        every field of every step and snapshot is read
    published       the snapshot is encoded, as the engine does for its readers
    general path    the scheduler without decode runs, snapshot unread
    nano-vllm 256   nano-vllm's bare scheduler with its own block size; nano-vllm 16: with ours (see peers/nano_vllm.py)
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from benchmarks.peers import nano_vllm
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, ScheduleStep, StepResult, StepSnapshot

STEPS = 100
WARM_UP = 20
MAX_MODEL_LEN = 8192
Step = Callable[[], object]
Reader = Callable[[ScheduleStep, StepSnapshot], object]


class GeneralScheduler(Scheduler):
    """Without decode runs: every step takes the general path."""

    def _begin_run(self, snapshot: StepSnapshot) -> None:
        return


def read_nothing(step: ScheduleStep, snapshot: StepSnapshot) -> None:
    """Nobody looks."""


def read_all(step: ScheduleStep, snapshot: StepSnapshot) -> None:
    """The runner reads the step, and somebody every column of the snapshot."""
    for item in (step, snapshot):
        for field in fields(item):
            getattr(item, field.name)


def publish(step: ScheduleStep, snapshot: StepSnapshot) -> bytes:
    """The runner reads the step, and the snapshot goes out."""
    read_all(step, snapshot)
    return ENCODER.encode(snapshot)


ENCODER = msgspec.msgpack.Encoder()


def decoding(kind: type[Scheduler], num_running: int, num_waiting: int, read: Reader) -> Step:
    """One step of ``num_running`` decodes; their prompts are computed already."""
    policy = SchedulerPolicy(max_num_seqs=num_running, max_num_batched_tokens=max(2048, num_running * 16))
    scheduler = kind(
        policy,
        num_blocks=num_running * (MAX_MODEL_LEN // 16),
        block_size=16,
        max_model_len=MAX_MODEL_LEN,
        eos_token_ids=(2,),
        snapshot_waiting_limit=64,
    )
    for index in range(num_running + num_waiting):
        prompt = (5,) * (1 + index % 16)
        scheduler.add(Request(f"request-{index}", prompt, SamplingParams(max_tokens=MAX_MODEL_LEN - 16)))

    def step() -> None:
        planned = scheduler.schedule()
        snapshot = scheduler.update(StepResult(planned.step_id, dict.fromkeys(planned.sampling_ids, 5)))
        read(planned, snapshot)

    for _ in range(WARM_UP):
        step()
    assert len(scheduler.running_ids) == num_running
    return step


def contestants(num_running: int, num_waiting: int, checkout: Path | None) -> dict[str, Step]:
    """What is measured, by name."""
    found: dict[str, Step] = {
        "steps": decoding(Scheduler, num_running, num_waiting, read_nothing),
        "all read": decoding(Scheduler, num_running, num_waiting, read_all),
        "published": decoding(Scheduler, num_running, num_waiting, publish),
        "general path": decoding(GeneralScheduler, num_running, num_waiting, read_nothing),
    }
    if checkout is not None:
        for size in (256, 16):
            found[f"nano-vllm {size}"] = nano_vllm.decoding(checkout, num_running, size, MAX_MODEL_LEN - 16)
    return found


def measure(steps: dict[str, Step], repeats: int) -> dict[str, list[float]]:
    """For each, one figure a repeat: the mean microseconds over ``STEPS`` steps."""
    figures: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            gc.collect()
            start = time.process_time()
            for _ in range(STEPS):
                step()
            figures[name].append((time.process_time() - start) / STEPS * 1e6)
    return figures


def main() -> None:
    """Print one line for each size and contestant, and write the figures where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--waiting", type=int, nargs="+", default=[0], help="waiting requests beside the running ones")
    parser.add_argument("--nano-vllm", type=Path, metavar="CHECKOUT", help="measure nano-vllm's scheduler as well")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{'running':>8} {'waiting':>8} {'what':<14} {'min us/step':>12} {'median':>10} {'us/row':>8}")
    for waiting in options.waiting:
        for size in options.sizes:
            for what, figures in measure(contestants(size, waiting, options.nano_vllm), options.repeats).items():
                least, median = min(figures), statistics.median(figures)
                rows.append({"running": size, "waiting": waiting, "what": what, "min_us": least, "median_us": median})
                print(f"{size:>8} {waiting:>8} {what:<14} {least:>12.1f} {median:>10.1f} {least / size:>8.3f}")
    if options.out:
        options.out.write_text(json.dumps({"python": sys.version, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
