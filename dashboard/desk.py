"""Where the controls of all pages meet: one change at a time, each built on the one before it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from model_runner.views import PolicyReply
from scheduler import SchedulerPolicy

if TYPE_CHECKING:
    from model_runner.client import RunnerClient


@dataclass(frozen=True, slots=True)
class Change:
    """What was asked for, and the engine's answer."""

    before: SchedulerPolicy
    wanted: SchedulerPolicy
    reply: PolicyReply


class Desk:
    """The policy as the engine has confirmed it, which its snapshots show only a step later.

    Invariant: a change starts from the newest confirmed policy. Built on the newest *published* one, the second of two
    quick changes would undo the first, and a control would jump back under the hand that moves it.
    """

    def __init__(self, client: RunnerClient) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._confirmed: SchedulerPolicy | None = None
        self._run_id = ""

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force, or that of the next start."""
        published, confirmed = self.client.policy, self._confirmed
        if confirmed is None or confirmed.version <= published.version or self._run_id != self._present_run():
            return published
        return confirmed

    def settle(self) -> None:
        """Wait for a change that is under way, a few seconds at most.

        A page may be drawn anew while the callback of a control still waits for the engine's answer in another thread.
        Drawn with the policy from before, the control would be set back, and the browser would send that as a choice.
        """
        with self._lock:
            pass

    def change(self, edit: Callable[[SchedulerPolicy], SchedulerPolicy]) -> Change:
        """Put ``edit`` of the policy in force."""
        with self._lock:
            before = self.policy
            wanted = edit(before)
            reply = self.client.set_policy(wanted)
            if reply.accepted:
                self._run_id = self._present_run()
                self._confirmed = replace(wanted, version=reply.version)
            return Change(before, wanted, reply)

    def _present_run(self) -> str:
        latest = self.client.latest
        return latest.run_id if latest else ""
