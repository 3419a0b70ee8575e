"""A scheduler on a virtual clock: decisions only, no model. One step is one second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.policy import SchedulerPolicy
from scheduler.request import Request, SamplingParams
from scheduler.scheduler import Scheduler
from scheduler.snapshot import MemoryUse, StepSnapshot
from scheduler.step import ScheduleStep, StepResult
from scheduler.workload import WorkloadRequest

FILLER_TOKEN = 0
"""The token every row samples: values do not matter to decisions, and ends are by length only."""


class VirtualClock:
    """Seconds that move only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Planned:
    """What is true right after planning, before any token is sampled."""

    step: ScheduleStep
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    computed: dict[str, int]
    block_ids: dict[str, tuple[int, ...]]
    used_blocks: int
    memory: MemoryUse


class StalledError(RuntimeError):
    """Requests wait and no step will ever plan anything."""


class Simulation:
    """Feeds requests to a scheduler by step index and answers every sampling row with a filler token.

    Arrivals of one step come in the order given and share one arrival time, the index of the step.
    """

    def __init__(
        self,
        policy: SchedulerPolicy,
        requests: Sequence[WorkloadRequest],
        *,
        num_blocks: int,
        block_size: int,
        max_model_len: int,
        refuse_conflicts: bool = True,
    ) -> None:
        self.clock = VirtualClock()
        self.scheduler = Scheduler(
            policy,
            num_blocks=num_blocks,
            block_size=block_size,
            max_model_len=max_model_len,
            clock=self.clock,
            refuse_conflicts=refuse_conflicts,
        )
        self._arrivals = sorted(requests, key=lambda request: request.arrival_step)
        self._next = 0
        self._index = 0

    def run(self) -> Iterator[tuple[Planned, StepSnapshot]]:
        """Step until every request has ended; steps without work, before an arrival, are steps too.

        Raises StalledError when nothing is planned although no more requests will come.
        """
        scheduler, stalled = self.scheduler, 0
        while self._next < len(self._arrivals) or scheduler.has_unfinished:
            self._arrive()
            planned = self._plan()
            sampled = dict.fromkeys(planned.step.sampling_ids, FILLER_TOKEN)
            snapshot = scheduler.update(StepResult(planned.step.step_id, sampled))
            yield planned, snapshot
            self._index += 1
            moved = not planned.step.is_empty or planned.step.preempted or snapshot.finished
            waits = scheduler.has_unfinished and self._next == len(self._arrivals)
            stalled = stalled + 1 if waits and not moved else 0
            if stalled > 1:
                raise StalledError(self._why_stalled(snapshot))

    def _why_stalled(self, snapshot: StepSnapshot) -> str:
        if not len(snapshot.waiting):
            return f"step {self._index}: {snapshot.running[0].request_id} runs, but no token can be planned for it"
        row = snapshot.waiting[0]
        return (
            f"step {self._index}: nothing can be planned any more; {row.request_id} waits: {row.reason} "
            f"({row.needed_blocks} blocks needed, {row.free_blocks} free)"
        )

    def _arrive(self) -> None:
        self.clock.now = float(self._index)
        while self._next < len(self._arrivals) and self._arrivals[self._next].arrival_step <= self._index:
            spec = self._arrivals[self._next]
            self._next += 1
            self.scheduler.add(
                Request(
                    request_id=spec.request_id,
                    prompt_token_ids=spec.prompt or (FILLER_TOKEN,) * spec.prompt_len,
                    sampling=SamplingParams(max_tokens=spec.output_len, ignore_eos=True),
                    priority=spec.priority,
                    arrival_time=float(spec.arrival_step),
                )
            )

    def _plan(self) -> Planned:
        scheduler = self.scheduler
        step = scheduler.schedule()
        return Planned(
            step=step,
            running=scheduler.running_ids,
            waiting=scheduler.waiting_ids,
            computed=scheduler.computed_tokens,
            block_ids=scheduler.block_tables,
            used_blocks=scheduler.pool.num_used_blocks,
            memory=scheduler.memory_use,
        )
