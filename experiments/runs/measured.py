"""Makes the runs of an experiment with a real model, one after the other, each kept as soon as it is made."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from experiments.record import Conditions, Run
from experiments.runs.arms import ArmPlan, PlannedRun, arms_of, order_of_runs
from experiments.runs.clock import VirtualClock, WallClock
from experiments.runs.conditions import conditions_of, model_hash
from experiments.runs.driver import About, PoolShape, drive, fresh_scheduler, requests_of
from experiments.runs.folder import CANCEL_FILE, TRACE_FILE, Brief, ExperimentFolder, Manifest
from experiments.runs.progress import EVERY_S, ProgressFile, seconds_left
from experiments.runs.spec import Spec, SpecError
from experiments.runs.workload import check_fits
from experiments.trace import Trace
from experiments.traces import write_trace
from model_runner.bench import WARM_UP_PROMPT, WARM_UP_TOKENS, warm_up
from model_runner.bench_workload import BenchWorkload, TimedRequest
from model_runner.config import RunnerConfig
from model_runner.errors import RunnerError
from model_runner.runner import ModelRunner
from scheduler import Request, ScheduleStep, StepResult
from scheduler.simulate import FILLER_TOKEN

REHEARSED: Final = 200
"""Requests of the trace that every arm must be able to serve without a model."""

Say = Callable[[str], None]
"""Told one line for people."""

Tell = Callable[[float, int], None]
"""Told (seconds since the run began, requests ended), before each step."""


class CancelledError(Exception):
    """Somebody asked to stop. What is finished is kept."""


@dataclass(slots=True)
class StopWish:
    """Whether somebody wants the experiment to stop: a signal, or the file ``cancel`` in its folder."""

    folder: Path
    reason: str = ""
    _looked: float = field(default=-EVERY_S)

    def ask(self, reason: str) -> None:
        """To be called by a handler of signals."""
        self.reason = self.reason or reason

    def wanted(self) -> bool:
        """Looks at the file at most once in ``EVERY_S``."""
        now = time.monotonic()
        if not self.reason and now - self._looked >= EVERY_S:
            self._looked = now
            if (self.folder / CANCEL_FILE).exists():
                self.reason = f"the file {CANCEL_FILE} was there"
        return bool(self.reason)


def run_experiment(
    spec: Spec, trace: Trace, folder: ExperimentFolder, stop: StopWish, *, command: str = "", say: Say = print
) -> None:
    """Make the runs that the folder lacks; none when all are there.

    Raises SpecError or RunnerError for what cannot be run, CancelledError when stopped. ``progress.json`` says how it
    ended in every case but the death of the process.
    """
    arms = {arm.label: arm for arm in arms_of(spec)}
    with folder.working():
        planned = order_of_runs(tuple(arms), spec.repeats)
        manifest = folder.begin(Manifest(spec, trace.sha256, planned))
        if not (folder.path / TRACE_FILE).exists():
            write_trace(trace, folder.path / TRACE_FILE)
        progress = ProgressFile(folder.path, len(planned))
        try:
            _make_missing(spec, trace, folder, manifest, arms, progress, stop, command, say)
        except CancelledError as error:
            (folder.path / CANCEL_FILE).unlink(missing_ok=True)
            progress.write(state="cancelled", message=str(error), label="", eta_s=None)
            raise
        except Exception as error:
            progress.write(state="failed", message=str(error) or type(error).__name__, label="", eta_s=None)
            raise


def _make_missing(
    spec: Spec,
    trace: Trace,
    folder: ExperimentFolder,
    manifest: Manifest,
    arms: dict[str, ArmPlan],
    progress: ProgressFile,
    stop: StopWish,
    command: str,
    say: Say,
) -> None:
    done = folder.finished(manifest)
    missing = [planned for planned in manifest.runs if planned not in done]
    progress.write(done=len(done), requests_total=len(trace.requests))
    if done:
        say(f"{len(done)} of {len(manifest.runs)} runs are there already")
    if missing:
        bench = Bench.load(spec, trace, manifest, folder, arms.values(), command, say)
        try:
            for planned in missing:
                left = [one for one in missing if one not in done]
                progress.write(
                    state="running",
                    eta_s=seconds_left(done, left),
                    label=planned.label,
                    repeat=planned.repeat,
                    requests_done=0,
                )
                run = bench.measure(arms[planned.label], planned, stop, _teller(progress, done, left))
                folder.save(planned, run)
                done[planned] = Brief(run.label, run.wall_s)
                eta_s = seconds_left(done, left[1:])
                progress.write(done=len(done), eta_s=eta_s, label="", requests_done=0)
                say(_line(run, len(done), len(manifest.runs), eta_s))
        finally:
            bench.runner.close()
    progress.write(state="done", eta_s=0.0, label="", message="")


def _teller(progress: ProgressFile, done: dict[PlannedRun, Brief], left: Sequence[PlannedRun]) -> Tell:
    """Writes how far a run is, at most once in ``EVERY_S``."""
    last = 0.0

    def tell(now_s: float, ended: int) -> None:
        nonlocal last
        if now_s - last >= EVERY_S:
            last = now_s
            eta_s = seconds_left(done, left, now_s, ended / progress.now.requests_total)
            progress.write(requests_done=ended, eta_s=eta_s)

    return tell


def _line(run: Run, done: int, total: int, eta_s: float | None) -> str:
    tokens = sum(row.num_output_tokens for row in run.requests)
    stopped = f"; {run.stopped}" if run.stopped else ""
    left = f"; about {eta_s / 60:.0f} min left" if eta_s and eta_s >= 60 else ""
    return (
        f"[{done}/{total}] {run.label}, repeat {run.repeat}: {run.wall_s:.1f} s, "
        f"{tokens / run.wall_s if run.wall_s else 0.0:.1f} output tokens/s, {run.totals.preemptions} evictions"
        f"{stopped}{left}"
    )


@dataclass(slots=True)
class Bench:
    """The model, loaded once, and the requests, the same objects for every run."""

    runner: ModelRunner
    trace: Trace
    requests: Sequence[Request]
    seed: int
    model_sha256: str
    command: str

    @classmethod
    def load(
        cls,
        spec: Spec,
        trace: Trace,
        manifest: Manifest,
        folder: ExperimentFolder,
        arms: Iterable[ArmPlan],
        command: str,
        say: Say,
    ) -> Bench:
        """Load the model as in the folder's earlier runs; at the first start, keep what "auto" became."""
        model = spec.model
        config = RunnerConfig(**{name: getattr(model, name) for name in model.__struct_fields__}, seed=spec.seed)
        config = replace(config, **manifest.settled)  # type: ignore[arg-type]  # device, dtype and threads only
        say(f"loading {config.model} ...")
        runner = ModelRunner.load(config)
        info = runner.info
        settled: dict[str, str | int] = {"device": info.device, "dtype": info.dtype, "threads": info.threads}
        if not manifest.settled:
            folder.settle(manifest, settled)
        check_fits(
            trace,
            max_model_len=info.max_model_len,
            pool_tokens=info.num_blocks * info.block_size,
            vocab_size=runner.vocab_size,
        )
        rehearse(arms, trace, pool_of(runner))
        requests = requests_of(trace, vocab_size=runner.vocab_size, seed=spec.seed)
        return cls(runner, trace, requests, spec.seed, model_hash(config.model, spec.seed), command)

    def measure(self, arm: ArmPlan, planned: PlannedRun, stop: StopWish, tell: Tell) -> Run:
        """One run from an empty pool and an empty prefix cache. Raises CancelledError when stopped on the way."""
        conditions = conditions_of(
            self.runner.info,
            model_sha256=self.model_sha256,
            seed=self.seed,
            warm_up=self._warm_up(arm),
            command=self.command,
        )

        def watch(now_s: float, ended: int) -> str:
            tell(now_s, ended)
            return "cancelled" if stop.wanted() else ""

        gc.collect()
        clock = WallClock(interrupted=stop.wanted)
        scheduler = fresh_scheduler(arm.policy, pool_of(self.runner), clock)
        about = About(conditions, arm.label, planned.repeat, planned.position)
        run = drive(self.runner, scheduler, self.trace, clock, about, requests=self.requests, watch=watch)
        if stop.wanted():
            raise CancelledError(f"cancelled: {stop.reason}")
        return run

    def _warm_up(self, arm: ArmPlan) -> str:
        """Run the first requests, cut short, under the arm's policy; what was run, in words."""
        timed = tuple(TimedRequest(0, request) for request in self.requests)
        warm_up(self.runner, arm.policy, BenchWorkload({}, timed))
        count = min(arm.policy.max_num_seqs, len(timed))
        return (
            f"before each run its first {count} requests at once under its own policy, at most {WARM_UP_PROMPT} prompt "
            f"tokens and {WARM_UP_TOKENS} output tokens each"
        )


