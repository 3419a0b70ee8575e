"""Drives a trace through a scheduler and whatever executes its steps: a model, or a cost model on a virtual clock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from experiments.record import Conditions, Run
from experiments.runs.clock import Clock
from experiments.runs.recorder import Recorder, StepTimes
from experiments.trace import Trace, TraceRequest
from model_runner.bench_workload import random_prompt
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, ScheduleStep, StepResult
from scheduler.simulate import FILLER_TOKEN

Watch = Callable[[float, int], str]
"""Told (seconds since the run began, requests ended) before each step; "" = go on, else why the run is to stop."""


class Executor(Protocol):
    """What computes steps: a ``ModelRunner``, or something that only lets a virtual clock advance."""

    def execute(self, step: ScheduleStep) -> StepResult:
        """A token for each of ``step.sampling_ids``. An empty step only passes on what ended."""


@dataclass(frozen=True, slots=True)
class PoolShape:
    """What a scheduler plans with: KV blocks, tokens a block, longest sequence, host blocks, vocabulary."""

    num_blocks: int
    block_size: int
    max_model_len: int
    num_host_blocks: int = 0
    vocab_size: int | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What a run says of itself, as in ``Run``."""

    conditions: Conditions
    label: str = "a"
    repeat: int = 0
    position: int = 0


def fresh_scheduler(policy: SchedulerPolicy, pool: PoolShape, clock: Clock) -> Scheduler:
    """A scheduler with an empty pool, nothing in its prefix cache, and the run's clock.

    Raises ValueError for an illegal policy, or limits of it that contradict the pool.
    """
    return Scheduler(
        policy,
        num_blocks=pool.num_blocks,
        block_size=pool.block_size,
        max_model_len=pool.max_model_len,
        num_host_blocks=pool.num_host_blocks,
        vocab_size=pool.vocab_size,
        clock=clock.now,
        snapshot_waiting_limit=0,
    )


def requests_of(trace: Trace, *, vocab_size: int | None = None, seed: int = 0) -> tuple[Request, ...]:
    """The trace's requests as a scheduler takes them: greedy, exactly ``output_len`` tokens, arriving when due.

    Prompts that the trace does not spell out are random tokens of (seed, request id), the same in every arm; without
    a vocabulary one and the same token, which is enough where no model looks at it and no prefix is shared.
    """
    return tuple(_request(request, vocab_size, seed) for request in trace.requests)


def _request(asked: TraceRequest, vocab_size: int | None, seed: int) -> Request:
    prompt: Sequence[int] = asked.prompt
    if not prompt and vocab_size is None:
        prompt = (FILLER_TOKEN,) * asked.prompt_len
    elif not prompt and vocab_size is not None:
        prompt = random_prompt(random.Random(f"{seed} {asked.request_id}"), asked.prompt_len, vocab_size)
    return Request(
        request_id=asked.request_id,
        prompt_token_ids=tuple(prompt),
        sampling=SamplingParams(max_tokens=asked.output_len, ignore_eos=True),
        priority=asked.priority,
        arrival_time=asked.arrival_s,
    )


