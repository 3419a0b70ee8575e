"""A trace through the real scheduler on a virtual clock: every decision is made, no token is computed."""

from __future__ import annotations

import platform
import time
from dataclasses import replace
from typing import Final

import numpy as np

from experiments.record import Conditions, Run
from experiments.runs.clock import VirtualClock
from experiments.runs.driver import About, PoolShape, drive, fresh_scheduler, requests_of
from experiments.runs.recorder import Recorder, StepTimes
from experiments.trace import Trace
from experiments.virtual.cost import CostModel
from experiments.virtual.work import work_of_step
from scheduler import Request, SchedulerPolicy, ScheduleStep, StepResult
from scheduler.simulate import FILLER_TOKEN

VOCABULARY: Final = 32_000
"""Random prompts draw from so many token ids where a prefix cache compares them; else no prompt is looked at."""

COMPARED: Final = ("scheduled", "preempted", "num_running", "num_waiting", "used_blocks")
"""Fields of a step that two runs must share to have decided alike."""


class CostExecutor:
    """Computes nothing: lets the clock of the run advance by what a cost model asks, and samples filler tokens."""

    def __init__(self, cost_model: CostModel, clock: VirtualClock) -> None:
        self._cost_model = cost_model
        self._clock = clock

    def execute(self, step: ScheduleStep) -> StepResult:
        """A filler token for each row that samples."""
        if not step.is_empty or step.swapped_out or step.swapped_in:
            self._clock.advance(self._cost_model.seconds(work_of_step(step)))
        return StepResult(step.step_id, dict.fromkeys(step.sampling_ids, FILLER_TOKEN))


def simulate(
    policy: SchedulerPolicy,
    trace: Trace,
    cost_model: CostModel,
    pool: PoolShape,
    *,
    seed: int = 0,
    label: str = "simulated",
    repeat: int = 0,
    position: int = 0,
) -> Run:
    """Run a trace to its end. The same arguments give the same schedule and the same times.

    A request becomes known at the first step that begins at or after its arrival, as with a real engine. A step takes
    ``cost_model.seconds``; nothing else takes time. seed: of prompts the trace does not spell out, which matter to a
    prefix cache only. Raises ValueError for an illegal policy or size.
    """
    clock = VirtualClock()
    run = drive(
        CostExecutor(cost_model, clock),
        fresh_scheduler(policy, pool, clock),
        trace,
        clock,
        About(conditions_of(pool, seed, cost_model.describe()), label, repeat, position),
        requests=_requests(trace, policy, seed),
    )
    return replace(run, began_at="")


def replay(run: Run, trace: Trace) -> Run:
    """The same policy and trace again, with the times of ``run`` fed back.

    Each request is taken in when the run took it in, and each step begins and ends when it did there. Decisions are a
    function of that, so the schedule must be the same step by step, whatever computed the tokens: ``difference`` says
    where it is not. Requests that the run never took in stay out. Raises ValueError for another trace.
    """
    if trace.sha256 != run.trace_sha256:
        raise ValueError(f"trace has the hash {trace.sha256[:12]}, the run is of {run.trace_sha256[:12]}")
    cpu, at = time.process_time(), run.conditions
    pool = PoolShape(at.num_blocks, at.block_size, at.max_model_len, at.num_host_blocks)
    clock = VirtualClock()
    scheduler, recorder = fresh_scheduler(run.policy, pool, clock), Recorder()
    asked = {request.request_id: request for request in _requests(trace, run.policy, at.seed)}
    taken_in = [(event.time, asked[event.request_id]) for event in run.events if event.kind in ("queued", "rejected")]
    taken_in.reverse()
    for row in run.steps:
        while taken_in and taken_in[-1][0] <= row.start_s:
            clock.wait_until(taken_in[-1][0])
            scheduler.add(taken_in.pop()[1])
        clock.wait_until(row.start_s)
        step = scheduler.schedule()
        planned = recorder.planned(scheduler)
        clock.wait_until(row.end_s)
        result = StepResult(step.step_id, dict.fromkeys(step.sampling_ids, FILLER_TOKEN))
        snapshot = scheduler.update(result)
        times = StepTimes(row.start_s, row.start_s, row.start_s, row.end_s, row.end_s)
        recorder.done(step, planned, result, snapshot, times, scheduler)
    return replace(
        run,
        label=f"{run.label} replayed",
        conditions=conditions_of(pool, at.seed, "the times measured for each step, fed back"),
        requests=recorder.requests(trace.requests, scheduler.sequences()[2], run.stopped, run.wall_s),
        steps=tuple(recorder.steps),
        events=tuple(recorder.events),
        totals=scheduler.totals,
        cpu_s=time.process_time() - cpu,
        began_at="",
    )


def difference(one: Run, other: Run) -> str:
    """The first step in which two runs decided something else, in words; "" when all steps are the same."""
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)):
        for name in COMPARED:
            if getattr(a, name) != getattr(b, name):
                return f"step {index}: {name} is {getattr(a, name)!r:.200} and {getattr(b, name)!r:.200}"
    return "" if len(one.steps) == len(other.steps) else f"{len(one.steps)} steps and {len(other.steps)}"


def _requests(trace: Trace, policy: SchedulerPolicy, seed: int) -> tuple[Request, ...]:
    return requests_of(trace, vocab_size=VOCABULARY if policy.enable_prefix_caching else None, seed=seed)


def conditions_of(pool: PoolShape, seed: int, cost_model: str) -> Conditions:
    """What a simulated run says of itself."""
    return Conditions(
        kind="simulated",
        model="none: decisions only",
        dtype="",
        device="virtual clock",
        threads=0,
        num_blocks=pool.num_blocks,
        block_size=pool.block_size,
        max_model_len=pool.max_model_len,
        num_host_blocks=pool.num_host_blocks,
        seed=seed,
        warm_up="none needed",
        measured_where="end of the virtual step that samples the token",
        cost_model=cost_model,
        versions={"python": platform.python_version(), "numpy": np.__version__},
    )
