"""Admission: who is next, what must fit before it is let in, and why it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from scheduler.allocation import blocks_for, has_place, longest_run, place
from scheduler.chunking import threshold_of
from scheduler.plan import Draft, StepView
from scheduler.prefix_hits import NO_HIT, Hit
from scheduler.proposals import Deferral
from scheduler.registry import Registry
from scheduler.sequence import SequenceView


class Rule:
    """What must fit before a request is let in."""

    def tokens(self, seq: SequenceView, num_tokens: int) -> int:
        """Tokens of ``seq`` for which there must be room when it would start with ``num_tokens`` tokens."""
        raise NotImplementedError

    def promised_blocks(self, view: StepView, draft: Draft) -> int:
        """Free blocks that do not count, because running requests may still take them."""
        return 0


RULES: Final[Registry[Rule]] = Registry("admission_rule")
HEADS_OF_LINE: Final[Registry[bool]] = Registry("head_of_line")
HEADS_OF_LINE.register("strict")(True)
HEADS_OF_LINE.register("skip")(False)
"""True = nobody passes a request that does not fit. A static batch is always formed strictly."""

MAX_PASSES: Final = 8
"""Under "skip" so many later requests are let in past one that waits at most; then nobody is until it is in."""

MAX_SKIPPED: Final = 32
"""Under "skip" a step looks past at most this many requests that do not fit, so that a long queue costs no more."""


class NextChunk(Rule):
    """Room for the first chunk only (vLLM with scheduler_reserve_full_isl off)."""

    def tokens(self, seq: SequenceView, num_tokens: int) -> int:
        """The chunk."""
        return seq.num_computed_tokens + num_tokens


class FullSequence(Rule):
    """Room for all known tokens, though only the chunk's blocks are taken: a check, not a reservation (vLLM V1)."""

    def tokens(self, seq: SequenceView, num_tokens: int) -> int:
        """Prompt and output so far."""
        return seq.num_tokens


class WorstCase(Rule):
    """Room for all tokens it may ever have, beside what those running may still take: no eviction can follow."""

    def tokens(self, seq: SequenceView, num_tokens: int) -> int:
        """Prompt and all output it may make; the last token is never computed."""
        return seq.max_total_tokens

    def promised_blocks(self, view: StepView, draft: Draft) -> int:
        """What running requests lack to their own worst case. Those let in since the last call are added to its sum."""
        counted, lacking = draft.promised
        for row in draft.running[counted:]:
            lacking += max(0, blocks_for(view, row, row.max_total_tokens) - draft.blocks_of(row))
        draft.promised = (len(draft.running), lacking)
        return lacking


RULES.register("next_chunk")(NextChunk())
RULES.register("full_sequence")(FullSequence())
RULES.register("worst_case")(WorstCase())


def watermark_blocks(view: StepView, draft: Draft) -> int:
    """Blocks kept free at admission: int(share x (blocks + 1)), vLLM's count, whose total includes its null block.

    None when nothing runs: otherwise a large request could wait for ever (fault F10).
    """
    return int(view.policy.kv_watermark * (view.block_limit + 1)) if draft.running else 0


def must_fit(view: StepView, seq: SequenceView, num_tokens: int) -> int:
    """Blocks the rule in force asks for a request that would start with ``num_tokens`` tokens."""
    return blocks_for(view, seq, RULES[view.policy.admission_rule].tokens(seq, num_tokens))


def admit_waiting(view: StepView, draft: Draft) -> None:
    """Walk the queue from its head while requests fit.

    The first that does not ends the walk, or is skipped under head of line "skip" while it may still be passed.
    """
    draft.deferral = closed(view, draft)
    if draft.deferral is not None:
        return
    skipped: list[Deferral] = []
    for seq in view.waiting:
        verdict = no_room_in_step(view, draft, seq)
        num_tokens, hit = 0, NO_HIT
        if verdict is None:
            hit = draft.look_up(seq)
            num_tokens = first_chunk(view, draft, seq, hit.num_tokens)
            verdict = memory_verdict(view, draft, seq, num_tokens, hit) if num_tokens else _uncut(draft, seq)
        if verdict is None:
            _let_in(view, draft, seq, num_tokens, hit)
            for deferral in skipped:
                draft.passed[deferral.request_id] += 1
            if any(draft.passed[deferral.request_id] >= MAX_PASSES for deferral in skipped):
                draft.deferral = _walk_ended(skipped, None, draft)
                return
            continue
        if not verdict.whole_queue and _may_be_passed(view, draft, seq, skipped):
            skipped.append(verdict)
            continue
        draft.deferral = _walk_ended(skipped, verdict, draft)
        return
    draft.deferral = _walk_ended(skipped, None, draft)


