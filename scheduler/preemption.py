"""Preemption: who makes room when a running request finds no block, what it loses, and where it queues again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.plan import Draft, Evict, StepView
from scheduler.registry import Registry
from scheduler.sequence import SequenceView
from scheduler.victims import VICTIMS

Mode = Callable[[Draft, SequenceView, SequenceView], Evict | None]
"""Proposes what happens to a victim (second argument) for a request (third); None = nobody is evicted."""

MODES: Final[Registry[Mode]] = Registry("preemption_mode")


@MODES.register("recompute")
def recompute(draft: Draft, victim: SequenceView, for_seq: SequenceView) -> Evict | None:
    """The victim loses all blocks and computes its tokens again when it comes back (vLLM V1)."""
    return Evict(victim.request_id, for_seq.request_id, draft.blocks_of(victim), victim.num_computed_tokens)


@MODES.register("never")
def never(draft: Draft, victim: SequenceView, for_seq: SequenceView) -> Evict | None:
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
    """The next eviction that makes room for ``for_seq``, which may be itself; None when nobody may go."""
    policy = view.policy
    victim = VICTIMS[policy.preemption_victim].choose(draft.running, draft)
    eviction = MODES[policy.preemption_mode](draft, victim, for_seq)
    return None if eviction is None else (eviction, victim)
