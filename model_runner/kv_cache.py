"""The paged KV cache: which token's keys and values lie where is the scheduler's decision, the bytes are here."""

from __future__ import annotations

import torch

from model_runner.errors import RunnerConfigError
from model_runner.model_config import ModelConfig

SCRATCH_PAGE = 0
"""Belongs to no request: padding tokens write here, so that they never touch a real one."""


class KVCache:
    """One tensor a layer for keys and one for values: [1 + num_blocks, block_size, kv_heads, head_dim].

    Block ids of the scheduler (1 .. num_blocks) are page numbers. A slot is page * block_size + offset.
    """

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.block_size = block_size
        shape = (num_blocks + 1, block_size, config.num_key_value_heads, config.head_dim)
        try:
            self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]
            self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]
        except (RuntimeError, MemoryError) as error:
            needed = bytes_per_token(config, dtype) * block_size * (num_blocks + 1)
            raise RunnerConfigError(
                f"num_blocks is {num_blocks}; a KV cache of {needed / 2**20:.0f} MiB does not fit on {device}: {error}"
            ) from error

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store keys and values [tokens, kv_heads, head_dim] at slots (int64 [tokens])."""
        self.keys[layer].flatten(0, 1).index_copy_(0, slots, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, slots, values)


def bytes_per_token(config: ModelConfig, dtype: torch.dtype) -> int:
    """Bytes that keys and values of one token take over all layers."""
    return 2 * config.num_hidden_layers * config.kv_size * dtype.itemsize
