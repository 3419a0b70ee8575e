"""The prefix cache: full KV blocks found again by what they hold.

A block is known by the digest of its tokens and of all tokens before it, so equal digests mean equal keys and values.
The rules are those of vLLM V1 (vllm/v1/core/kv_cache_utils.py, block_pool.py): only full blocks, one digest chain a
request, no de-duplication (a block that fills up with known content is kept beside the first), least recently used out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence


def block_digest(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """SHA-256 of the parent block's digest (b"" for the first block) and the token ids of a full block."""
    return hashlib.sha256(parent + ",".join(map(str, token_ids)).encode()).digest()


class PrefixCache:
    """Which block holds what. Says nothing about who uses a block: free blocks stay known until they are handed out.

    version: rises with every change.
    """

    def __init__(self) -> None:
        self._blocks: dict[bytes, dict[int, None]] = {}
        self._digests: dict[int, bytes] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, block_id: object) -> bool:
        return block_id in self._digests

    def digest(self, block_id: int) -> bytes | None:
        """The digest a block is known by, or None."""
        return self._digests.get(block_id)

    def find(self, digest: bytes) -> Iterator[int]:
        """Blocks of this content, the one registered first in front."""
        return iter(self._blocks.get(digest, ()))

    def register(self, block_id: int, digest: bytes) -> None:
        """A block is full of this content."""
        if self._digests.get(block_id) == digest:
            return
        self.forget(block_id)
        self._blocks.setdefault(digest, {})[block_id] = None
        self._digests[block_id] = digest
        self.version += 1

    def forget(self, block_id: int) -> None:
        """The block is handed out anew, or its content cannot be trusted."""
        digest = self._digests.pop(block_id, None)
        if digest is None:
            return
        same = self._blocks[digest]
        del same[block_id]
        if not same:
            del self._blocks[digest]
        self.version += 1

    def clear(self) -> None:
        """Forget every block."""
        self._blocks.clear()
        self._digests.clear()
        self.version += 1
