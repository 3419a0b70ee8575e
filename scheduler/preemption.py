"""Preemption: who makes room when a running request finds no block, what it loses, and where it queues again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.plan import Draft, Evict, StepView
from scheduler.registry import Registry
from scheduler.sequence import SequenceView

Victim = Callable[[Draft, Sequence[SequenceView]], SequenceView]
"""Chooses one of the candidates, which are the running requests in order of admission, never empty."""

Mode = Callable[[Draft, SequenceView, SequenceView], Evict | None]
"""Proposes what happens to a victim (second argument) for a request (third); None = nobody is evicted."""

VICTIMS: Final[Registry[Victim]] = Registry("preemption_victim")
MODES: Final[Registry[Mode]] = Registry("preemption_mode")

MAX_FRUITLESS_EVICTIONS: Final = 3
"""A request evicted this often without a token in between is passed over while others can go. Rules that look at size
alone could otherwise evict the same two requests in turn for ever (fault F38). Once all are passed over the newest
goes, so the oldest progresses and every request ends."""

MAX_TIED_EVICTIONS: Final = 8
"""The same bound for requests that tie under ``lowest_priority``; high, so as not to differ from vLLM where it ends."""


@VICTIMS.register("newest")
def newest(draft: Draft, candidates: Sequence[SequenceView]) -> SequenceView:
    """The one admitted last (vLLM, first come first served). The oldest always progresses."""
    return candidates[-1]


@VICTIMS.register("lowest_priority")
def lowest_priority(draft: Draft, candidates: Sequence[SequenceView]) -> SequenceView:
    """The largest (priority, arrival time); of equals the one admitted first, as vLLM 0.32 under its priority policy.

    vLLM can evict two equals in turn for ever by that rule. Here the one admitted last goes once an equal was evicted
    ``MAX_TIED_EVICTIONS`` times without a token in between, so that every request ends.
    """
    worst = max((seq.priority, seq.arrival_time) for seq in candidates)
    equals = [seq for seq in candidates if (seq.priority, seq.arrival_time) == worst]
    turning = any(seq.fruitless_evictions >= MAX_TIED_EVICTIONS for seq in equals)
    return equals[-1] if turning else equals[0]


@VICTIMS.register("most_blocks")
def most_blocks(draft: Draft, candidates: Sequence[SequenceView]) -> SequenceView:
    """The one whose eviction frees most blocks; of equals the one admitted last."""
    return max(reversed(spared(candidates)), key=draft.blocks_of)


@VICTIMS.register("least_computed")
def least_computed(draft: Draft, candidates: Sequence[SequenceView]) -> SequenceView:
    """The one with the fewest computed tokens, so that least work is lost; of equals the one admitted last."""
    return min(reversed(spared(candidates)), key=lambda seq: seq.num_computed_tokens)


def spared(candidates: Sequence[SequenceView]) -> Sequence[SequenceView]:
    """Leave out those evicted too often; when that leaves nobody, only the newest may go."""
    return [seq for seq in candidates if seq.fruitless_evictions < MAX_FRUITLESS_EVICTIONS] or candidates[-1:]


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
    victim = VICTIMS[policy.preemption_victim](draft, draft.running)
    eviction = MODES[policy.preemption_mode](draft, victim, for_seq)
    return None if eviction is None else (eviction, victim)
