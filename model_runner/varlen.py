"""Attention of a flat batch over a paged KV cache by FlashAttention: torch's ``varlen_attn``.

Not documented as such, but what both plans rest on and ``attention_choice`` tries before they are used: a causal window
is aligned at the bottom right (token i of a segment sees context - count + i + 1 keys), and ``seqused_k`` bounds the
keys of each request, whatever its last page holds behind them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad

from model_runner.attention import AttentionShape
from model_runner.inputs import Segment
from model_runner.kv_cache import SCRATCH_PAGE

CAUSAL = (-1, 0)
UNBOUNDED = (-1, -1)


class VarlenKernel:
    """``varlen_attn`` with the arguments that this version of torch has, always one split of the keys.

    One split: automatic splitting over pages has given wrong rows (pytorch/pytorch#194167), and with one the result of
    a row does not depend on the batch around it. The variant with a given output is not used: FlashAttention 2
    reorders grouped queries of a decode into a copy, and its result goes there.

    key_offsets: give ``cu_seq_k`` over pages too. FlashAttention 3 and 4 refuse it there, an earlier 2 wants it
    (and does not read it).
    """

    def __init__(self, function: Callable[..., Any], *, key_offsets: bool = False) -> None:
        names = inspect.signature(function).parameters
        self._function = function
        self._key_offsets = key_offsets
        self._fixed: dict[str, Any] = {}
        if "enable_gqa" in names:
            self._fixed["enable_gqa"] = True
        if "num_splits" in names:
            self._fixed["num_splits"] = 1
        self._has_window = "window_size" in names
        self.takes_pages = {"block_table", "seqused_k", "num_splits"} <= names.keys()

    def over_pages(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, at: PagedVarlen
    ) -> torch.Tensor:
        """queries: [tokens, heads, head_dim]. keys, values: [pages, block_size, kv_heads, head_dim].

        A single query has no future, so a decode needs no causal window; without one, FlashAttention 2 reads keys once
        for all query heads that share them.
        """
        offsets = pad(at.seqused_k.cumsum(0, dtype=torch.int32), (1, 0)) if self._key_offsets else None
        found: torch.Tensor = self._function(
            queries,
            keys,
            values,
            at.cu_seq_q,
            offsets,
            at.max_q,
            at.max_k,
            window_size=UNBOUNDED if at.max_q == 1 else CAUSAL,
            seqused_k=at.seqused_k,
            block_table=at.block_table,
            **self._fixed,
        )
        return found

    def over_tokens(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, at: GatheredVarlen
    ) -> torch.Tensor:
        """queries: [tokens, heads, head_dim]. keys, values: [context tokens, kv_heads, head_dim]. Always causal.

        A causal window keeps FlashAttention 2 from splitting keys where ``num_splits`` cannot say so.
        """
        causal = {"window_size": CAUSAL} if self._has_window else {"is_causal": True}
        found: torch.Tensor = self._function(
            queries, keys, values, at.cu_seq_q, at.cu_seq_k, at.max_q, at.max_k, **causal, **self._fixed
        )
        return found


@dataclass(frozen=True, slots=True)
class PagedVarlen:
    """One step over pages where they lie, in a cache of order [pages, block_size, kv_heads, head_dim].

    cu_seq_q: int32 [requests + 1], rows before each request. seqused_k: int32 [requests], keys each may see.
    block_table: int32 [requests, pages], unused entries name the scratch page. tokens: rows of all requests.
    max_q, max_k: the most rows and keys of one request.
    """

    kernel: VarlenKernel
    cu_seq_q: torch.Tensor
    seqused_k: torch.Tensor
    block_table: torch.Tensor
    tokens: int
    max_q: int
    max_k: int

    @classmethod
    def of(cls, kernel: VarlenKernel, segments: Sequence[Segment], shape: AttentionShape) -> PagedVarlen:
        """segments: in order of rows, without gaps."""
        used = [_used_pages(segment, shape) for segment in segments]
        widest = max(map(len, used))
        counts, contexts = [s.count for s in segments], [s.context for s in segments]
        return cls(
            kernel,
            cu_seq_q=_offsets(counts, shape.device),
            seqused_k=_int32(contexts, shape.device),
            block_table=_int32([[*pages, *[SCRATCH_PAGE] * (widest - len(pages))] for pages in used], shape.device),
            tokens=sum(counts),
            max_q=max(counts),
            max_k=max(contexts),
        )

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """As ``AttentionPlan.run``."""
        found = self.kernel.over_pages(queries[: self.tokens], keys, values, self)
        return _with_empty_rows(found, queries.shape[0])


@dataclass(frozen=True, slots=True)
class GatheredVarlen:
    """One step over copies of the keys and values it needs: for a torch, or a page size, that cannot do without.

    slots: int64 [context tokens]. cu_seq_q, cu_seq_k: int32 [requests + 1]. The rest as in ``PagedVarlen``.
    """

    kernel: VarlenKernel
    slots: torch.Tensor
    cu_seq_q: torch.Tensor
    cu_seq_k: torch.Tensor
    tokens: int
    max_q: int
    max_k: int

    @classmethod
    def of(cls, kernel: VarlenKernel, segments: Sequence[Segment], shape: AttentionShape) -> GatheredVarlen:
        """segments: in order of rows, without gaps."""
        within = torch.arange(shape.block_size)
        slots = [
            (torch.tensor(_used_pages(segment, shape)).unsqueeze(1) * shape.block_size + within).flatten()
            for segment in segments
        ]
        counts, contexts = [s.count for s in segments], [s.context for s in segments]
        return cls(
            kernel,
            slots=torch.cat([one[:context] for one, context in zip(slots, contexts, strict=True)]).to(shape.device),
            cu_seq_q=_offsets(counts, shape.device),
            cu_seq_k=_offsets(contexts, shape.device),
            tokens=sum(counts),
            max_q=max(counts),
            max_k=max(contexts),
        )

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """As ``AttentionPlan.run``."""
        k, v = (pool.flatten(0, 1).index_select(0, self.slots) for pool in (keys, values))
        return _with_empty_rows(self.kernel.over_tokens(queries[: self.tokens], k, v, self), queries.shape[0])


def _used_pages(segment: Segment, shape: AttentionShape) -> tuple[int, ...]:
    return segment.pages[: -(-segment.context // shape.block_size)]


def _offsets(counts: Sequence[int], device: torch.device) -> torch.Tensor:
    return pad(torch.tensor(counts, dtype=torch.int32).cumsum(0, dtype=torch.int32), (1, 0)).to(device)


def _int32(values: Sequence[Any], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32).to(device)


def _with_empty_rows(found: torch.Tensor, rows: int) -> torch.Tensor:
    missing = rows - found.shape[0]
    return pad(found, (0, 0, 0, 0, 0, missing)) if missing else found