def pool_of(runner: ModelRunner) -> PoolShape:
    """What a scheduler may plan with on this runner."""
    info = runner.info
    return PoolShape(info.num_blocks, info.block_size, info.max_model_len, info.num_host_blocks, runner.vocab_size)


def rehearse(arms: Iterable[ArmPlan], trace: Trace, pool: PoolShape) -> None:
    """Take every arm's decisions on the first requests, without the model, before any arm is measured.

    So an arm that can never run, because its limits contradict the pool or its memory is never enough, is found at
    once and not after an hour. Raises SpecError naming the arm and why.
    """
    first = replace(trace, requests=trace.requests[:REHEARSED])
    requests = requests_of(first, vocab_size=pool.vocab_size)
    about = About(Conditions("simulated", "", "", "", 0, 0, 0, 0, 0, 0, "", cost_model="no time at all"))
    for arm in arms:
        clock = VirtualClock()
        try:
            run = drive(NoTime(), fresh_scheduler(arm.policy, pool, clock), first, clock, about, requests=requests)
        except ValueError as error:
            raise SpecError(f"arm {arm.label}: {error}") from error
        if run.stopped:
            raise SpecError(f"arm {arm.label}: {run.stopped}")


class NoTime:
    """Answers every step with filler tokens at once."""

    def execute(self, step: ScheduleStep) -> StepResult:
        """A token for each row that samples."""
        return StepResult(step.step_id, dict.fromkeys(step.sampling_ids, FILLER_TOKEN))


__all__ = ["Bench", "CancelledError", "RunnerError", "StopWish", "run_experiment"]
