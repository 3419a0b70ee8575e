"""Attention of a flat batch over a paged KV cache, in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from model_runner.inputs import Segment


@dataclass(frozen=True, slots=True)
class _Chunk:
    rows: slice
    pages: torch.Tensor
    context: int
    mask: torch.Tensor | None


class AttentionPlan:
    """What attends to what in one step: made once, used by every layer."""

    def __init__(self, segments: tuple[Segment, ...], block_size: int, device: torch.device) -> None:
        self._chunks = [_chunk(segment, block_size, device) for segment in segments]

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """queries: [tokens, heads, head_dim]. keys, values: one layer's pages. Returns [tokens, heads, head_dim]."""
        out = torch.empty_like(queries)
        for chunk in self._chunks:
            k = keys[chunk.pages].flatten(0, 1)[: chunk.context].transpose(0, 1)
            v = values[chunk.pages].flatten(0, 1)[: chunk.context].transpose(0, 1)
            q = queries[chunk.rows].transpose(0, 1)
            found = scaled_dot_product_attention(
                q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), attn_mask=chunk.mask, enable_gqa=True
            )
            out[chunk.rows] = found[0].transpose(0, 1)
        return out


def _chunk(segment: Segment, block_size: int, device: torch.device) -> _Chunk:
    count, context = segment.count, segment.context
    used = segment.pages[: -(-context // block_size)]
    pages = torch.tensor(used, dtype=torch.int64, device=device)
    # is_causal would align the triangle at the top left; with earlier context it belongs at the bottom right.
    mask = None
    if count > 1:
        mask = torch.ones(count, context, dtype=torch.bool, device=device).tril_(context - count)
    return _Chunk(slice(segment.first, segment.first + count), pages, context, mask)
