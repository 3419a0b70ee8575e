"""Why requests wait: the events. The rows of the waiting table carry the same reasons at every step."""

from __future__ import annotations

from scheduler.event_log import EventLog
from scheduler.proposals import Blocked, Deferral
from scheduler.sequence import Sequence, State


class Explainer:
    """Writes ``deferred`` events: one for the head whenever its reason changes, one for each newcomer that must wait.

    So a request that waits has at least one event, and a queue of any length costs nothing in a step.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._last: tuple[str, str, str] = ("", "", "")
        self._blocked: set[str] = set()

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
        others = {other.request_id: other for other in deferral.others}
        for seq in newly_queued:
            if seq.state is State.WAITING and seq.request_id != deferral.request_id:
                own = others.get(seq.request_id)
                if own is None:
                    self._defer(seq.request_id, reason, blocked_by, deferral, now)
                else:
                    self._defer(seq.request_id, own.reason, own.blocked_by, own, now)

    def explain_blocked(self, blocked: list[Blocked], now: float) -> None:
        """Note each running request that begins to wait for blocks (preemption "never")."""
        for each in blocked:
            if each.seq.request_id not in self._blocked:
                wait = Deferral("kv_capacity", each.seq.request_id, each.needed_blocks, each.free_blocks)
                self._defer(wait.request_id, wait.reason, "", wait, now)
        self._blocked = {each.seq.request_id for each in blocked}

    def _defer(self, request_id: str, reason: str, blocked_by: str, deferral: Deferral, now: float) -> None:
        run = {"longest_run": deferral.longest_run} if reason == "allocator_fragmented" else {}
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
            **run,
        )
