"""Rotary position embedding in half-split form (arXiv:2104.09864, as Llama checkpoints use it)."""

from __future__ import annotations

from dataclasses import dataclass

import torch


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

    def __init__(self, head_dim: int, num_positions: int, theta: float, device: torch.device) -> None:
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), 1.0 / theta**exponents)
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat((cos, cos), -1).to(device)
        self._sin = torch.cat((-sin, sin), -1).to(device)

    def at(self, positions: torch.Tensor) -> Rotation:
        """positions: int64 [tokens], each below the number of positions."""
        return Rotation(self._cos[positions].unsqueeze(1), self._sin[positions].unsqueeze(1))
