"""Allocation: how many KV blocks a request needs, and when.

Every allocator answers from the same rounding rule, and admission, growth and rejection all ask the allocator, so that
"it fits" and "it gets it" cannot disagree (faults F11, F12).
"""

from __future__ import annotations

from typing import Final, Protocol

from scheduler.block_pool import KVBlockPool
from scheduler.plan import StepView
from scheduler.registry import Registry
from scheduler.request import Request
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


def output_limit(request: Request, pool: KVBlockPool, max_model_len: int) -> tuple[int, str]:
    """(output tokens the request may make, "") or (0, why it can never run).

    Alone it needs room for P + M - 1 tokens, since the last sampled token is never computed. M is what was asked, cut
    to what ``max_model_len`` leaves; asked nothing, also to what the pool leaves.
    """
    length, asked = len(request.prompt_token_ids), request.sampling.max_tokens
    pool_leaves = max(1, pool.num_blocks * pool.block_size - length + 1)
    most = min(max_model_len - length, pool_leaves if asked is None else asked)
    needed = -(-(length + most - 1) // pool.block_size)
    if needed > pool.num_blocks:
        return 0, (
            f"prompt_token_ids has {length} tokens and max_tokens is {most}: that is up to {needed} KV blocks of "
            f"{pool.block_size} tokens, the pool has {pool.num_blocks}"
        )
    prior = len(request.prior_output_token_ids)
    if prior >= most:
        return 0, f"prior_output_token_ids has {prior} tokens, expected fewer than max_tokens ({most})"
    return most, ""
