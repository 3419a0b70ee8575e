"""Preemption: who makes room when a running request finds no block, what it loses, and where it queues again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from scheduler.plan import Draft, StepView
from scheduler.proposals import Evict
from scheduler.registry import Registry
from scheduler.sequence import SequenceView
from scheduler.victims import VICTIMS

Mode = Callable[[Draft, SequenceView, str], Evict | None]
"""Proposes what happens to a victim for the request of the given id ("" = it was asked for); None = nobody goes."""

MODES: Final[Registry[Mode]] = Registry("preemption_mode")


def lose_all(draft: Draft, victim: SequenceView, for_request_id: str) -> Evict:
    """The victim loses all blocks and what was computed in them."""
    return Evict(victim.request_id, for_request_id, draft.freed_by(victim), victim.num_computed_tokens)


@MODES.register("recompute")
def recompute(draft: Draft, victim: SequenceView, for_request_id: str) -> Evict | None:
    """The victim loses all blocks and computes its tokens again when it comes back (vLLM V1)."""
    return lose_all(draft, victim, for_request_id)


@MODES.register("swap")
def swap(draft: Draft, victim: SequenceView, for_request_id: str) -> Evict | None:
    """The victim's blocks are copied to the host pool, and back when it returns (vLLM V0): nothing is computed again.

    Only blocks that hold computed tokens are moved. Where the host pool has no room for all of them, and where there
    are none, the victim is recomputed.
    """
    eviction = lose_all(draft, victim, for_request_id)
    num_blocks = draft.view.blocks_for(victim.num_computed_tokens)
    if num_blocks > draft.free_host_blocks:
        return replace(eviction, host_free_blocks=draft.free_host_blocks)
    if not num_blocks:
        return eviction
    return replace(eviction, recompute_tokens=0, mode="swap", moved_blocks=num_blocks)


@MODES.register("never")
def never(draft: Draft, victim: SequenceView, for_request_id: str) -> Evict | None:
    """Nobody is evicted: a request that finds no block waits, and nobody is let in meanwhile.

    When no running request can move at all, ``continuous.resolve_standstill`` evicts, so that everything ends.
    """
    return None


@dataclass(frozen=True, slots=True)
class Requeue:
    """Where an evicted request goes: ``front`` = before all that wait, where the order has a front."""

    front: bool


REQUEUES: Final[Registry[Requeue]] = Registry("preemption_requeue")
REQUEUES.register("front")(Requeue(front=True))
REQUEUES.register("back")(Requeue(front=False))


def propose(view: StepView, draft: Draft, for_seq: SequenceView) -> tuple[Evict, SequenceView] | None:
    """The next eviction that makes room for ``for_seq``, which may be itself; None when nobody may go.

    Rows of a static batch that have no block yet would go for nothing, so they stay (fault F48).
    """
    policy = view.policy
    candidates = [seq for seq in draft.running if seq is for_seq or draft.blocks_of(seq)]
    victim = VICTIMS[policy.preemption_victim].choose(candidates, draft)
    eviction = MODES[policy.preemption_mode](draft, victim, for_seq.request_id)
    return None if eviction is None else (eviction, victim)


def evict_requested(view: StepView, draft: Draft, request_ids: Iterable[str]) -> None:
    """Evict the running requests that were named from outside (``Scheduler.preempt``), before anything is planned.

    By the mode in force; under "never" by recompute.
    """
    running = {seq.request_id: seq for seq in view.running if not seq.held}
    for request_id in request_ids:
        victim = running.get(request_id)
        if victim is not None:
            eviction = MODES[view.policy.preemption_mode](draft, victim, "") or lose_all(draft, victim, "")
            draft.evict(replace(eviction, reason="requested"), victim)
