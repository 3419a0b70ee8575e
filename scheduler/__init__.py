"""Every decision about which tokens run next. The standard library only."""

from scheduler.events import DEFER_REASONS, EVENT_KINDS, TERMINAL_KINDS, StepEvent
from scheduler.outcomes import AbortOutcome, AddOutcome, PolicyOutcome
from scheduler.policy import SchedulerPolicy
from scheduler.request import Request, SamplingParams
from scheduler.snapshot import (
    RequestRecord,
    RunningRow,
    RunningTable,
    StepSnapshot,
    Totals,
    WaitingRow,
    WaitingTable,
)
from scheduler.step import BlockMove, ScheduleStep, StepResult, StepTimings

__all__ = [
    "DEFER_REASONS",
    "EVENT_KINDS",
    "TERMINAL_KINDS",
    "AbortOutcome",
    "AddOutcome",
    "BlockMove",
    "PolicyOutcome",
    "Request",
    "RequestRecord",
    "RunningRow",
    "RunningTable",
    "SamplingParams",
    "ScheduleStep",
    "SchedulerPolicy",
    "StepEvent",
    "StepResult",
    "StepSnapshot",
    "StepTimings",
    "Totals",
    "WaitingRow",
    "WaitingTable",
]
