"""What the client learns from one run after the other: history, requests, marks, the policy in force."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from model_runner.conversation import Heard
from model_runner.health import StallWatch, live_phase
from model_runner.history import History
from model_runner.journal import Journal
from model_runner.link import CaughtUp, Received
from model_runner.messages import EngineSnapshot, SetPolicy, Submit
from model_runner.traffic import TrafficClock
from model_runner.views import ClientPhase
from scheduler import SchedulerPolicy

_log = logging.getLogger(__name__)

WORKS_AFTER_S = 5.0
_GAP_TEXT = "this reader was too slow; some steps are not shown, no token is missing"


class Follower:
    """Writes history and journal. One thread; ``is_live``, ``heard_at`` and ``policy`` may be read from any.

    policy: in force, or that of the next start. observers: called with every snapshot. heard_at: monotonic seconds of
    the newest snapshot, None before the first.
    """

    def __init__(self, history: History, journal: Journal, policy: SchedulerPolicy) -> None:
        self.policy = policy
        self.heard_at: float | None = None
        self.traffic: TrafficClock | None = None
        self.observers: tuple[Callable[[EngineSnapshot], None], ...] = ()
        self._failed_observers: tuple[Callable[[EngineSnapshot], None], ...] = ()
        self._history = history
        self._journal = journal
        self._stall = StallWatch()
        self._live_since: float | None = None
        self._restart_text = ""

    @property
    def is_live(self) -> bool:
        """True from the first snapshot of a run to its end: commands reach an engine."""
        return self._live_since is not None

    @property
    def works(self) -> bool:
        """True when this run has computed a step, or lived a while."""
        latest = self._history.latest
        if self._live_since is None or latest is None:
            return False
        return latest.step.totals.steps > 0 or time.monotonic() - self._live_since > WORKS_AFTER_S

    def begin_run(self, restart_text: str) -> None:
        """Another run is started. restart_text: why, for the mark at its first snapshot; "" = it is the first."""
        self._stall = StallWatch()
        self._live_since = None
        self._restart_text = restart_text

    def end_run(self) -> None:
        """The run is over; what it had not finished goes back into the journal."""
        self._live_since = None
        self._journal.worker_lost()

    def take(self, heard: Heard) -> None:
        """Take what a conversation brought."""
        for answer in heard.answers:
            if isinstance(answer.command, SetPolicy) and answer.reply.ok:
                self.policy = replace(answer.command.policy, version=answer.reply.version)
            elif isinstance(answer.command, Submit):
                self._journal.answered(answer.command.request_id, answer.reply)
        for caught_up in heard.caught_up:
            self._catch_up(caught_up)
        for received in heard.snapshots:
            self._journal.apply(received.snapshot)
            self._show(received)

    def _catch_up(self, caught: CaughtUp) -> None:
        missed = caught.snapshots[: caught.states_after]
        if caught.gap:
            records = {r.request_id: r for received in missed for r in received.snapshot.step.records}
            self._journal.replace(caught.states, records)
        for index, received in enumerate(caught.snapshots):
            if not caught.gap or index >= caught.states_after:
                self._journal.apply(received.snapshot)
            self._show(received)
        if caught.gap:
            self._history.mark("gap", _GAP_TEXT)

    def _show(self, received: Received) -> None:
        now = time.monotonic()
        snapshot = received.snapshot
        self.heard_at = now
        self._history.add(snapshot, received.num_bytes)
        self._show_observers(snapshot)
        self._stall.observe(snapshot, now)
        if snapshot.step.policy.version >= self.policy.version:
            self.policy = snapshot.step.policy
        if self._live_since is None:
            self._live_since = now
            if self.traffic is not None:
                self.traffic.start_run(snapshot.engine_time)
            if self._restart_text:
                self._history.mark("restart", self._restart_text)

    def _show_observers(self, snapshot: EngineSnapshot) -> None:
        for observer in self.observers:
            try:
                observer(snapshot)
            except Exception:
                # Whoever merely looks must not end the thread that keeps the requests of all, nor flood the log.
                if observer not in self._failed_observers:
                    self._failed_observers = (*self._failed_observers, observer)
                    _log.exception("an observer failed at step %d", snapshot.step.step_id)

    def advance_traffic(self) -> None:
        """Let the traffic's clock follow the engine's."""
        latest = self._history.latest
        if self.traffic is not None and latest is not None and self.heard_at is not None:
            waiting = max(0, self._journal.num_unfinished - len(latest.step.running))
            self.traffic.follow(latest, time.monotonic() - self.heard_at, waiting)

    def phase(self, now: float) -> tuple[ClientPhase, str] | None:
        """Phase and message while live, else None."""
        latest = self._history.latest
        if not self.is_live or latest is None:
            return None
        return live_phase(latest, self._stall.verdict(now), self._stall.long_step(now), self._restart_text)
