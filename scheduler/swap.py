"""Swap: evicted requests whose KV blocks lie in a second pool, in host memory, until they run again."""

from __future__ import annotations

from scheduler.block_pool import KVBlockPool
from scheduler.sequence import Sequence
from scheduler.step import BlockMove


class HostSpace:
    """The host pool and the moves of the step being planned. Host blocks are numbered like those of the device.

    A request that is moved in gives its host blocks back only with ``drain``, at the end of planning: the runner makes
    all moves out before all moves in, so a block given back earlier could be overwritten before it was read.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.pool = KVBlockPool(num_blocks, block_size)
        self._out: list[BlockMove] = []
        self._in: list[BlockMove] = []

    @property
    def num_free_blocks(self) -> int:
        """Host blocks nobody owns once the moves in planned so far are made."""
        return self.pool.num_free_blocks + sum(len(move.host_block_ids) for move in self._in)

    def move_out(self, seq: Sequence, num_blocks: int) -> None:
        """Plan the copy of a request's first ``num_blocks`` blocks, those that hold computed tokens."""
        seq.host_block_ids = self.pool.allocate(seq.request_id, num_blocks)
        seq.swapped_blocks += num_blocks
        self._out.append(BlockMove(seq.request_id, seq.block_table[:num_blocks], seq.host_block_ids))

    def move_in(self, seq: Sequence) -> int:
        """Plan the copy back into the first blocks of the request's new table; returns the number of blocks."""
        count = len(seq.host_block_ids)
        self._in.append(BlockMove(seq.request_id, seq.block_table[:count], seq.host_block_ids))
        seq.swapped_blocks += count
        seq.host_block_ids = ()
        return count

    def drop(self, seq: Sequence) -> None:
        """Forget what lies in the host pool for a request: it ended, or its copy was never made."""
        self.pool.free(seq.request_id, seq.host_block_ids)
        seq.host_block_ids = ()

    def drain(self) -> tuple[tuple[BlockMove, ...], tuple[BlockMove, ...]]:
        """(moves out, moves in) of the step, and their host blocks are free for the next one."""
        moves = tuple(self._out), tuple(self._in)
        for move in self._in:
            self.pool.free(move.request_id, move.host_block_ids)
        self._out, self._in = [], []
        return moves
