"""What happened to a request in a step, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EVENT_KINDS: Final = (
    "queued",
    "admitted",
    "resumed",
    "deferred",
    "chunked",
    "preempted",
    "swapped_out",
    "swapped_in",
    "finished",
    "aborted",
    "rejected",
    "policy_changed",
    "policy_refused",
)
"""Every kind an event can have. Exactly one of finished, aborted, rejected ends a request."""

TERMINAL_KINDS: Final = ("finished", "aborted", "rejected")

DEFER_REASONS: Final = (
    "token_budget",
    "max_num_seqs",
    "kv_capacity",
    "watermark",
    "head_of_line",
    "preemption_this_step",
    "admission_paused",
    "static_batch_running",
    "allocator_fragmented",
)
"""Why a waiting request was not let in during a step, or why a running one got no tokens (preemption "never")."""

Number = int | float | str | bool


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One thing that happened, with the numbers that justify it.

    time: seconds on the scheduler's clock. request_id: "" for policy events.
    reason: by kind: deferred: one of DEFER_REASONS; finished: "length" or "stop"; rejected, policy_refused: a
    sentence; preempted: the victim rule that chose it, "standstill", or "requested" (``Scheduler.preempt``); chunked:
    "token_budget" or "long_prefill_token_threshold".
    numbers: by kind, under fixed names:
        queued: num_prompt_tokens, max_tokens; admitted, resumed: num_blocks, num_scheduled_tokens, waited_s,
        num_cached_tokens (found in the prefix cache);
        deferred: needed_blocks, free_blocks, blocked_by (request_id in front, or ""), watermark_blocks, budget_left,
        and longest_run (free blocks in a row) where the reason is allocator_fragmented;
        chunked: num_scheduled_tokens, num_tokens_left; preempted: for_request_id, freed_blocks, recompute_tokens, mode
        ("recompute" or "swap"), moved_blocks, and host_free_blocks where a swap became a recompute for want of room;
        swapped_out, swapped_in: num_blocks, host_free_blocks (afterwards);
        finished, aborted: num_output_tokens, num_preemptions;
        policy_changed: one "old -> new" string a changed field, version; policy_refused: version (in force still), or
        field, name, file, instead for a proposal of a policy of one's own.
    """

    step_id: int
    time: float
    kind: str
    request_id: str
    reason: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)
