"""Rotary position embedding (arXiv:2104.09864) as multiplication of complex numbers."""

from __future__ import annotations

import math

import torch

from model_runner.model_config import Llama3RopeScaling


def pairs_together(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Rows [n * head_dim, ...] of a checkpoint, in which i and i + head_dim / 2 of a head are a pair, pair by pair.

    Queries and keys in the same new order have the same products, so nothing else needs to know of it.
    """
    pairs = rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn [tokens, heads, head_dim] in the order of ``pairs_together`` by ``RotaryTable.at``, in float32."""
    pairs = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


class RotaryTable:
    """The turn of every pair at every position, in float32: a bfloat16 angle would be wrong far into a text."""

    def __init__(
        self,
        head_dim: int,
        num_positions: int,
        theta: float,
        device: torch.device,
        scaling: Llama3RopeScaling | None = None,
    ) -> None:
        frequencies = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        if scaling is not None:
            frequencies = stretch(frequencies, scaling)
        angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), frequencies)
        self._turns = torch.complex(angles.cos(), angles.sin()).to(device)

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """Complex [tokens, 1, head_dim / 2] for int64 [tokens], each below the number of positions."""
        return self._turns[positions].unsqueeze(1)


def stretch(frequencies: torch.Tensor, scaling: Llama3RopeScaling) -> torch.Tensor:
    """Angles a position, as Llama 3.1 stretches them: slow ones by the factor, fast ones not, those between partly."""
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * ((1.0 - kept) / scaling.factor + kept)
