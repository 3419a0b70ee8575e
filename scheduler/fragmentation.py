"""Where the token slots of the pool are, and what the same moment would look like page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from scheduler.allocation import ALLOCATORS, blocks_for, in_force
from scheduler.continuous import BATCHINGS
from scheduler.plan import Draft, StepView
from scheduler.proposals import Admit
from scheduler.refusals import Refusals
from scheduler.request import Request
from scheduler.sequence import Sequence as Seq
from scheduler.sequence import SequenceView
from scheduler.snapshot import MemoryUse

SHORT_OF_MEMORY: Final = ("kv_capacity", "watermark", "allocator_fragmented")
"""Reasons of waiting that another way of giving out blocks could take away."""

SMALLEST: Final = Seq(Request("", (0,)), max_tokens=1, arrival_time=0.0, rank=0, stop_ids=frozenset())
"""One prompt token, one output token: the least a request can ask for."""


class MemoryGauge:
    """Measures ``MemoryUse`` after a step. What the allocator cannot give out is looked for only when it may change."""

    def __init__(self) -> None:
        self._asked: tuple[bytes, int, str] = (b"", 0, "")
        self._unusable: tuple[int, ...] = ()

    def measure(self, view: StepView, num_computed_tokens: Sequence[int], num_reserving: int) -> MemoryUse:
        """Where the token slots are, from the computed tokens of each running request.

        num_reserving: running requests that may own blocks without a token. Without any, what used blocks do not hold
        is the rest of last blocks, and no row needs to be looked at.
        """
        size = view.block_size
        filled = sum(num_computed_tokens)
        internal = sum([-count % size for count in num_computed_tokens]) if num_reserving else None
        if view.shared and num_reserving:
            filled, internal = _block_by_block(view)
        elif view.shared:  # shared blocks are full in all their tables
            filled -= sum([len(holders) - 1 for holders in view.shared.values()]) * size
        empty = view.num_used_blocks * size - filled
        internal = empty if internal is None else internal
        unusable = self._unusable_blocks(view)
        return MemoryUse(filled, empty - internal, internal, len(unusable) * size, unusable)

    def _unusable_blocks(self, view: StepView) -> tuple[int, ...]:
        """Free blocks without a use for the head of the queue. Those above ``kv_block_limit`` are no loss: at most
        so many count as the limit leaves beside the used blocks and what the allocator can give out."""
        if not view.free_map:
            return ()
        head = view.waiting.head() or SMALLEST
        count = blocks_for(view, head, head.num_tokens)
        asked = (view.free_map, count, in_force(view.policy, view.refusals))
        if asked != self._asked:
            self._asked = asked
            self._unusable = unusable_blocks(*asked)
        limit, num_free = view.policy.kv_block_limit, view.free_map.count(1)
        if limit is None or not self._unusable:
            return self._unusable
        usable = max(0, min(num_free, limit - view.num_used_blocks))
        if usable < count:
            return ()
        return self._unusable[: max(0, usable - (num_free - len(self._unusable)))]


def _block_by_block(view: StepView) -> tuple[int, int]:
    """(filled, internal) where blocks are shared and one table may be behind another, after a lost step."""
    size, fill = view.block_size, dict[int, int]()
    for seq in view.running:
        for index, block in enumerate(seq.block_table):
            tokens = min(max(0, seq.num_computed_tokens - index * size), size)
            fill[block] = max(tokens, fill.get(block, 0))
    return sum(fill.values()), sum(size - tokens for tokens in fill.values() if tokens)


def unusable_blocks(free: bytes, count: int, allocation: str) -> tuple[int, ...]:
    """Free blocks that lie in no run of ``count`` which the allocator could give out; none when fewer are free at all.

    free: one byte a block id, 1 = free.
    """
    if free.count(1) < count or not ALLOCATORS[allocation].contiguous:
        return ()
    step = ALLOCATORS[allocation].alignment(count)
    unusable: list[int] = []
    for start, end in _runs(free):
        first = start + (1 - start) % step
        last = end - count - (end - count - 1) % step
        if first > last:
            unusable.extend(range(start, end))
        else:
            unusable.extend(range(start, first))
            unusable.extend(range(last + count, end))
    return tuple(unusable)


def _runs(free: bytes) -> Iterator[tuple[int, int]]:
    """(first block, block after the last) of each run of free blocks."""
    start = free.find(1)
    while start >= 0:
        end = free.find(0, start)
        end = len(free) if end < 0 else end
        yield start, end
        start = free.find(1, end)


def fitting_paged(view: StepView, draft: Draft) -> tuple[str, ...]:
    """Requests that find no memory in this step, and would be let in were all blocks given out page by page.

    The step is planned again, by the same rules, in a world where each request that runs at its start owns just the
    pages of its computed tokens, and shares none.
    """
    deferral = draft.deferral
    if deferral is None or deferral.reason not in SHORT_OF_MEMORY:
        return ()
    twins = [cast(SequenceView, _InPages(view, seq)) for seq in view.running]
    world = replace(
        view,
        policy=replace(view.policy, allocation="paged"),
        running=twins,
        num_used_blocks=sum(len(seq.block_table) for seq in twins),
        free_map=b"",
        shared={},
        prefix=None,
        refusals=Refusals(),
    )
    other = Draft(world)
    BATCHINGS[view.policy.batching](world, other)
    let_in = {action.request_id for action in draft.actions if isinstance(action, Admit)}
    return tuple(
        action.request_id
        for action in other.actions
        if isinstance(action, Admit) and action.request_id not in let_in | set(other.evicted)
    )


class _InPages:
    """A running request that owns just the pages of its computed tokens; all else is read from the real one."""

    __slots__ = ("_seq", "allocation", "block_table", "capacity")

    def __init__(self, view: StepView, seq: SequenceView) -> None:
        pages = view.blocks_for(seq.num_computed_tokens)
        self._seq = seq
        self.allocation = "paged"
        self.block_table = (0,) * pages
        self.capacity = pages * view.block_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seq, name)
