"""The KV blocks: who owns which, and which are free."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scheduler.prefix_cache import PrefixCache


class InvariantError(RuntimeError):
    """The scheduler's own books do not add up. Never caused by input; the run must stop."""


class KVBlockPool:
    """Blocks 1 .. num_blocks; block 0 belongs to nobody, as in vLLM, where it is the null block.

    ``allocate`` takes from a stack: a fresh pool hands out 1, 2, 3 ..., and freed blocks come back first, the tail of
    a request before its head (vLLM puts freed blocks at the front of its free list in that order). ``take`` gives out
    the very blocks an allocator has placed, from anywhere in the stack, in O(1) each. free_map: one byte a block id,
    1 = free, so that ``bytes.find`` finds runs of free blocks; to be read only.

    cache: which blocks hold what. A known block that is freed goes to the bottom of the stack instead, again the
    tail before the head, so that the least recently used is handed out first; ``share`` gives it to whom it serves.
    shared: blocks in use by more than one request -> their holders; to be read only.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks, 0, -1))
        self.free_map = bytearray(b"\0" + b"\1" * num_blocks)
        self._owner: list[str | None] = [None] * (num_blocks + 1)
        self.shared: dict[int, dict[str, None]] = {}
        self.cache = PrefixCache()
        self._cached_free: tuple[int, ...] = ()
        self._cached_free_of = (0, 0)
        self._moves = 0

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody owns, whatever ``kv_block_limit`` says."""
        return len(self._free)

    @property
    def num_used_blocks(self) -> int:
        """Blocks with an owner."""
        return self.num_blocks - len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks in use: 0.0 when empty, exactly 1.0 when full (fault F36)."""
        return self.num_used_blocks / self.num_blocks

    def owner(self, block_id: int) -> str | None:
        """The request that owns a block, the first of those that share it, or None."""
        return self._owner[block_id]

    def holders(self, block_id: int) -> tuple[str, ...]:
        """All requests that use a block."""
        owner = self._owner[block_id]
        return tuple(self.shared.get(block_id, () if owner is None else (owner,)))

    def is_held_by(self, request_id: str, blocks: tuple[int, ...]) -> bool:
        """Whether a request is a holder of each of these blocks."""
        if set(map(self._owner.__getitem__, blocks)) <= {request_id}:
            return True
        return bool(self.shared) and all(request_id in self.holders(block) for block in blocks)

    def is_free(self, block_id: int) -> bool:
        """Whether nobody uses a block."""
        return block_id in self._free

    def free_order(self) -> Iterator[int]:
        """Free blocks in the order in which they would be handed out."""
        return reversed(self._free)

    def find(self, digest: bytes) -> Iterator[int]:
        """Blocks known to hold what the digest stands for."""
        return self.cache.find(digest)

    def cached_free(self) -> tuple[int, ...]:
        """Free blocks whose content is known, in the order in which they would be handed out."""
        state = (self.cache.version, self._moves)
        if state != self._cached_free_of:
            self._cached_free_of = state
            self._cached_free = tuple(
                [block for block in self.free_order() if block in self.cache] if self.cache else ()
            )
        return self._cached_free

    def allocate(self, request_id: str, count: int) -> tuple[int, ...]:
        """Take ``count`` blocks for a request: all or nothing.

        Raises InvariantError when there are too few: the plan must have counted before.
        """
        if count > len(self._free):
            raise InvariantError(f"{request_id} was promised {count} blocks, {len(self._free)} are free")
        if count == 1:
            block, _ = self._free.popitem()
            self._owner[block] = request_id
            self.free_map[block] = 0
            if self.cache:
                self.cache.forget(block)
            return (block,)
        pop = self._free.popitem
        blocks = tuple([pop()[0] for _ in range(count)])
        self._own(request_id, blocks)
        return blocks

    def take(self, request_id: str, blocks: tuple[int, ...]) -> None:
        """Give a request these very blocks: all or nothing.

        Raises InvariantError when one is not free: the plan must have placed them on the same free map.
        """
        if len(set(blocks)) != len(blocks) or not all(block in self._free for block in blocks):
            raise InvariantError(f"{request_id} was promised blocks {blocks}, of which some are not free")
        for block in blocks:
            del self._free[block]
        self._own(request_id, blocks)

    def share(self, request_id: str, blocks: tuple[int, ...]) -> None:
        """Let a request use blocks for what they hold, beside those that use them already."""
        for block in blocks:
            if block in self._free:
                del self._free[block]
                self.free_map[block] = 0
                self._owner[block] = request_id
            else:
                self.shared.setdefault(block, dict.fromkeys(self.holders(block)))[request_id] = None
        self._moves += 1

    def _own(self, request_id: str, blocks: tuple[int, ...]) -> None:
        for block in blocks:
            self._owner[block] = request_id
            self.free_map[block] = 0
        if self.cache:
            for block in blocks:
                self.cache.forget(block)

    def free(self, request_id: str, blocks: tuple[int, ...]) -> None:
        """Give blocks back, in order of position; those that others use stay theirs.

        Raises InvariantError when a block is not the request's: a second free would let two requests share it (F28).
        """
        if self.shared:
            blocks = tuple([block for block in blocks if not self._leave(request_id, block)])
        for block in blocks:
            if self._owner[block] != request_id:
                raise InvariantError(f"{request_id} frees block {block}, which belongs to {self._owner[block]}")
            self._owner[block] = None
            self._free[block] = None
            self.free_map[block] = 1
        if self.cache:
            self._moves += 1
            for block in reversed(blocks):
                if block in self.cache:
                    self._free.move_to_end(block, last=False)

    def _leave(self, request_id: str, block: int) -> bool:
        """Take a request from the holders of a block that others use as well; False when none do."""
        holders = self.shared.get(block)
        if holders is None:
            return False
        if request_id not in holders:
            raise InvariantError(f"{request_id} frees block {block}, which belongs to {tuple(holders)}")
        del holders[request_id]
        self._owner[block] = next(iter(holders))
        if len(holders) == 1:
            del self.shared[block]
        return True

    def check(self) -> None:
        """Raise InvariantError unless every block is either free once or owned once."""
        free = bytes(map(self._free.__contains__, range(self.num_blocks + 1)))
        unowned = bytes([owner is None for owner in self._owner])
        if unowned[0] != 1 or free[0] or self.free_map[0]:
            raise InvariantError("block 0 must belong to nobody")
        if not free[1:] == unowned[1:] == self.free_map[1:]:
            kinds = zip(free, unowned, self.free_map, strict=True)
            block = next(block for block, (a, b, c) in enumerate(kinds) if block and not a == b == c)
            raise InvariantError(
                f"block {block} is owned by {self._owner[block]}, in the free list: {block in self._free}, "
                f"in the free map: {self.free_map[block]}"
            )
        if len(self._free) != sum(free):
            raise InvariantError(f"the free list has {len(self._free)} blocks, of which {sum(free)} are in the pool")
        for block, holders in self.shared.items():
            if len(holders) < 2 or free[block] or self._owner[block] not in holders:
                raise InvariantError(f"block {block} of {self._owner[block]} is shared by {tuple(holders)}")