def drive(
    executor: Executor,
    scheduler: Scheduler,
    trace: Trace,
    clock: Clock,
    about: About,
    *,
    requests: Sequence[Request] | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run a trace to its end, open loop: a request is added once it is due, whatever still runs.

    One that falls due during a step is added right after it, and its latencies count from when it was due. When
    nothing is due and nothing runs, the driver waits for the next arrival. It stops early, saying why in
    ``Run.stopped``, when ``watch`` says so or when what waits can never run.

    scheduler: fresh, with ``clock.now`` as its clock (``fresh_scheduler``). requests: those of ``requests_of``, made
    beforehand so that a wall clock does not run meanwhile; None = without a vocabulary. Nothing of the run is left in
    the executor. ``overhead_share`` is set where the conditions say "measured".
    """
    run = _Drive(executor, scheduler, trace, clock, requests or requests_of(trace), watch or _go_on)
    policy, began_at, cpu = scheduler.policy, datetime.now(UTC).isoformat(timespec="seconds"), time.process_time()
    run.to_the_end()
    cpu_s, overhead = time.process_time() - cpu, run.overhead_share()
    recorder, wall_s = run.recorder, run.last_end_s
    rows = recorder.requests(trace.requests, scheduler.sequences()[2], run.stopped, wall_s)
    totals = scheduler.totals
    run.clear_executor()
    measured = about.conditions.kind == "measured"
    return Run(
        label=about.label,
        repeat=about.repeat,
        position=about.position,
        policy=policy,
        trace_name=trace.name,
        trace_sha256=trace.sha256,
        trace_origin=trace.origin,
        conditions=replace(about.conditions, overhead_share=overhead) if measured else about.conditions,
        requests=rows,
        steps=tuple(recorder.steps),
        events=tuple(recorder.events),
        totals=totals,
        wall_s=wall_s,
        cpu_s=cpu_s,
        began_at=began_at,
        stopped=run.stopped,
    )


class _Drive:
    """The loop of one run, and its accounts of time."""

    def __init__(
        self,
        executor: Executor,
        scheduler: Scheduler,
        trace: Trace,
        clock: Clock,
        requests: Sequence[Request],
        watch: Watch,
    ) -> None:
        self._executor = executor
        self._scheduler = scheduler
        self._clock = clock
        self._watch = watch
        self._coming = [(asked.arrival_s, request) for asked, request in zip(trace.requests, requests, strict=True)]
        self._coming.reverse()
        self.recorder = Recorder()
        self.stopped = ""
        self.last_end_s = 0.0
        self._fruitless = 0
        self._began_s = clock.now()
        self._engine_s = self._waited_s = 0.0

    def to_the_end(self) -> None:
        """Until every request has ended, or there is a reason to stop."""
        scheduler = self._scheduler
        while self._coming or scheduler.has_unfinished:
            self.stopped = self._watch(self._clock.now(), len(self.recorder.records))
            if self.stopped:
                break
            self._add_due()
            if scheduler.has_unfinished and self._fruitless < 2:
                self._step()
            elif self._coming:
                self._wait()
            elif scheduler.has_unfinished:
                self.stopped = self._why_stalled()
                break
        self.recorder.took(scheduler.peek())

    def clear_executor(self) -> None:
        """End what a stopped run left, and let the executor drop what it keeps of this run's requests."""
        scheduler = self._scheduler
        for request_id in list(scheduler.sequences()[2]):
            scheduler.abort(request_id)
        while scheduler.has_work:
            scheduler.update(self._executor.execute(scheduler.schedule()))

    def overhead_share(self) -> float:
        """The part of the time so far that was neither the engine's (schedule, execute, update) nor waiting."""
        whole = self._clock.now() - self._began_s
        return max(0.0, whole - self._engine_s - self._waited_s) / whole if whole > 0 else 0.0

    def _add_due(self) -> None:
        now = self._clock.now()
        while self._coming and self._coming[-1][0] <= now:
            self._scheduler.add(self._coming.pop()[1])
            self._fruitless = 0

    def _wait(self) -> None:
        before = self._clock.now()
        self._clock.wait_until(self._coming[-1][0])
        self._waited_s += self._clock.now() - before

    def _step(self) -> None:
        scheduler, now = self._scheduler, self._clock.now
        start = now()
        step = scheduler.schedule()
        scheduled = now()
        planned = self.recorder.planned(scheduler)
        execute = now()
        result = self._executor.execute(step)
        executed = now()
        snapshot = scheduler.update(result)
        self.last_end_s = end = now()
        self._engine_s += (scheduled - start) + (end - execute)
        times = StepTimes(start, scheduled, execute, executed, end)
        self.recorder.done(step, planned, result, snapshot, times, scheduler)
        moved = not step.is_empty or step.preempted or step.swapped_in or snapshot.finished
        self._fruitless = 0 if moved else self._fruitless + 1

    def _why_stalled(self) -> str:
        waiting = self._scheduler.waiting_ids
        if not waiting:
            return "stalled: what runs can get no token any more"
        reasons = [event.reason for event in self.recorder.events if event.kind == "deferred"]
        return f"stalled: {waiting[0]} waits for ever: {reasons[-1] if reasons else 'nothing can be planned'}"


def _go_on(now_s: float, ended: int) -> str:
    return ""
