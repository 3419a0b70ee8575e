"""An executor that takes a known time a step, for checks by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments.record import Conditions
from experiments.runs.clock import VirtualClock
from experiments.runs.driver import About, PoolShape, drive, fresh_scheduler
from experiments.trace import Trace, TraceOrigin, TraceRequest
from scheduler import SchedulerPolicy, ScheduleStep, StepResult, StepTimings

CONDITIONS = Conditions("simulated", "none", "none", "none", 0, 64, 4, 64, 0, 0, "none", cost_model="1 s a step")
POOL = PoolShape(num_blocks=64, block_size=4, max_model_len=64)


@dataclass
class OneSecond:
    """Each step that computes something takes one second."""

    clock: VirtualClock
    steps: list[ScheduleStep] = field(default_factory=list)

    def execute(self, step: ScheduleStep) -> StepResult:
        self.steps.append(step)
        seconds = 0.0 if step.is_empty else 1.0
        self.clock.advance(seconds)
        return StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 7), StepTimings(execute_s=seconds))


def trace_of(*rows: tuple[float, int, int], name: str = "t") -> Trace:
    """Requests r0, r1, ... of (arrival_s, prompt_len, output_len)."""
    requests = tuple(TraceRequest(f"r{index}", *row) for index, row in enumerate(rows))
    return Trace(name, requests, TraceOrigin("test", "by hand"))


def virtual_run(trace: Trace, policy: SchedulerPolicy, pool: PoolShape = POOL, watch=None):
    """(run, executor) of a trace on the virtual clock."""
    clock = VirtualClock()
    executor = OneSecond(clock)
    run = drive(executor, fresh_scheduler(policy, pool, clock), trace, clock, About(CONDITIONS), watch=watch)
    return run, executor
