"""The state after a step, frozen, for everybody who looks and nobody who writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.columns import RunningTable, WaitingTable
from scheduler.events import StepEvent
from scheduler.policy import SchedulerPolicy
from scheduler.step import BlockMove, StepTimings


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The life of a request that ended, for metrics. Times in seconds on the scheduler's clock; None = never.

    outcome: "finished", "aborted" or "rejected"; reason as in the event.
    preempted_s: time between each eviction and the admission that followed it, summed.
    policy_version: in force when the request was first scheduled (0 = never scheduled).
    recompute_tokens, padding_tokens: tokens computed for it that were not useful work.
    num_cached_tokens: tokens taken from the prefix cache, over all its admissions. swapped_blocks: moved out and in.
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
    num_cached_tokens: int = 0
    swapped_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters since the scheduler was made. None of them ever goes down.

    submitted == finished + aborted + rejected + waiting + running holds at every snapshot (goal R2).
    swapped_out_blocks, swapped_in_blocks: copied to and from the host pool. prefix_cache_queries, prefix_cache_hits:
    tokens looked up and found, counted as vLLM counts them. refused_proposals: proposals of policies of one's own that
    broke a rule and were replaced by the built-in choice.
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
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    refused_proposals: int = 0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Where the token slots of the KV pool are, after a step. Unit: token slots; shares are of ``num_blocks`` x
    ``block_size``. The three wastes are those of Kwon et al., PagedAttention, SOSP 2023, section 3.1 and figure 2.

    filled: hold a computed token (a shared block counts once). reserved: in owned blocks that hold no token yet, kept
    for tokens to come or never used. internal: the empty rest of owned blocks that hold some tokens. external: in free
    blocks that the allocator in force cannot give to the next request (the head of the queue, or, when nobody waits,
    the smallest request it could be asked for), though there are enough of them together. 0 under "paged".
    filled + reserved + internal == slots of the used blocks; external is a part of the free ones.
    unusable_block_ids: the blocks behind ``external``.
    """

    filled: int = 0
    reserved: int = 0
    internal: int = 0
    external: int = 0
    unusable_block_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ResumeRecord:
    """What one eviction cost, written once its victim has caught up with what it had computed before.

    mode: "recompute" or "swap". evicted_at .. resumed_at: in the queue; resumed_at .. caught_up_at: computing again.
    Seconds on the scheduler's clock, steps by id. recompute_tokens: computed again. moved_blocks: copied out plus in.
    work_s: of the steps since the resume, the share of execute time that fell to its recomputed tokens (by token
    count), or the time its blocks were being copied. The delay to the victim is caught_up_at - evicted_at.
    """

    request_id: str
    mode: str
    evicted_step: int
    evicted_at: float
    resumed_step: int
    resumed_at: float
    caught_up_step: int
    caught_up_at: float
    recompute_tokens: int
    moved_blocks: int
    work_s: float


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
    memory: where the token slots are. num_host_blocks, num_used_host_blocks: the host pool of swapped requests.
    cached_block_ids: free blocks whose content the prefix cache can still give out (they count as free).
    shared_block_ids: blocks used by more than one request. swapped_out, swapped_in: the moves of this step.
    resumes: evictions whose victim caught up in this step, with what they cost.
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
    memory: MemoryUse = field(default_factory=MemoryUse)
    num_host_blocks: int = 0
    num_used_host_blocks: int = 0
    cached_block_ids: tuple[int, ...] = ()
    shared_block_ids: tuple[int, ...] = ()
    swapped_out: tuple[BlockMove, ...] = ()
    swapped_in: tuple[BlockMove, ...] = ()
    resumes: tuple[ResumeRecord, ...] = ()
