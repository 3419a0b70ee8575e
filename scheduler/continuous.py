"""Continuous batching: the batch is made anew every step, from those that run and those that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from scheduler import admission, chunking, preemption
from scheduler.allocation import blocks_for
from scheduler.plan import Draft, StepView
from scheduler.proposals import Blocked
from scheduler.registry import Registry
from scheduler.sequence import SequenceView

Batching = Callable[[StepView, Draft], None]
"""Fills a draft from a view."""

BATCHINGS: Final[Registry[Batching]] = Registry("batching")


@BATCHINGS.register("continuous")
def continuous(view: StepView, draft: Draft) -> None:
    """Iteration-level scheduling (Orca): one token budget, walked in the phases of the policy's ``prefill_mix``."""
    for phase in chunking.PREFILL_MIXES[view.policy.prefill_mix](view.running):
        if phase.only_if_idle and draft.tokens:
            continue
        if phase.admit:
            admission.admit_waiting(view, draft)
        elif not (phase.decodes and plan_all_decodes(view, draft, phase.rows)):
            walk_running(view, draft, phase.rows)
    resolve_standstill(view, draft)


def plan_all_decodes(view: StepView, draft: Draft, rows: Sequence[SequenceView]) -> bool:
    """Plan one token for each row at once, when budget and blocks suffice for all; else plan nothing, return False.

    The same decisions as ``walk_running``, at a fraction of its cost: most steps of a busy engine are of this kind.
    """
    if len(rows) > draft.budget or draft.evicted:
        return False
    full = [seq for seq in rows if seq.num_computed_tokens == seq.capacity]
    needs = [blocks_for(view, seq, seq.num_computed_tokens + 1) - len(seq.block_table) for seq in full]
    if sum(needs) > draft.free_blocks:
        return False
    for seq, needed in zip(full, needs, strict=True):
        draft.grow(seq, needed)
    draft.tokens.update(dict.fromkeys([seq.request_id for seq in rows], 1))
    draft.budget -= len(rows)
    return True


def walk_running(view: StepView, draft: Draft, rows: Sequence[SequenceView]) -> None:
    """Give running requests their tokens in the given order, evicting where blocks are short.

    A request's blocks are all or nothing for its chunk; a chunk is never shrunk to fit memory. The walk ends when the
    budget is used up or when a request had to evict itself, since nobody was left who could make room for it.
    """
    tokens, evicted = draft.tokens, draft.evicted
    for seq in rows:
        if draft.budget <= 0:
            return
        if evicted and seq.request_id in evicted:
            continue
        num_tokens = seq.num_tokens - seq.num_computed_tokens
        if num_tokens != 1:
            num_tokens = chunking.chunk_size(view, draft, seq)
            if num_tokens <= 0:
                continue
        if seq.num_computed_tokens + num_tokens > seq.capacity and not make_room(view, draft, seq, num_tokens):
            if seq.request_id in evicted:
                return
            continue
        tokens[seq.request_id] = num_tokens
        draft.budget -= num_tokens


def make_room(view: StepView, draft: Draft, seq: SequenceView, num_tokens: int) -> bool:
    """Find blocks for the next ``num_tokens`` tokens of a running request; False when it gets none in this step.

    Held rows of a static batch end first: they have all their tokens. Then the victim rule decides, again and again.
    """
    needed = blocks_for(view, seq, seq.num_computed_tokens + num_tokens) - draft.blocks_of(seq)
    while needed > draft.free_blocks:
        held = next((row for row in draft.running if row.held), None)
        if held is not None:
            draft.release(held)
            continue
        proposal = preemption.propose(view, draft, seq)
        if proposal is None:
            draft.blocked.append(Blocked(seq, num_tokens, needed, max(0, draft.free_blocks)))
            return False
        eviction, victim = proposal
        draft.evict(eviction, victim)
        if victim is seq:
            return False
    draft.grow(seq, needed)
    return True


def resolve_standstill(view: StepView, draft: Draft) -> None:
    """When all that run wait for blocks and the step would be empty, evict the newest until the oldest can move.

    The one exception to preemption "never": otherwise nothing would ever end. The request admitted first is never
    evicted here, and alone it always fits, so each standstill moves it on and every request ends.
    """
    if not draft.blocked or draft.tokens or draft.padding:
        return
    order = {seq.request_id: place for place, seq in enumerate(draft.running)}
    oldest = min(draft.blocked, key=lambda each: order[each.seq.request_id])
    seq = oldest.seq
    while oldest.needed_blocks > draft.free_blocks:
        victim = next(row for row in reversed(draft.running) if row is not seq)
        eviction = preemption.lose_all(draft, victim, seq.request_id)
        draft.evict(replace(eviction, reason="standstill"), victim)
    draft.grow(seq, oldest.needed_blocks)
    draft.plan(seq, oldest.num_tokens)
    draft.blocked = [each for each in draft.blocked if each is not oldest and each.seq.request_id not in draft.evicted]
