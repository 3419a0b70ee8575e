"""Events and records gathered since the last snapshot."""

from __future__ import annotations

from scheduler.events import Number, StepEvent
from scheduler.snapshot import RequestRecord


class EventLog:
    """Collects what happened, in order. step_id: the step events belong to; between steps, the one to come."""

    __slots__ = ("_events", "_records", "step_id")

    def __init__(self) -> None:
        self.step_id = 1
        self._events: list[StepEvent] = []
        self._records: list[RequestRecord] = []

    def add(self, kind: str, request_id: str, now: float, reason: str = "", **numbers: Number) -> None:
        """Note one event with the numbers behind it."""
        self._events.append(StepEvent(self.step_id, now, kind, request_id, reason, numbers))

    def record(self, record: RequestRecord) -> None:
        """Note the life of a request that ended."""
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._events)

    def since(self, count: int) -> tuple[StepEvent, ...]:
        """Events after the first ``count`` still kept."""
        return tuple(self._events[count:])

    def drain(self) -> tuple[tuple[StepEvent, ...], tuple[RequestRecord, ...]]:
        """Everything gathered; nothing is kept."""
        events, records = tuple(self._events), tuple(self._records)
        self._events, self._records = [], []
        return events, records
