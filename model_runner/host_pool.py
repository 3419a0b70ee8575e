"""Where the KV blocks of swapped requests lie: a pool in host memory, and the copies to it and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from model_runner.errors import RunnerConfigError, StepError
from model_runner.kv_cache import KVCache
from scheduler import BlockMove


class HostPool:
    """KV blocks in host memory, numbered 1 .. num_host_blocks as in ``BlockMove``. Knows no request: only bytes.

    A block is kept in one piece, [2 * layers, ...], so that on CUDA it is one transfer. The
    memory is taken when the first block moves and kept from then on; on CUDA it is page-locked, without which
    the driver copies everything twice.
    """

    def __init__(self, cache: KVCache, num_host_blocks: int) -> None:
        self._cache = cache
        self._num_blocks = num_host_blocks
        self._content: torch.Tensor | None = None

    @property
    def num_bytes(self) -> int:
        """Size of the whole pool, taken or not."""
        block = self._cache.block(0)
        return self._num_blocks * block.numel() * block.element_size()

    def reserve(self) -> torch.Tensor:
        """The pool's memory, [num_host_blocks, 2 * layers, ...], taken now if it was not.

        Raises RunnerConfigError when there is not so much.
        """
        if self._content is None:
            block = self._cache.block(0)
            shape = (self._num_blocks, *block.shape)
            try:
                self._content = torch.empty(shape, dtype=block.dtype, pin_memory=block.device.type == "cuda")
            except (RuntimeError, MemoryError) as error:
                raise RunnerConfigError(
                    f"num_host_blocks is {self._num_blocks}; a host pool of {self.num_bytes / 2**20:.0f} MiB "
                    f"does not fit into memory: {error}"
                ) from error
        return self._content

    def move_out(self, moves: Iterable[BlockMove]) -> None:
        """Copy device blocks to host blocks. Raises StepError naming a request whose move cannot be made."""
        host = self.reserve()
        for device_id, host_id in self._pairs("swapped_out", moves):
            host[host_id - 1].copy_(self._cache.block(device_id), non_blocking=True)

    def move_in(self, moves: Iterable[BlockMove]) -> None:
        """Copy host blocks to device blocks. Raises StepError naming a request whose move cannot be made."""
        host = self.reserve()
        for device_id, host_id in self._pairs("swapped_in", moves):
            self._cache.block(device_id).copy_(host[host_id - 1], non_blocking=True)

    def release(self) -> None:
        """Give the memory back."""
        self._content = None

    def _pairs(self, name: str, moves: Iterable[BlockMove]) -> Iterator[tuple[int, int]]:
        """(device block, host block) of each block. An id out of range would reach another request's content."""
        for move in moves:
            device, host = move.device_block_ids, move.host_block_ids
            if len(device) != len(host):
                raise StepError(f"{move.request_id}: {name} pairs {len(device)} device with {len(host)} host blocks")
            for kind, ids, last in (("device", device, self._cache.num_pages - 1), ("host", host, self._num_blocks)):
                for block_id in ids:
                    if not 1 <= block_id <= last:
                        raise StepError(f"{move.request_id}: {name} names {kind} block {block_id}; ids are 1 .. {last}")
            yield from zip(device, host, strict=True)