def _let_in(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int, hit: Hit) -> None:
    end = seq.num_computed_tokens + hit.num_tokens + num_tokens
    count = blocks_for(view, seq, end)
    draft.admit(seq, count, first_block=place(view, draft, count), hit=hit)
    draft.plan(seq, num_tokens)
    if draft.prefix is not None:
        draft.prefix.admit(seq, hit, count, end)


def _uncut(draft: Draft, seq: SequenceView) -> Deferral:
    return Deferral("token_budget", seq.request_id, budget_left=draft.budget, whole_queue=False)


def _may_be_passed(view: StepView, draft: Draft, seq: SequenceView, skipped: list[Deferral]) -> bool:
    if HEADS_OF_LINE[view.policy.head_of_line] or len(skipped) >= MAX_SKIPPED:
        return False
    return draft.passed.setdefault(seq.request_id, seq.num_passed) < MAX_PASSES


def _walk_ended(skipped: list[Deferral], last: Deferral | None, draft: Draft) -> Deferral | None:
    """The reason of the first that did not fit, with those of the others that were looked at."""
    if not skipped:
        return last
    head, others = skipped[0], skipped[1:]
    if last is None:
        due = next((each.request_id for each in skipped if draft.passed[each.request_id] >= MAX_PASSES), "")
        return replace(head, others=tuple(others), rest=("head_of_line", due or head.request_id))
    others = others if last.whole_queue else [*others, last]
    return replace(head, others=tuple(others), rest=last.behind)


def closed(view: StepView, draft: Draft) -> Deferral | None:
    """A reason that keeps the whole queue out of this step."""
    head = view.waiting.head()
    if head is None:
        return None
    if view.policy.admission_paused:
        return Deferral("admission_paused", head.request_id)
    if draft.blocked:
        first = draft.blocked[0]
        return Deferral(
            "kv_capacity",
            head.request_id,
            needed_blocks=first.needed_blocks,
            free_blocks=first.free_blocks,
            budget_left=draft.budget,
            blocked_by=first.seq.request_id,
        )
    out = left_out(draft)
    return None if out is None else replace(out, request_id=head.request_id)


def left_out(draft: Draft) -> Deferral | None:
    """Why those wait that this step evicted; None when there are none. Nobody is let in after an eviction."""
    if not draft.evicted:
        return None
    last = next(reversed(draft.evicted.values()))
    return Deferral("preemption_this_step", last.request_id, blocked_by=last.for_request_id)


def no_room_in_step(view: StepView, draft: Draft, seq: SequenceView) -> Deferral | None:
    """Budget or slots used up: true for everybody behind as well. vLLM looks at the budget first."""
    if draft.budget <= 0:
        biggest = max(draft.tokens, key=draft.tokens.__getitem__, default="")
        return Deferral("token_budget", seq.request_id, budget_left=0, blocked_by=biggest)
    if len(draft.running) >= view.policy.max_num_seqs:
        return Deferral("max_num_seqs", seq.request_id, budget_left=draft.budget)
    return None


def first_chunk(view: StepView, draft: Draft, seq: SequenceView, num_cached: int) -> int:
    """Tokens a request would start with; 0 when its prompt may not be cut and does not fit the budget.

    num_cached: tokens found in the prefix cache, which need not be computed. The threshold cuts even with chunking off,
    as in vLLM.
    """
    num_tokens = seq.num_tokens - seq.num_computed_tokens - num_cached
    threshold = threshold_of(view)
    if 0 < threshold < num_tokens:
        num_tokens = threshold
    if num_tokens > draft.budget and not view.policy.enable_chunked_prefill:
        return 0
    return min(num_tokens, draft.budget)


def memory_verdict(
    view: StepView, draft: Draft, seq: SequenceView, num_tokens: int, hit: Hit = NO_HIT
) -> Deferral | None:
    """None when the blocks that the rule asks for are there, else the reason with its numbers.

    Free blocks that are enough together, but in no run the allocator can use, are ``allocator_fragmented``.
    """
    needed = must_fit(view, seq, hit.num_tokens + num_tokens) - hit.num_in_use
    free = draft.free_for_admission - RULES[view.policy.admission_rule].promised_blocks(view, draft)
    watermark = watermark_blocks(view, draft)
    reason, run = "kv_capacity" if needed > free else "watermark", 0
    if needed + watermark <= free:
        if not view.free_map or has_place(view, draft, needed):
            return None
        reason, run = "allocator_fragmented", longest_run(draft.free_map)
    holder = max(draft.running, key=draft.blocks_of, default=None)
    return Deferral(
        reason,
        seq.request_id,
        needed_blocks=needed,
        free_blocks=max(0, free),  # below zero: a lowered limit, or promises, exceed what is there
        watermark_blocks=watermark,
        budget_left=draft.budget,
        blocked_by="" if holder is None else holder.request_id,
        longest_run=run,
        whole_queue=False,
    )
