"""The paged KV cache: which token's keys and values lie where is the scheduler's decision, the bytes are here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from model_runner.errors import RunnerConfigError
from model_runner.model_config import ModelConfig

SCRATCH_PAGE = 0
"""Belongs to no request: padding tokens write here, so that they never touch a real one."""


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Where one step's tokens go, the same in every layer. int64 on the device.

    rows: [tokens * kv_heads] rows of the cache seen as [pages * kv_heads * block_size, head_dim].
    fresh_pages: [n] pages whose first slot is written in this step.
    """

    rows: torch.Tensor
    fresh_pages: torch.Tensor


class KVCache:
    """Keys and values of each layer, addressed [1 + num_blocks, block_size, kv_heads, head_dim].

    In memory the heads of a page lie one after the other (the third index is slower than the second), so that the
    keys of one head in one page are a matrix which the decode kernel multiplies in place, without gathering pages
    first. Block ids of the scheduler (1 .. num_blocks) are page numbers; a slot is page * block_size + offset.
    All layers lie in one tensor, so that a block can be taken out of all of them at once.
    """

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.block_size = block_size
        self.num_pages = num_blocks + 1
        self.kv_heads = config.num_key_value_heads
        layers = config.num_hidden_layers
        shape = (2 * layers, self.num_pages, self.kv_heads, block_size, config.head_dim)
        try:
            self._blocks = torch.zeros(shape, device=device, dtype=dtype)
        except (RuntimeError, MemoryError) as error:
            needed = bytes_per_token(config, dtype) * block_size * self.num_pages
            raise RunnerConfigError(
                f"num_blocks is {num_blocks}; a KV cache of {needed / 2**20:.0f} MiB does not fit on {device}: {error}"
            ) from error
        self._keys, self._values = list(self._blocks[:layers].unbind()), list(self._blocks[layers:].unbind())

    def keys(self, layer: int) -> torch.Tensor:
        """[pages, block_size, kv_heads, head_dim], a view."""
        return self._keys[layer].transpose(1, 2)

    def values(self, layer: int) -> torch.Tensor:
        """[pages, block_size, kv_heads, head_dim], a view."""
        return self._values[layer].transpose(1, 2)

    def block(self, block_id: int) -> torch.Tensor:
        """[2 * layers, kv_heads, block_size, head_dim], a view: all that a block holds."""
        return self._blocks[:, block_id]

    def plan_write(self, slots: torch.Tensor) -> CacheWrite:
        """slots: int64 [tokens]."""
        pages, offsets = slots // self.block_size, slots % self.block_size
        heads = torch.arange(self.kv_heads, device=slots.device)
        rows = (pages.unsqueeze(1) * self.kv_heads + heads) * self.block_size + offsets.unsqueeze(1)
        return CacheWrite(rows.flatten(), pages[offsets == 0])

    def write(self, layer: int, where: CacheWrite, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store keys and values [tokens, kv_heads, head_dim].

        A page is cleared when its first slot is written: what an earlier owner left, perhaps not even a number, must
        not reach the new one through slots that are masked but still multiplied (faults F17, F33, F35).
        """
        for pool, new in ((self._keys[layer], keys), (self._values[layer], values)):
            if where.fresh_pages.numel():
                pool.index_fill_(0, where.fresh_pages, 0.0)
            pool.view(-1, pool.shape[-1]).index_copy_(0, where.rows, new.reshape(-1, pool.shape[-1]))

    def fill(self, value: float) -> None:
        """Overwrite everything; tests fill it with NaN to see whether a slot is read that nobody wrote."""
        self._blocks.fill_(value)

    def release(self) -> None:
        """Give the memory back."""
        self._keys.clear()
        self._values.clear()
        self._blocks = self._blocks.new_empty(0)


def bytes_per_token(config: ModelConfig, dtype: torch.dtype) -> int:
    """Bytes that keys and values of one token take over all layers."""
    return 2 * config.num_hidden_layers * config.kv_size * dtype.itemsize
