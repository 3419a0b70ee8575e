"""The rows of an embedding, read from where a tied head keeps them instead of from a second copy."""

from __future__ import annotations

import ctypes

import torch
from torch.nn.functional import embedding

from model_runner.linear import Linear, PackedLinear, PlainLinear

_ROWS = 64
_COLUMNS = 16
_CHECKED_ROWS = 256


class EmbeddingTable:
    """Rows of ``weight`` [tokens, hidden] by token id.

    num_bytes: what the table takes beside the head, 0 when the two share their memory.
    """

    def __init__(self, weight: torch.Tensor, tied_head: Linear | None) -> None:
        """tied_head: the product that was made from the same weight, None = the model's head is another matrix."""
        self._head = tied_head  # owns the memory that the blocks show
        self._blocks = packed_blocks(tied_head, weight) if isinstance(tied_head, PackedLinear) else None
        self._weight = None if self._blocks is not None else weight
        shared = self._blocks is not None or isinstance(tied_head, PlainLinear)
        self.num_bytes = 0 if shared else weight.numel() * weight.element_size()

    def rows(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids: int64 [n]; returns [n, hidden] in the weight's number type."""
        if self._blocks is None:
            assert self._weight is not None
            return embedding(token_ids, self._weight)
        return self._blocks[token_ids // _ROWS, :, :, token_ids % _ROWS].flatten(1)


def packed_blocks(packed: PackedLinear, weight: torch.Tensor) -> torch.Tensor | None:
    """A view [rows / 64, columns / 16p, 16, 64, p] of the packed weight; p elements of a row lie side by side.

    That is oneDNN's layout ``AB16b64a`` (float32, p = 1) or ``AB16b64a2b`` (bfloat16, p = 2), which it uses on CPUs
    with AVX-512. The layout is no promise, so rows are compared with the weight; None = it is another one here. As with
    the product itself, the operators are those that torch's own compiler emits.
    """
    side_by_side = 4 // weight.element_size()
    rows, columns = weight.shape
    size = weight.numel() * weight.element_size()
    if rows % _ROWS or columns % (_COLUMNS * side_by_side) or packed.num_packed_bytes != size:
        return None
    memory = (ctypes.c_ubyte * size).from_address(packed.address)
    blocks = torch.frombuffer(memory, dtype=weight.dtype).view(rows // _ROWS, -1, _COLUMNS, _ROWS, side_by_side)
    checked = torch.arange(0, rows, max(1, rows // _CHECKED_ROWS) | 1)  # an odd stride meets every place in a block
    found = blocks[checked // _ROWS, :, :, checked % _ROWS].flatten(1)
    return blocks if torch.equal(found, weight[checked]) else None
