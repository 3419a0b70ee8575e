"""Admission: who is next, what must fit before it is let in, and why it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.allocation import ALLOCATORS
from scheduler.chunking import threshold_of
from scheduler.plan import Deferral, Draft, StepView
from scheduler.registry import Registry
from scheduler.sequence import SequenceView

OrderKey = tuple[float, float, str]
Order = Callable[[SequenceView], OrderKey]
"""Sort key of the queue, lowest first. It must not change while the request waits."""

Rule = Callable[[StepView, Draft, SequenceView, int], "Requirement"]
"""What must fit before a request that would start with so many tokens is let in."""

ORDERS: Final[Registry[Order]] = Registry("admission_order")
RULES: Final[Registry[Rule]] = Registry("admission_rule")
HEADS_OF_LINE: Final[Registry[bool]] = Registry("head_of_line")
HEADS_OF_LINE.register("strict")(True)


@ORDERS.register("fcfs")
def fcfs(seq: SequenceView) -> OrderKey:
    """First come, first served; an evicted request comes back at the front (or the back) of the line."""
    return (float(seq.rank), 0.0, "")


@ORDERS.register("priority")
def priority(seq: SequenceView) -> OrderKey:
    """(priority, arrival, request_id), lower first, as vLLM. An evicted request goes back to its place by this key.

    A running request is not evicted for a more urgent one that waits for a slot (fault F43): it waits.
    """
    return (float(seq.priority), seq.order_time, seq.request_id)


@ORDERS.register("shortest_prompt")
def shortest_prompt(seq: SequenceView) -> OrderKey:
    """Fewest prompt tokens first; an evicted request comes back before all that never ran."""
    return (-1.0 if seq.rank < 0 else float(seq.num_prompt_tokens), float(seq.rank), "")


@dataclass(frozen=True, slots=True)
class Requirement:
    """Blocks that must be free (needed) beside those promised to running requests (promised)."""

    needed_blocks: int
    promised_blocks: int = 0


@RULES.register("next_chunk")
def next_chunk(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int) -> Requirement:
    """Room for the first chunk only (vLLM with scheduler_reserve_full_isl off)."""
    return Requirement(_blocks(view, seq, seq.num_computed_tokens + num_tokens))


@RULES.register("full_sequence")
def full_sequence(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int) -> Requirement:
    """Room for all known tokens, though only the chunk's blocks are taken: a check, not a reservation (vLLM V1)."""
    return Requirement(_blocks(view, seq, seq.num_tokens))


@RULES.register("worst_case")
def worst_case(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int) -> Requirement:
    """Room for all tokens it may ever have, beside what those running may still take: no eviction can follow."""
    promised = sum(max(0, _blocks(view, row, row.max_total_tokens) - draft.blocks_of(row)) for row in draft.running)
    return Requirement(_blocks(view, seq, seq.max_total_tokens), promised)


def _blocks(view: StepView, seq: SequenceView, num_tokens: int) -> int:
    return ALLOCATORS[view.policy.allocation].blocks_for(view, seq, num_tokens)


def watermark_blocks(view: StepView, draft: Draft) -> int:
    """Blocks kept free at admission: int(share x (blocks + 1)), vLLM's count, whose total includes its null block.

    None when nothing runs: otherwise a large request could wait for ever (fault F10).
    """
    return int(view.policy.kv_watermark * (view.block_limit + 1)) if draft.running else 0


def must_fit(view: StepView, seq: SequenceView) -> int:
    """Blocks the rule in force asks for ``seq``, for the table of waiting requests. Nothing else is counted."""
    num_tokens = min(seq.num_tokens, view.policy.max_num_batched_tokens)
    return requirement_of(view, Draft(view), seq, num_tokens).needed_blocks


def admit_waiting(view: StepView, draft: Draft) -> None:
    """Walk the queue from its head while requests fit; the first that does not ends the walk (strict head of line)."""
    draft.deferral = closed(view, draft)
    if draft.deferral is not None:
        return
    for seq in view.waiting:
        draft.deferral = no_room_in_step(view, draft, seq)
        if draft.deferral is not None:
            return
        num_tokens = first_chunk(view, draft, seq)
        if num_tokens == 0:
            draft.deferral = Deferral("token_budget", seq.request_id, budget_left=draft.budget, whole_queue=False)
            return
        draft.deferral = memory_verdict(view, draft, seq, num_tokens)
        if draft.deferral is not None:
            return
        draft.admit(seq, _blocks(view, seq, seq.num_computed_tokens + num_tokens))
        draft.plan(seq, num_tokens)


def closed(view: StepView, draft: Draft) -> Deferral | None:
    """A reason that keeps the whole queue out of this step."""
    head = view.waiting.head()
    if head is None:
        return None
    if view.policy.admission_paused:
        return Deferral("admission_paused", head.request_id)
    if draft.evicted:
        last = next(reversed(draft.evicted.values()))
        return Deferral("preemption_this_step", head.request_id, blocked_by=last.for_request_id)
    return None


def no_room_in_step(view: StepView, draft: Draft, seq: SequenceView) -> Deferral | None:
    """Budget or slots used up: true for everybody behind as well. vLLM looks at the budget first."""
    if draft.budget <= 0:
        biggest = max(draft.tokens, key=draft.tokens.__getitem__, default="")
        return Deferral("token_budget", seq.request_id, budget_left=0, blocked_by=biggest)
    if len(draft.running) >= view.policy.max_num_seqs:
        return Deferral("max_num_seqs", seq.request_id, budget_left=draft.budget)
    return None


def first_chunk(view: StepView, draft: Draft, seq: SequenceView) -> int:
    """Tokens a request would start with; 0 when its prompt may not be cut and does not fit the budget.

    The threshold cuts even with chunking off, as in vLLM.
    """
    num_tokens = seq.num_tokens - seq.num_computed_tokens
    threshold = threshold_of(view)
    if 0 < threshold < num_tokens:
        num_tokens = threshold
    if num_tokens > draft.budget and not view.policy.enable_chunked_prefill:
        return 0
    return min(num_tokens, draft.budget)


def requirement_of(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int) -> Requirement:
    """What the rule in force asks for a request that would start with ``num_tokens`` tokens."""
    return RULES[view.policy.admission_rule](view, draft, seq, num_tokens)


def memory_verdict(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int) -> Deferral | None:
    """None when the blocks that the rule asks for are there, else the reason with its numbers."""
    requirement = requirement_of(view, draft, seq, num_tokens)
    free = draft.free_for_admission - requirement.promised_blocks
    watermark = watermark_blocks(view, draft)
    if requirement.needed_blocks + watermark <= free:
        return None
    reason = "kv_capacity" if requirement.needed_blocks > free else "watermark"
    holder = max(draft.running, key=draft.blocks_of, default=None)
    return Deferral(
        reason,
        seq.request_id,
        needed_blocks=requirement.needed_blocks,
        free_blocks=free,
        watermark_blocks=watermark,
        budget_left=draft.budget,
        blocked_by="" if holder is None else holder.request_id,
        whole_queue=False,
    )
