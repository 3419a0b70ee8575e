"""Preemptions: who was evicted, for whom, at what price, when it came back, and what all of it cost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from model_runner.messages import EngineSnapshot
from scheduler import ResumeRecord, StepEvent, StepTimings

KEPT: Final = 40


@dataclass(frozen=True, slots=True)
class Eviction:
    """One preemption. back_step: step of its readmission, None = not yet; ended: it was aborted before that.

    for_request_id: whose tokens needed the room, "" when nobody's. recompute_tokens: to be computed again.
    mode: "recompute" or "swap"; moved_blocks: copied to the host pool. host_full: the swap it was to be found no room
    there. cost: what it came to, None until the victim has caught up.
    """

    run_id: str
    step_id: int
    request_id: str
    mark: int
    for_request_id: str
    rule: str
    freed_blocks: int
    recompute_tokens: int
    time: float
    back_step: int | None = None
    away_s: float | None = None
    ended: bool = False
    mode: str = "recompute"
    moved_blocks: int = 0
    host_full: bool = False
    cost: ResumeRecord | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """All evictions whose victim has caught up, summed, beside the time of useful work. Seconds, tokens and blocks.

    num_steps: steps they were counted over, all that this server has seen. num_evictions: measured ones. useful_s:
    execute time that fell to no recomputed token. recompute_s, swap_s: time spent on computing again and on copying.
    delay_s: of the victims, from eviction to catching up, summed.
    """

    num_evictions: int = 0
    recompute_tokens: int = 0
    moved_blocks: int = 0
    useful_s: float = 0.0
    recompute_s: float = 0.0
    swap_s: float = 0.0
    delay_s: float = 0.0
    num_steps: int = 0

    @property
    def work_s(self) -> float:
        """All time the device spent."""
        return self.useful_s + self.recompute_s + self.swap_s

    def with_step(self, timings: StepTimings, resumes: tuple[ResumeRecord, ...]) -> Costs:
        """With one step more. The execute time of a recompute counts as useful until its record comes."""
        again = sum(r.work_s for r in resumes if r.mode != "swap")
        return Costs(
            num_evictions=self.num_evictions + len(resumes),
            recompute_tokens=self.recompute_tokens + sum(r.recompute_tokens for r in resumes),
            moved_blocks=self.moved_blocks + sum(r.moved_blocks for r in resumes),
            useful_s=max(0.0, self.useful_s + timings.execute_s - again),
            recompute_s=self.recompute_s + again,
            swap_s=self.swap_s + sum(r.work_s for r in resumes if r.mode == "swap"),
            delay_s=self.delay_s + sum(r.caught_up_at - r.evicted_at for r in resumes),
            num_steps=self.num_steps + 1,
        )


class EvictionBook:
    """Newest first. One writer: the hub."""

    def __init__(self) -> None:
        self._evictions: deque[Eviction] = deque(maxlen=KEPT)
        self._costs = Costs()

    def add(self, snapshot: EngineSnapshot, marks: dict[str, int]) -> None:
        """Take the events and costs of one step."""
        step = snapshot.step
        for event in step.events:
            if event.kind == "preempted":
                self._evictions.appendleft(_eviction(event, snapshot.run_id, marks))
            elif event.kind in ("resumed", "aborted", "finished"):
                self._close(snapshot.run_id, event)
        for record in step.resumes:
            self._price(snapshot.run_id, record)
        self._costs = self._costs.with_step(step.timings, step.resumes)

    def _close(self, run_id: str, event: StepEvent) -> None:
        for i, eviction in enumerate(self._evictions):
            same = (eviction.run_id, eviction.request_id) == (run_id, event.request_id)
            if same and eviction.back_step is None and not eviction.ended:
                if event.kind == "resumed":
                    change = replace(eviction, back_step=event.step_id, away_s=event.time - eviction.time)
                else:
                    change = replace(eviction, ended=True)
                self._evictions[i] = change

    def _price(self, run_id: str, record: ResumeRecord) -> None:
        wanted = (run_id, record.evicted_step, record.request_id)
        for i, eviction in enumerate(self._evictions):
            if (eviction.run_id, eviction.step_id, eviction.request_id) == wanted:
                self._evictions[i] = replace(eviction, cost=record)

    def list(self) -> tuple[Eviction, ...]:
        """Newest first."""
        return tuple(self._evictions)

    @property
    def costs(self) -> Costs:
        """The sum so far."""
        return self._costs


def _eviction(event: StepEvent, run_id: str, marks: dict[str, int]) -> Eviction:
    numbers = event.numbers
    return Eviction(
        run_id=run_id,
        step_id=event.step_id,
        request_id=event.request_id,
        mark=marks.get(event.request_id, -1),
        for_request_id=str(numbers.get("for_request_id", "")),
        rule=event.reason,
        freed_blocks=int(numbers.get("freed_blocks", 0)),
        recompute_tokens=int(numbers.get("recompute_tokens", 0)),
        time=event.time,
        mode=str(numbers.get("mode", "recompute")),
        moved_blocks=int(numbers.get("moved_blocks", 0)),
        host_full="host_free_blocks" in numbers,
    )
