"""Why requests wait: the events. The rows of the waiting table carry the same reasons at every step."""

from __future__ import annotations

from scheduler.event_log import EventLog
from scheduler.plan import Deferral
from scheduler.sequence import Sequence, State


class Explainer:
    """Writes ``deferred`` events: one for the head whenever its reason changes, one for each newcomer that must wait.

    So a request that waits has at least one event, and a queue of any length costs nothing in a step.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._last: tuple[str, str, str] = ("", "", "")

    def explain(self, deferral: Deferral | None, newly_queued: list[Sequence], now: float) -> None:
        """Note what a step's walk over the queue ended with."""
        if deferral is None:
            self._last = ("", "", "")
            return
        current = (deferral.request_id, deferral.reason, deferral.blocked_by)
        if current != self._last:
            self._defer(deferral.request_id, deferral.reason, deferral.blocked_by, deferral, now)
            self._last = current
        reason, blocked_by = deferral.behind
        for seq in newly_queued:
            if seq.state is State.WAITING and seq.request_id != deferral.request_id:
                self._defer(seq.request_id, reason, blocked_by, deferral, now)

    def _defer(self, request_id: str, reason: str, blocked_by: str, deferral: Deferral, now: float) -> None:
        self._log.add(
            "deferred",
            request_id,
            now,
            reason,
            needed_blocks=deferral.needed_blocks,
            free_blocks=deferral.free_blocks,
            blocked_by=blocked_by,
            watermark_blocks=deferral.watermark_blocks,
            budget_left=deferral.budget_left,
        )
