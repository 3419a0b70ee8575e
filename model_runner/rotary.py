"""Rotary position embedding in half-split form (arXiv:2104.09864, as Llama checkpoints use it)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from model_runner.model_config import Llama3RopeScaling


@dataclass(frozen=True, slots=True)
class Rotation:
    """Angles of one step's tokens. cos, sin: [tokens, 1, head_dim]; sin carries the minus sign of the first half."""

    cos: torch.Tensor
    sin: torch.Tensor

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Rotate [tokens, heads, head_dim] into float32: halves (a, b) become (a cos - b sin, b cos + a sin)."""
        return torch.addcmul(x * self.cos, x.roll(x.shape[-1] // 2, -1), self.sin)


class RotaryTable:
    """cos and sin of every position, in float32: a bfloat16 angle would be wrong by whole turns far into a text."""

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
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat((cos, cos), -1).to(device)
        self._sin = torch.cat((-sin, sin), -1).to(device)

    def at(self, positions: torch.Tensor) -> Rotation:
        """positions: int64 [tokens], each below the number of positions."""
        return Rotation(self._cos[positions].unsqueeze(1), self._sin[positions].unsqueeze(1))


def stretch(frequencies: torch.Tensor, scaling: Llama3RopeScaling) -> torch.Tensor:
    """Angles a position, as Llama 3.1 stretches them: slow ones by the factor, fast ones not, those between partly."""
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * ((1.0 - kept) / scaling.factor + kept)
