"""The state after a step, frozen, for everybody who looks and nobody who writes.

Rows are kept as columns: a step with a thousand decodes then costs a few tuples, not a thousand objects, and a table
travels to a browser as it is. ``table[i]`` and iteration build single rows for those who prefer them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from scheduler.events import StepEvent
from scheduler.policy import SchedulerPolicy
from scheduler.step import StepTimings


@dataclass(frozen=True, slots=True)
class RunningRow:
    """One running request. Token counts are after the step; times are seconds on the scheduler's clock.

    slot: lane the request keeps while it runs: the lowest free one at admission, 0 .. max_num_seqs - 1.
    kind: what it did in this step: "prefill", "decode", "recompute", "padding" (static: padding computed only)
        or "idle" (running, but nothing was planned for it).
    held: True for a request of a static batch that has all its tokens and waits for the batch to end.
    first_scheduled_time, first_token_time: None until it happened; never moved by a preemption.
    """

    request_id: str
    slot: int
    priority: int
    num_prompt_tokens: int
    max_tokens: int
    arrival_time: float
    first_scheduled_time: float | None
    first_token_time: float | None
    num_preemptions: int
    num_output_tokens: int
    num_computed_tokens: int
    num_scheduled_tokens: int
    num_padding_tokens: int
    kind: str
    held: bool
    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunningTable:
    """The running requests as columns, in the order in which the scheduler walks them."""

    request_id: tuple[str, ...] = ()
    slot: tuple[int, ...] = ()
    priority: tuple[int, ...] = ()
    num_prompt_tokens: tuple[int, ...] = ()
    max_tokens: tuple[int, ...] = ()
    arrival_time: tuple[float, ...] = ()
    first_scheduled_time: tuple[float | None, ...] = ()
    first_token_time: tuple[float | None, ...] = ()
    num_preemptions: tuple[int, ...] = ()
    num_output_tokens: tuple[int, ...] = ()
    num_computed_tokens: tuple[int, ...] = ()
    num_scheduled_tokens: tuple[int, ...] = ()
    num_padding_tokens: tuple[int, ...] = ()
    kind: tuple[str, ...] = ()
    held: tuple[bool, ...] = ()
    block_ids: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.request_id)

    def __getitem__(self, index: int) -> RunningRow:
        return RunningRow(*(getattr(self, f.name)[index] for f in fields(self)))

    def __iter__(self) -> Iterator[RunningRow]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One request that waits, in the order in which the scheduler will look at it.

    status: "waiting" (never ran) or "preempted" (ran, was evicted, has num_output_tokens already).
    reason: why it did not run in this step, one of ``events.DEFER_REASONS``.
    needed_blocks: KV blocks its admission asks for under the rule in force; free_blocks: what was usable then.
    blocked_by: request_id in front of it or holding what it needs; "" when nobody does.
    recompute_tokens: tokens to be computed again when it resumes.
    """

    request_id: str
    status: str
    priority: int
    num_prompt_tokens: int
    num_output_tokens: int
    max_tokens: int
    arrival_time: float
    num_preemptions: int
    recompute_tokens: int
    reason: str
    needed_blocks: int
    free_blocks: int
    blocked_by: str


@dataclass(frozen=True, slots=True)
class WaitingTable:
    """The waiting requests as columns, head of the queue first."""

    request_id: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    priority: tuple[int, ...] = ()
    num_prompt_tokens: tuple[int, ...] = ()
    num_output_tokens: tuple[int, ...] = ()
    max_tokens: tuple[int, ...] = ()
    arrival_time: tuple[float, ...] = ()
    num_preemptions: tuple[int, ...] = ()
    recompute_tokens: tuple[int, ...] = ()
    reason: tuple[str, ...] = ()
    needed_blocks: tuple[int, ...] = ()
    free_blocks: tuple[int, ...] = ()
    blocked_by: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.request_id)

    def __getitem__(self, index: int) -> WaitingRow:
        return WaitingRow(*(getattr(self, f.name)[index] for f in fields(self)))

    def __iter__(self) -> Iterator[WaitingRow]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The life of a request that ended, for metrics. Times in seconds on the scheduler's clock; None = never.

    outcome: "finished", "aborted" or "rejected"; reason as in the event.
    preempted_s: time between each eviction and the admission that followed it, summed.
    policy_version: in force when the request was first scheduled (0 = never scheduled).
    recompute_tokens, padding_tokens: tokens computed for it that were not useful work.
    num_prior_output_tokens: of num_output_tokens, those delivered in an earlier life of the runner. Where there are
        any, first_token_time is that of this life, so the record tells nothing about TTFT and TPOT.
    """

    request_id: str
    outcome: str
    reason: str
    num_prompt_tokens: int
    num_output_tokens: int
    arrival_time: float
    first_scheduled_time: float | None
    first_token_time: float | None
    last_token_time: float | None
    end_time: float
    num_preemptions: int
    preempted_s: float
    recompute_tokens: int
    padding_tokens: int
    policy_version: int
    num_prior_output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters since the scheduler was made. None of them ever goes down.

    submitted == finished + aborted + rejected + waiting + running holds at every snapshot (goal R2).
    Tokens of real work: prefill + decode. recompute, padding and idle_slot_steps (free slots of a static batch while
    requests wait, one a slot and step) are waste, counted apart (fault F51).
    """

    steps: int = 0
    submitted: int = 0
    finished: int = 0
    aborted: int = 0
    rejected: int = 0
    preemptions: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    recompute_tokens: int = 0
    padding_tokens: int = 0
    idle_slot_steps: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    """Everything a page, a metric or a test needs to know after one step.

    step_id: the step this describes; a snapshot taken between steps (``Scheduler.peek``) repeats the last id with an
        empty step. time: clock at the end of ``update``.
    num_scheduled_tokens, kinds: as in ScheduleStep. new_tokens: the tokens delivered by this step.
    finished: ids that ended (finished or aborted) since the last snapshot.
    waiting: at most ``snapshot_waiting_limit`` rows; num_waiting counts all.
    num_blocks: pool size; block_limit: usable under ``kv_block_limit``; num_used_blocks + num_free_blocks ==
        num_blocks. kv_cache_usage: used / num_blocks, 0..1.
    allocated_tokens: token slots of all used blocks; filled_tokens: those that hold a computed token. Their
        difference is the internal fragmentation.
    records: requests that ended since the last snapshot.
    """

    step_id: int
    time: float
    policy: SchedulerPolicy
    num_scheduled_tokens: Mapping[str, int]
    num_padding_tokens: Mapping[str, int]
    kinds: Mapping[str, str]
    new_tokens: Mapping[str, int]
    running: RunningTable
    waiting: WaitingTable
    num_waiting: int
    num_waiting_tokens: int
    preempted: tuple[str, ...]
    resumed: tuple[str, ...]
    new: tuple[str, ...]
    finished: tuple[str, ...]
    events: tuple[StepEvent, ...]
    records: tuple[RequestRecord, ...]
    num_blocks: int
    block_size: int
    block_limit: int
    num_used_blocks: int
    num_free_blocks: int
    kv_cache_usage: float
    allocated_tokens: int
    filled_tokens: int
    totals: Totals
    timings: StepTimings = field(default_factory=StepTimings)
