"""Example of an allocator: one run a request, as ``exact``, but in the tightest gap instead of the first."""

from __future__ import annotations

import re

from scheduler import Allocator, SequenceView, StepView


class BestFit(Allocator):
    """One run for prompt and output in the smallest gap that holds it, which leaves large gaps whole."""

    name = "best_fit"
    contiguous = True

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """All the request can ever need: its run does not grow."""
        return view.blocks_for(seq.max_total_tokens)

    def place(self, free: bytes, count: int) -> int | None:
        """Block id where the run begins. free: one byte a block id, 1 = free."""
        gaps = [gap.span() for gap in re.finditer(b"\1{%d,}" % count, free)]
        return min(gaps, key=lambda gap: gap[1] - gap[0])[0] if gaps else None
