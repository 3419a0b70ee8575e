"""Example of a victim rule: keep this file in the folder of policies and choose ``longest_output`` on the page."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import DraftView, SequenceView, VictimRule


class LongestOutput(VictimRule):
    """Evicts the request that may still write most tokens: it would need most new blocks."""

    name = "longest_output"

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """The one with most tokens to come; of equals the one admitted last."""
        return max(reversed(candidates), key=lambda seq: seq.max_tokens - seq.num_output_tokens)
