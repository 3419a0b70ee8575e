"""Allocation: how many KV blocks a request needs, and when.

Every allocator answers from the same rounding rule, and admission, growth and rejection all ask the allocator, so that
"it fits" and "it gets it" cannot disagree (faults F11, F12).
"""

from __future__ import annotations

from typing import Final, Protocol

from scheduler.plan import StepView
from scheduler.registry import Registry
from scheduler.sequence import SequenceView


class Allocator(Protocol):
    """A way of giving out blocks."""

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """Blocks the request owns when its first ``num_tokens`` tokens are in the cache."""
        ...


ALLOCATORS: Final[Registry[Allocator]] = Registry("allocation")


class Paged:
    """Blocks on demand: a new one when the last is full (vLLM's PagedAttention). Waste only in the last block."""

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """ceil(num_tokens / block_size)."""
        return view.blocks_for(num_tokens)


ALLOCATORS.register("paged")(Paged())


def most_blocks_ever(num_prompt_tokens: int, max_tokens: int, block_size: int) -> int:
    """Blocks a request alone can ever hold: ceil((P + M - 1) / B), since the last token is never computed."""
    return -(-(num_prompt_tokens + max_tokens - 1) // block_size)
