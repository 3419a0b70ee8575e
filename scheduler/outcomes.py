"""Answers of the scheduler to what is asked of it. Bad input is an outcome, never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """Answer to ``Scheduler.add``; ``reason`` names field, value and limit when not accepted."""

    accepted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AbortOutcome:
    """Answer to ``Scheduler.abort``."""

    kind: Literal["aborted", "unknown", "already_finished"]


@dataclass(frozen=True, slots=True)
class PreemptOutcome:
    """Answer to ``Scheduler.preempt``: "preempted" = it is evicted by the next step, if it still runs then."""

    kind: Literal["preempted", "unknown", "not_running"]


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """Answer to ``Scheduler.set_policy``.

    version: the version in force from the next step (unchanged when refused).
    reasons: one sentence a problem, each naming the field, its value and what would be right.
    """

    accepted: bool
    version: int
    reasons: tuple[str, ...] = ()
