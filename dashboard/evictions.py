"""The list of preemptions: who was evicted, for whom, at what price, and when it came back."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from model_runner.messages import EngineSnapshot

KEPT: Final = 40


@dataclass(frozen=True, slots=True)
class Eviction:
    """One preemption. back_step: step of its readmission, None = not yet; ended: it was aborted before that.

    for_request_id: whose tokens needed the room, "" when that is not known. recompute_tokens: to be computed again.
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


class EvictionBook:
    """Newest first. One writer: the hub."""

    def __init__(self) -> None:
        self._evictions: deque[Eviction] = deque(maxlen=KEPT)

    def add(self, snapshot: EngineSnapshot, marks: dict[str, int]) -> None:
        """Take the events of one step."""
        for event in snapshot.step.events:
            if event.kind == "preempted":
                numbers = event.numbers
                self._evictions.appendleft(
                    Eviction(
                        run_id=snapshot.run_id,
                        step_id=event.step_id,
                        request_id=event.request_id,
                        mark=marks.get(event.request_id, -1),
                        for_request_id=str(numbers.get("for_request_id", "")),
                        rule=event.reason,
                        freed_blocks=int(numbers.get("freed_blocks", 0)),
                        recompute_tokens=int(numbers.get("recompute_tokens", 0)),
                        time=event.time,
                    )
                )
            elif event.kind in ("resumed", "aborted", "finished"):
                self._close(event.request_id, event.kind, event.step_id, event.time)

    def _close(self, request_id: str, kind: str, step_id: int, time: float) -> None:
        for i, eviction in enumerate(self._evictions):
            if eviction.request_id == request_id and eviction.back_step is None and not eviction.ended:
                if kind == "resumed":
                    change = replace(eviction, back_step=step_id, away_s=time - eviction.time)
                else:
                    change = replace(eviction, ended=True)
                self._evictions[i] = change

    def list(self) -> tuple[Eviction, ...]:
        """Newest first."""
        return tuple(self._evictions)
