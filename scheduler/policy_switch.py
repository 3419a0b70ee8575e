"""The policy in force and the one that follows it: what may be asked for, and what a change does to those that run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from scheduler.event_log import EventLog
from scheduler.events import Number
from scheduler.lifecycle import Lifecycle
from scheduler.ordering import ORDERS
from scheduler.outcomes import PolicyOutcome
from scheduler.policy import SchedulerPolicy, problems
from scheduler.sharing import drop_cache

Problems = Callable[[SchedulerPolicy], tuple[str, ...]]
"""What stands between a legal policy and this scheduler's sizes, a sentence each."""


class PolicySwitch:
    """A policy that is asked for is refused whole, or becomes ``following`` until ``apply`` puts it in force.

    Raises ValueError when the first policy is not to be accepted.
    """

    def __init__(self, policy: SchedulerPolicy, conflicts: Problems, log: EventLog, clock: Callable[[], float]) -> None:
        self._conflicts = conflicts
        self._log = log
        self._clock = clock
        self.in_force = policy
        self.following: SchedulerPolicy | None = None
        wrong = self._problems(policy)
        if wrong:
            raise ValueError("; ".join(wrong))

    def _problems(self, policy: SchedulerPolicy) -> tuple[str, ...]:
        return problems(policy) or self._conflicts(policy)

    def ask(self, policy: SchedulerPolicy) -> PolicyOutcome:
        """Accept or refuse a policy. One equal to the newest keeps its version."""
        newest = self.following or self.in_force
        wrong = self._problems(policy)
        if wrong:
            self._log.add("policy_refused", "", self._clock(), "; ".join(wrong), version=newest.version)
            return PolicyOutcome(False, newest.version, wrong)
        if replace(policy, version=newest.version) == newest:
            return PolicyOutcome(True, newest.version)
        self.following = replace(policy, version=newest.version + 1)
        return PolicyOutcome(True, self.following.version)

    def apply(self, life: Lifecycle) -> None:
        """Put the policy that was accepted in force, if there is one.

        It evicts nobody, and ends only rows of a static batch that have all their tokens when the policy is no longer
        static: at once, since the next change may be static again, and they belong to no batch by then.
        """
        new, old = self.following, self.in_force
        if new is None:
            return
        self.in_force, self.following = new, None
        changes: dict[str, Number] = {
            item.name: f"{getattr(old, item.name)} -> {getattr(new, item.name)}"
            for item in fields(new)
            if item.name != "version" and getattr(old, item.name) != getattr(new, item.name)
        }
        self._log.add("policy_changed", "", self._clock(), "", **changes, version=new.version)
        if new.admission_order != old.admission_order:
            life.waiting.reorder(ORDERS[new.admission_order])
        if old.enable_prefix_caching and not new.enable_prefix_caching:
            drop_cache(life.running, life.pool)
        if new.batching != "static":
            life.end_held(new.batching, self._clock())
            for seq in life.running:
                seq.static_length = seq.static_position = 0
