"""The paged KV cache: which token's keys and values lie where is the scheduler's decision, the bytes are here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from model_runner.errors import RunnerConfigError, first_line
from model_runner.model_config import ModelConfig
from model_runner.process_memory import available_bytes

SCRATCH_PAGE = 0
"""Belongs to no request: padding tokens write here, so that they never touch a real one."""


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Where one step's tokens go, the same in every layer. int64 on the device.

    rows: where heads come first, [tokens * kv_heads] rows of the cache seen as [pages * kv_heads * block_size,
    head_dim]; else [tokens] rows of it seen as [pages * block_size, kv_heads * head_dim].
    fresh_pages: [n] pages whose first slot is written in this step, and whose last one is not.
    """

    rows: torch.Tensor
    fresh_pages: torch.Tensor


class KVCache:
    """Keys and values of each layer, addressed [1 + num_blocks, block_size, kv_heads, head_dim].

    heads_first: in memory the heads of a page lie one after the other (the third index is slower than the second), so
    that the keys of one head in one page are a matrix which the decode kernel in plain torch multiplies in place,
    without gathering pages first. Else memory has the order of the address, as FlashAttention documents it.
    Block ids of the scheduler (1 .. num_blocks) are page numbers; a slot is page * block_size + offset.
    All layers lie in one tensor, so that a block can be taken out of all of them at once.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_size: int,
        device: torch.device,
        dtype: torch.dtype,
        *,
        heads_first: bool = True,
    ) -> None:
        self.block_size = block_size
        self.num_pages = num_blocks + 1
        self.kv_heads = config.num_key_value_heads
        self._heads_first = heads_first
        layers = config.num_hidden_layers
        page = (self.kv_heads, block_size) if heads_first else (block_size, self.kv_heads)
        shape = (2 * layers, self.num_pages, *page, config.head_dim)
        needed = bytes_per_token(config, dtype) * block_size * self.num_pages
        too_large = f"num_blocks is {num_blocks}; a KV cache of {needed / 2**20:.0f} MiB does not fit on {device}"
        available = available_bytes() if device.type == "cpu" else None
        if available is not None and needed > available:
            raise RunnerConfigError(f"{too_large}: {available / 2**20:.0f} MiB are available")
        try:
            self._blocks = torch.zeros(shape, device=device, dtype=dtype)
        except (RuntimeError, MemoryError) as error:
            raise RunnerConfigError(f"{too_large}: {first_line(error)}") from error
        self._keys, self._values = list(self._blocks[:layers].unbind()), list(self._blocks[layers:].unbind())

    def keys(self, layer: int) -> torch.Tensor:
        """[pages, block_size, kv_heads, head_dim], a view."""
        return self._keys[layer].transpose(1, 2) if self._heads_first else self._keys[layer]

    def values(self, layer: int) -> torch.Tensor:
        """[pages, block_size, kv_heads, head_dim], a view."""
        return self._values[layer].transpose(1, 2) if self._heads_first else self._values[layer]

    def block(self, block_id: int) -> torch.Tensor:
        """A view of all that a block holds: [2 * layers, ...], a page as it lies in memory."""
        return self._blocks[:, block_id]

    def plan_write(self, slots: torch.Tensor) -> CacheWrite:
        """slots: int64 [tokens]."""
        pages, offsets = slots // self.block_size, slots % self.block_size
        fresh = pages[offsets == 0]
        fresh = fresh[torch.isin(fresh, pages[offsets == self.block_size - 1], invert=True)]
        if not self._heads_first:
            return CacheWrite(slots, fresh)
        heads = torch.arange(self.kv_heads, device=slots.device)
        rows = (pages.unsqueeze(1) * self.kv_heads + heads) * self.block_size + offsets.unsqueeze(1)
        return CacheWrite(rows.flatten(), fresh)

    def plan_fixed_write(self, slots: torch.Tensor) -> CacheWrite:
        """A plan that reads ``slots`` anew each time it is used, for caches without heads first.

        It does not clear fresh pages, since their number is another one each time: call ``clear`` before.
        """
        if self._heads_first:
            raise ValueError("a fixed plan needs a cache in which a slot is one row")
        return CacheWrite(slots, slots.new_empty(0))

    def write(self, layer: int, where: CacheWrite, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store keys and values [tokens, kv_heads, head_dim].

        A page is cleared when its first slot is written, unless all are: what an earlier owner left, perhaps not even
        a number, must not reach the new one through slots that are masked but still multiplied (faults F17, F33, F35).
        """
        for pool, new in ((self._keys[layer], keys), (self._values[layer], values)):
            if where.fresh_pages.numel():
                pool.index_fill_(0, where.fresh_pages, 0.0)
            width = pool.shape[-1] if self._heads_first else new.shape[1] * new.shape[2]
            pool.view(-1, width).index_copy_(0, where.rows, new.reshape(-1, width))

    def clear(self, pages: torch.Tensor) -> None:
        """Zero pages in all layers at once. pages: int64 [n]."""
        self._blocks.index_fill_(1, pages, 0.0)

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
