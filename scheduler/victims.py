"""Victim rules: which running request has to make room for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from scheduler.plan import StepView
from scheduler.registry import Choice, Registry
from scheduler.sequence import SequenceView

MAX_FRUITLESS_EVICTIONS: Final = 3
"""A request evicted this often without a token in between is passed over while others can go. Rules that look at size
alone could otherwise evict the same two requests in turn for ever (fault F38). Once all are passed over the newest
goes, so the oldest progresses and every request ends."""

MAX_IDLE_EVICTIONS: Final = 8
"""The bound for requests that tie under ``lowest_priority``. It counts only evictions between which no request at all
computed anything new: while others get on, they may end and free what the two lack, and vLLM goes on as before."""


class DraftView(Protocol):
    """What a victim rule may read of the step being planned."""

    @property
    def budget(self) -> int:
        """Tokens that may still be planned."""
        ...

    @property
    def free_blocks(self) -> int:
        """Blocks that may still be given out."""
        ...

    @property
    def view(self) -> StepView:
        """The start of the step: policy, num_blocks, block_size, block_limit, num_used_blocks, max_model_len."""
        ...

    def blocks_of(self, seq: SequenceView) -> int:
        """Blocks of ``seq``; evicting it frees those that no other request uses."""
        ...


class VictimRule(Choice):
    """Says which running request is evicted when another finds no block."""

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """One of the candidates: the running requests in order of admission, never none."""
        raise NotImplementedError


VICTIMS: Final[Registry[VictimRule]] = Registry("preemption_victim")


class Newest(VictimRule):
    """The one admitted last (vLLM, first come first served). The oldest always progresses."""

    name = "newest"

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """The last."""
        return candidates[-1]


class LowestPriority(VictimRule):
    """The largest (priority, arrival time); of equals the one admitted first, as vLLM 0.32 under its priority policy.

    vLLM can evict two equals in turn for ever by that rule. Here the one admitted last goes once an equal was evicted
    ``MAX_IDLE_EVICTIONS`` times while nobody computed anything new, so that every request ends.
    """

    name = "lowest_priority"

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """The least urgent, with the rule for equals above."""
        worst = max((seq.priority, seq.arrival_time) for seq in candidates)
        equals = [seq for seq in candidates if (seq.priority, seq.arrival_time) == worst]
        turning = any(seq.idle_evictions >= MAX_IDLE_EVICTIONS for seq in equals)
        return equals[-1] if turning else equals[0]


class MostBlocks(VictimRule):
    """The one whose eviction frees most blocks; of equals the one admitted last."""

    name = "most_blocks"

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """The largest of those not spared."""
        return max(reversed(spared(candidates)), key=draft.blocks_of)


class LeastComputed(VictimRule):
    """The one with the fewest computed tokens, so that least work is lost; of equals the one admitted last."""

    name = "least_computed"

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """The least advanced of those not spared."""
        return min(reversed(spared(candidates)), key=lambda seq: seq.num_computed_tokens)


def spared(candidates: Sequence[SequenceView]) -> Sequence[SequenceView]:
    """Leave out those evicted too often; when that leaves nobody, only the newest may go."""
    return [seq for seq in candidates if seq.fruitless_evictions < MAX_FRUITLESS_EVICTIONS] or candidates[-1:]


for _rule in (Newest(), LowestPriority(), MostBlocks(), LeastComputed()):
    VICTIMS.register(_rule.name)(_rule)
