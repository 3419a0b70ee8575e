"""Prefix caching in a plan: what each request would find when the step's earlier grants and admissions were made.

vLLM finds a prefix, takes blocks and registers full ones request by request, so that a request can find what another
is about to compute in the same step, and a grant can push a cached block out before it is found. The same order is
gone through here on paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from scheduler.sequence import SequenceView


class PrefixReader(Protocol):
    """What a plan may read of the pool and its prefix cache."""

    block_size: int

    def free_order(self) -> Iterator[int]: ...
    def is_free(self, block_id: int) -> bool: ...
    def find(self, digest: bytes) -> Iterator[int]: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """The cached prefix of a request. num_in_use: of its blocks, those that somebody uses, which cost no free block."""

    block_ids: tuple[int, ...] = ()
    num_tokens: int = 0
    num_in_use: int = 0


NO_HIT: Final = Hit()


class PrefixPaper:
    """The pool's free list and prefix cache as they would be. Made when admission begins; no eviction follows then.

    grown: blocks promised to running requests so far, in the order of the promises. planned: the running requests that
    compute, and the tokens they will have computed, in schedule order.
    """

    def __init__(
        self, pool: PrefixReader, grown: Mapping[str, int], planned: Iterable[tuple[SequenceView, int]]
    ) -> None:
        self._pool = pool
        self._order = pool.free_order()
        self._handed_out: set[int] = set()
        self._found: set[int] = set()
        self._new: dict[bytes, int] = {}
        tables = {request_id: self._take(count) for request_id, count in grown.items()}
        for seq, end in planned:
            if seq.caching:
                self._fill(seq, (*seq.block_table, *tables.get(seq.request_id, ())), seq.num_computed_tokens, end)

    def look_up(self, seq: SequenceView) -> Hit:
        """The longest run of cached blocks from the start of a request that has nothing computed.

        At most ``num_tokens - 1`` tokens: the last token is always computed, because the next is sampled from it.
        """
        if seq.num_computed_tokens:
            return NO_HIT
        size, blocks, in_use = self._pool.block_size, [], 0
        for digest in seq.block_digests(size)[: (seq.num_tokens - 1) // size]:
            block = self._find(digest)
            if block is None:
                break
            blocks.append(block)
            in_use += block in self._found or not self._pool.is_free(block) or block in self._handed_out
        return Hit(tuple(blocks), len(blocks) * size, in_use)

    def admit(self, seq: SequenceView, hit: Hit, num_blocks: int, end: int) -> None:
        """Let a request in with its hit and new blocks up to ``num_blocks``; it will have ``end`` tokens computed."""
        self._found.update(hit.block_ids)
        table = (*hit.block_ids, *self._take(num_blocks - len(hit.block_ids)))
        self._fill(seq, table, hit.num_tokens, end)

    def _take(self, count: int) -> list[int]:
        blocks: list[int] = []
        while len(blocks) < count:
            block = next(self._order)
            if block not in self._found:
                blocks.append(block)
        self._handed_out.update(blocks)
        return blocks

    def _fill(self, seq: SequenceView, table: tuple[int, ...], start: int, end: int) -> None:
        size = self._pool.block_size
        digests = seq.block_digests(size)
        for index in range(start // size, end // size):
            self._new.setdefault(digests[index], table[index])

    def _find(self, digest: bytes) -> int | None:
        known = next((block for block in self._pool.find(digest) if block not in self._handed_out), None)
        return self._new.get(digest) if known is None else known
