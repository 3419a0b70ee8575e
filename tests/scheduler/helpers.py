"""A scheduler with a model that samples a fixed token, for tests that look at single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler import (
    Request,
    SamplingParams,
    Scheduler,
    SchedulerPolicy,
    ScheduleStep,
    StepEvent,
    StepResult,
    StepSnapshot,
)
from scheduler.invariants import check, check_snapshot, check_step
from scheduler.simulate import VirtualClock

TOKEN = 1


def request(name: str, prompt: int, max_tokens: int | None, *, priority: int = 0, **sampling: object) -> Request:
    """A request of ``prompt`` tokens; further keywords go to SamplingParams."""
    return Request(name, tuple(range(prompt)), SamplingParams(max_tokens=max_tokens, **sampling), priority)


@dataclass
class Bench:
    """A scheduler on a virtual clock that moves one second a step; keeps every step and snapshot."""

    scheduler: Scheduler
    clock: VirtualClock
    steps: list[ScheduleStep]
    snapshots: list[StepSnapshot]
    token_of: Callable[[str], int]

    def add(self, *requests: Request) -> None:
        for item in requests:
            outcome = self.scheduler.add(item)
            assert outcome.accepted, outcome.reason

    def step(self) -> tuple[ScheduleStep, StepSnapshot]:
        before = len(self.scheduler.running_ids)
        planned = self.scheduler.schedule()
        check_step(self.scheduler, planned, running_before=before)
        sampled = {name: self.token_of(name) for name in planned.sampling_ids}
        snapshot = self.scheduler.update(StepResult(planned.step_id, sampled))
        check(self.scheduler)
        check_snapshot(snapshot)
        self.clock.now += 1.0
        self.steps.append(planned)
        self.snapshots.append(snapshot)
        return planned, snapshot

    def drain(self, limit: int = 2_000) -> int:
        """Step until everything has ended; returns the steps taken since the start."""
        while self.scheduler.has_unfinished:
            self.step()
            assert len(self.steps) <= limit, "does not end"
        return len(self.steps)

    def events(self, kind: str, request_id: str | None = None) -> list[StepEvent]:
        return [
            event
            for snapshot in self.snapshots
            for event in snapshot.events
            if event.kind == kind and request_id in (None, event.request_id)
        ]

    def plan(self, index: int) -> dict[str, int]:
        return dict(self.steps[index].num_scheduled_tokens)

    def ends(self) -> dict[str, int]:
        """Step index at which each request finished, from 0."""
        return {name: index for index, snapshot in enumerate(self.snapshots) for name in snapshot.finished}

    def used(self) -> list[int]:
        """Blocks in use after each step."""
        return [snapshot.num_used_blocks for snapshot in self.snapshots]


def bench(
    requests: Sequence[Request] = (),
    *,
    num_blocks: int,
    block_size: int = 4,
    max_model_len: int = 512,
    token_of: Callable[[str], int] = lambda name: TOKEN,
    eos_token_ids: tuple[int, ...] = (),
    vocab_size: int | None = None,
    num_host_blocks: int | None = None,
    **policy: object,
) -> Bench:
    """A bench with the catalogue's defaults: 64 tokens a step, 8 requests; further keywords are policy fields."""
    fields = {"max_num_batched_tokens": 64, "max_num_seqs": 8, "prefill_mix": "running_order"} | policy
    clock = VirtualClock()
    scheduler = Scheduler(
        SchedulerPolicy(**fields),
        num_blocks=num_blocks,
        block_size=block_size,
        max_model_len=max_model_len,
        eos_token_ids=eos_token_ids,
        clock=clock,
        vocab_size=vocab_size,
        num_host_blocks=num_host_blocks,
    )
    made = Bench(scheduler, clock, [], [], token_of)
    made.add(*requests)
    return made
