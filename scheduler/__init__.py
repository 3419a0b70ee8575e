"""Every decision about which tokens run next. The standard library only."""

from scheduler.allocation import Allocator
from scheduler.block_pool import InvariantError, KVBlockPool
from scheduler.columns import RunningRow, RunningTable, WaitingRow, WaitingTable
from scheduler.events import DEFER_REASONS, EVENT_KINDS, TERMINAL_KINDS, StepEvent
from scheduler.ordering import AdmissionOrder
from scheduler.outcomes import AbortOutcome, AddOutcome, PolicyOutcome, PreemptOutcome
from scheduler.plan import StepView
from scheduler.policy import FIELD_RANGES, FieldRange, SchedulerPolicy, choices, problems
from scheduler.presets import PRESET_NOTES, PRESETS, PresetNote
from scheduler.request import Request, SamplingParams
from scheduler.scheduler import Scheduler
from scheduler.sequence import SequenceView
from scheduler.snapshot import MemoryUse, RequestRecord, ResumeRecord, StepSnapshot, Totals
from scheduler.step import BlockMove, ScheduleStep, StepResult, StepTimings
from scheduler.victims import DraftView, VictimRule

__all__ = [
    "DEFER_REASONS",
    "EVENT_KINDS",
    "FIELD_RANGES",
    "PRESETS",
    "PRESET_NOTES",
    "TERMINAL_KINDS",
    "AbortOutcome",
    "AddOutcome",
    "AdmissionOrder",
    "Allocator",
    "BlockMove",
    "DraftView",
    "FieldRange",
    "InvariantError",
    "KVBlockPool",
    "MemoryUse",
    "PolicyOutcome",
    "PreemptOutcome",
    "PresetNote",
    "Request",
    "RequestRecord",
    "ResumeRecord",
    "RunningRow",
    "RunningTable",
    "SamplingParams",
    "ScheduleStep",
    "Scheduler",
    "SchedulerPolicy",
    "SequenceView",
    "StepEvent",
    "StepResult",
    "StepSnapshot",
    "StepTimings",
    "StepView",
    "Totals",
    "VictimRule",
    "WaitingRow",
    "WaitingTable",
    "choices",
    "problems",
]
