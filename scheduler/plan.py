"""One step while it is being planned: proposals on paper. Nothing real changes until ``Scheduler`` applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.policy import SchedulerPolicy
from scheduler.prefix_hits import NO_HIT, Hit, PrefixPaper, PrefixReader
from scheduler.proposals import Action, Admit, Blocked, Deferral, Evict, Grow, Release
from scheduler.refusals import Refusals
from scheduler.sequence import SequenceView


class WaitingView(Protocol):
    """The waiting queue as the decisions see it, head first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[SequenceView]: ...
    def head(self) -> SequenceView | None: ...


@dataclass(frozen=True, slots=True)
class StepView:
    """What the decisions may read at the start of a step.

    running: in the order in which the scheduler walks them (order of admission). block_limit: blocks that may be in
    use under ``kv_block_limit``. num_used_blocks: blocks in use now. num_free_host_blocks: room for swapped blocks.
    refusals: where proposals of policies of one's own that break a rule are noted. free_map: one byte a block id, 1 =
    free; empty unless the allocator in force places its blocks itself. shared: blocks in use by more than one request,
    and by which. prefix: the prefix cache where the policy has one for those it lets in, else None.
    """

    policy: SchedulerPolicy
    running: Sequence[SequenceView]
    waiting: WaitingView
    num_blocks: int
    block_size: int
    block_limit: int
    num_used_blocks: int
    max_model_len: int
    refusals: Refusals = field(default_factory=Refusals)
    free_map: bytes = b""
    shared: Mapping[int, Sized] = field(default_factory=dict)
    prefix: PrefixReader | None = None
    num_free_host_blocks: int = 0

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold ``num_tokens`` tokens: the one rounding rule (faults F11, F12, F27)."""
        return -(-num_tokens // self.block_size)


class Draft:
    """The step being planned, with what would be left. Local to one call of ``Scheduler.schedule``.

    tokens, padding: tokens planned, in schedule order. actions: block movements in the order in which the pool must
    see them, because that order decides the block ids. running: the running list as it would be.
    evicted: the evictions in their order; grown, placed: blocks promised to a request, how many and (with a free map)
    which. deferral: why the walk over the queue ended, None = it reached the end.
    blocked: running requests that wait for blocks, in the order of the walk.
    passed: for each request that was skipped, how often it would have been passed (head of line "skip").
    free_host_blocks: room left in the host pool.
    budget: tokens left. used: blocks that would be in use; never more than the pool has.
    free_map: the view's, as it would be. Where there is one, every block given out is chosen here, so that what is
    placed for one request is not given to another; where there is none, the pool chooses.
    promised: (of so many of ``running``, blocks they may still take), as far as a rule has counted.
    prefix: the prefix cache as it would be, once admission began. released: shared block -> holders it would lose.
    """

    __slots__ = (
        "actions",
        "blocked",
        "budget",
        "deferral",
        "evicted",
        "free_host_blocks",
        "free_map",
        "grown",
        "padding",
        "passed",
        "placed",
        "prefix",
        "promised",
        "released",
        "running",
        "tokens",
        "used",
        "view",
    )

    def __init__(self, view: StepView) -> None:
        self.view = view
        self.tokens: dict[str, int] = {}
        self.padding: dict[str, int] = {}
        self.actions: list[Action] = []
        self.running: list[SequenceView] = list(view.running)
        self.evicted: dict[str, Evict] = {}
        self.grown: dict[str, int] = {}
        self.blocked: list[Blocked] = []
        self.passed: dict[str, int] = {}
        self.budget = view.policy.max_num_batched_tokens
        self.used = view.num_used_blocks
        self.free_map = bytearray(view.free_map)
        self.placed: dict[str, tuple[int, ...]] = {}
        self.prefix: PrefixPaper | None = None
        self.released: dict[int, int] = {}
        self.free_host_blocks = view.num_free_host_blocks
        self.promised = (0, 0)
        self.deferral: Deferral | None = None

    @property
    def free_blocks(self) -> int:
        """Blocks that may still be given out; negative while a lowered ``kv_block_limit`` is exceeded.

        The limit yields to a request that runs alone: a lowered limit slows, it strands nobody.
        """
        view = self.view
        limit = view.num_blocks if len(self.running) <= 1 else view.block_limit
        return limit - self.used

    @property
    def free_for_admission(self) -> int:
        """Blocks an admission may count on. As with running, the limit yields when nothing runs."""
        view = self.view
        return (view.block_limit if self.running else view.num_blocks) - self.used

    def plan(self, seq: SequenceView, num_tokens: int) -> None:
        """Let a request compute ``num_tokens`` tokens, for which it has the blocks."""
        self.tokens[seq.request_id] = num_tokens
        self.budget -= num_tokens

    def pad(self, seq: SequenceView, num_tokens: int) -> None:
        """Let a row of a static batch compute padding."""
        self.padding[seq.request_id] = num_tokens
        self.budget -= num_tokens

    def grow(self, seq: SequenceView, num_blocks: int) -> None:
        """Promise blocks to a running request."""
        self.actions.append(Grow(seq.request_id, num_blocks, self._choose(seq, num_blocks, None)))
        self.grown[seq.request_id] = self.grown.get(seq.request_id, 0) + num_blocks
        self.used += num_blocks
        self.promised = (0, 0)

    def blocks_of(self, seq: SequenceView) -> int:
        """Blocks a request would own after the step, shared ones included."""
        return len(seq.block_table) + self.grown.get(seq.request_id, 0)

    def freed_by(self, seq: SequenceView) -> int:
        """Blocks that would be free without the request: its own but for those that others use too."""
        return self.blocks_of(seq) - len(self._kept(seq))

    def _kept(self, seq: SequenceView) -> list[int]:
        shared = self.view.shared
        if not shared:
            return []
        return [b for b in seq.block_table if b in shared and len(shared[b]) - self.released.get(b, 0) > 1]

    def evict(self, eviction: Evict, victim: SequenceView) -> None:
        """Take a request out; if it was planned already, its tokens go back to the budget (vLLM does the same)."""
        self._take_out(victim)
        self.evicted[victim.request_id] = eviction
        self.free_host_blocks -= eviction.moved_blocks
        self.actions.append(eviction)

    def release(self, row: SequenceView) -> None:
        """End a held row early."""
        self._take_out(row)
        self.actions.append(Release(row.request_id))

    def _take_out(self, seq: SequenceView) -> None:
        self.budget += self.tokens.pop(seq.request_id, 0) + self.padding.pop(seq.request_id, 0)
        kept = self._kept(seq)
        self.used -= self.blocks_of(seq) - len(kept)
        self.grown.pop(seq.request_id, None)
        if self.free_map:
            for block in (*seq.block_table, *self.placed.pop(seq.request_id, ())):
                self.free_map[block] = block not in kept
        for block in kept:
            self.released[block] = self.released.get(block, 0) + 1
        self.running.remove(seq)
        self.promised = (0, 0)

    def look_up(self, seq: SequenceView) -> Hit:
        """What the prefix cache would have for a waiting request."""
        if self.view.prefix is None:
            return NO_HIT
        if self.prefix is None:
            rows = {row.request_id: row for row in self.running}
            planned = [(rows[name], rows[name].num_computed_tokens + count) for name, count in self.tokens.items()]
            self.prefix = PrefixPaper(self.view.prefix, self.grown, planned)
        return self.prefix.look_up(seq)

    def admit(
        self,
        seq: SequenceView,
        num_blocks: int,
        *,
        first_block: int | None = None,
        static_length: int = 0,
        hit: Hit = NO_HIT,
    ) -> None:
        """Let a waiting request in, with the run of blocks that begins at ``first_block`` where it is given.

        hit: the first of its blocks, found in the prefix cache.
        """
        block_ids = self._choose(seq, num_blocks, first_block)
        looked_up = self.prefix is not None and not seq.num_computed_tokens
        self.actions.append(Admit(seq.request_id, num_blocks, static_length, block_ids, hit.block_ids, looked_up))
        self.grown[seq.request_id] = num_blocks
        self.used += num_blocks - hit.num_in_use
        self.running.append(seq)

    def _choose(self, seq: SequenceView, num_blocks: int, first_block: int | None) -> tuple[int, ...]:
        """Take the run, or the lowest free blocks, off the free map; () without a map: the pool will choose."""
        free = self.free_map
        if not free:
            return ()
        if first_block is None:
            blocks = self._lowest_free(num_blocks)
        else:
            blocks = tuple(range(first_block, first_block + num_blocks))
        for block in blocks:
            free[block] = 0
        self.placed[seq.request_id] = (*self.placed.get(seq.request_id, ()), *blocks)
        return blocks

    def _lowest_free(self, count: int) -> tuple[int, ...]:
        blocks = [0]
        for _ in range(count):
            blocks.append(self.free_map.find(1, blocks[-1] + 1))
        return tuple(blocks[1:])
