"""Allocation: how many KV blocks a request needs, when, and where they lie.

Every allocator answers from the same rounding rule, and admission, growth and rejection all ask the allocator, so that
"it fits" and "it gets it" cannot disagree (faults F11, F12). A request keeps the allocator it was let in with.
"""

from __future__ import annotations

from typing import Final

from scheduler.block_pool import KVBlockPool
from scheduler.plan import Draft, StepView
from scheduler.policy import SchedulerPolicy
from scheduler.refusals import Refusals
from scheduler.registry import Choice, Registry
from scheduler.request import Request
from scheduler.sequence import SequenceView


class Allocator(Choice):
    """A way of giving out blocks.

    contiguous: its requests own one run of consecutive block ids, taken whole when they are let in, and never grow.
    ``blocks_for`` must then hold ``max_total_tokens`` whatever is asked, and never exceed the pool, so that a request
    alone always fits.
    """

    contiguous = False

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """Blocks the request owns when its first ``num_tokens`` tokens are in the cache."""
        raise NotImplementedError

    def alignment(self, count: int) -> int:
        """A run of ``count`` blocks begins at a multiple of this, counting blocks from 0 (block id - 1); at most
        ``count``. 1 = anywhere."""
        return 1

    def place(self, free: bytes, count: int) -> int | None:
        """Block id where a run of ``count`` blocks shall begin, None when no run will do: here the first that does.

        free: one byte a block id, 1 = free. Asked of contiguous allocators only.
        """
        run, step = b"\1" * count, self.alignment(count)
        block = free.find(run)
        while block > 0 and (block - 1) % step:
            block = free.find(run, block + step - (block - 1) % step)
        return block if block > 0 else None

    def propose(self, view: StepView, free: bytes, count: int) -> int | None:
        """``place`` as the scheduler asks for it, so that a guard can stand before it."""
        return self.place(free, count)

    def decided_by(self, refusals: Refusals) -> str:
        """Name of the allocator that decides in this step."""
        return self.name


ALLOCATORS: Final[Registry[Allocator]] = Registry("allocation")


class Paged(Allocator):
    """Blocks on demand: a new one when the last is full (vLLM's PagedAttention). Waste only in the last block."""

    name = "paged"

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """ceil(num_tokens / block_size)."""
        return view.blocks_for(num_tokens)


class ReserveMax(Allocator):
    """One run for the longest sequence the model takes, for every request: Orca (Max) of the PagedAttention paper."""

    name = "reserve_max"
    contiguous = True

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """The blocks of max_model_len tokens, cut to the pool, where a request that fits alone fits all the same."""
        return min(view.blocks_for(view.max_model_len), view.num_blocks)


class Buddy(Allocator):
    """One run whose length is a power of two and which begins at a multiple of it: Orca (Pow2), a buddy allocator."""

    name = "buddy"
    contiguous = True

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """The power of two from prompt + max_tokens - 1 tokens up. One above the pool is cut to the pool, all of it."""
        return min(1 << (view.blocks_for(seq.max_total_tokens) - 1).bit_length(), view.num_blocks)

    def alignment(self, count: int) -> int:
        """Its own size, so that freed neighbours make a run of twice the size again."""
        return count


class Exact(Allocator):
    """One run for prompt and output, and no more: Orca (Oracle), which knows the output length; here, max_tokens."""

    name = "exact"
    contiguous = True

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """The blocks of prompt + max_tokens - 1 tokens: the last token is never computed."""
        return view.blocks_for(seq.max_total_tokens)


for _allocator in (Paged(), ReserveMax(), Buddy(), Exact()):
    ALLOCATORS.register(_allocator.name)(_allocator)


def blocks_for(view: StepView, seq: SequenceView, num_tokens: int) -> int:
    """Blocks a request owns for its first ``num_tokens`` tokens: by its own allocator, or by the one in force."""
    return ALLOCATORS[seq.allocation or view.policy.allocation].blocks_for(view, seq, num_tokens)


def in_force(policy: SchedulerPolicy, refusals: Refusals) -> str:
    """The allocator of those that are let in now: the policy's, or its stand-in once it was refused in this step."""
    return ALLOCATORS[policy.allocation].decided_by(refusals)


def place(view: StepView, draft: Draft, count: int) -> int | None:
    """Where the allocator in force puts a run of ``count`` blocks; None when it cannot, or leaves it to the pool."""
    return ALLOCATORS[view.policy.allocation].propose(view, bytes(draft.free_map), count) if draft.free_map else None


def has_place(view: StepView, draft: Draft, count: int) -> bool:
    """Whether ``count`` blocks, of which there are enough, lie where the allocator in force can give them out."""
    found = place(view, draft, count) is not None
    return found or not ALLOCATORS[in_force(view.policy, view.refusals)].contiguous


def longest_run(free: bytearray) -> int:
    """Most free blocks in a row."""
    return max(map(len, free.split(b"\0")))


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
