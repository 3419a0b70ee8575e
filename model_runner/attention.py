"""Attention of a flat batch over a paged KV cache, in plain torch.

Prefill chunks go one by one through torch's fused attention, over their gathered pages. Decodes go together through
``PagedDecode``, which multiplies the pages where they lie.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import embedding_bag, scaled_dot_product_attention

from model_runner.inputs import Segment
from model_runner.kv_cache import SCRATCH_PAGE
from model_runner.size_steps import ANY_SIZE, PAGE_STEPS, SizeSteps

_LONGEST_GAP = 8
"""Unused pages in a row that are computed along: two more calls a layer cost about as much."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What does not change between steps.

    num_pages: in the pool, the scratch page included. group: query heads that share one KV head. dtype: of queries and
    cache.
    """

    num_pages: int
    block_size: int
    kv_heads: int
    group: int
    device: torch.device
    dtype: torch.dtype

    @property
    def page_steps(self) -> SizeSteps:
        """Sizes of a batch of pages; any in float32, where no product is compiled for its size."""
        return PAGE_STEPS if self.device.type == "cpu" and self.dtype != torch.float32 else ANY_SIZE


class Attention(Protocol):
    """What attends to what in one step, whoever computes it."""

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """As ``AttentionPlan.run``."""


MakePlan = Callable[[Sequence[Segment], AttentionShape], Attention]
"""Called once a step with what attends to what, segments in order of rows."""


class AttentionPlan:
    """What attends to what in one step: made once, used by every layer."""

    def __init__(self, segments: Sequence[Segment], shape: AttentionShape) -> None:
        decodes: list[Segment] = []
        chunks: list[Segment] = []
        for segment in segments:
            (decodes if segment.count == 1 and segment.pages[0] != SCRATCH_PAGE else chunks).append(segment)
        if len(decodes) == 1:  # one row alone is quicker by itself
            chunks, decodes = chunks + decodes, []
        self._decode = PagedDecode(decodes, shape) if decodes else None
        self._chunks = [_Chunk.of(segment, shape) for segment in chunks]
        self._tokens = sum(segment.count for segment in segments)

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """queries: [rows, heads, head_dim]. keys, values: one layer's pages, [pages, block_size, kv_heads, head_dim].

        Returns [rows, heads, head_dim] in the queries' number type; rows of no segment come last and are 0.
        """
        out = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
        out[self._tokens :] = 0
        if self._decode:
            out[self._decode.rows] = self._decode.run(queries, keys, values)
        for chunk in self._chunks:
            out[chunk.rows] = chunk.run(queries[chunk.rows], keys, values)
        return out


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One segment. pages: int64 [n]. mask: added to the scores, [group * count, context]; None for a single row."""

    rows: slice
    pages: torch.Tensor
    context: int
    mask: torch.Tensor | None

    @classmethod
    def of(cls, segment: Segment, shape: AttentionShape) -> _Chunk:
        count, context = segment.count, segment.context
        used = segment.pages[: -(-context // shape.block_size)]
        pages = torch.tensor(used, dtype=torch.int64, device=shape.device)
        mask = None
        if count > 1:
            # is_causal would align the triangle at the top left; with earlier context it belongs at the bottom right.
            mask = torch.full((count, context), -torch.inf, dtype=shape.dtype, device=shape.device)
            mask = mask.triu_(context - count + 1).repeat(shape.group, 1)
        return cls(slice(segment.first, segment.first + count), pages, context, mask)

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Query heads that share a KV head are stacked as rows, so that keys and values need not be repeated."""
        count, heads, head_dim = queries.shape
        kv_heads = keys.shape[2]
        group = heads // kv_heads
        k, v = (
            pool.transpose(1, 2).index_select(0, self.pages).transpose(0, 1).flatten(1, 2)[:, : self.context]
            for pool in (keys, values)
        )
        q = (
            queries.view(count, kv_heads, group, head_dim)
            .permute(1, 2, 0, 3)
            .reshape(kv_heads, group * count, head_dim)
        )
        found = scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), attn_mask=self.mask)
        return found.view(kv_heads, group, count, head_dim).permute(2, 0, 1, 3).reshape(count, heads, head_dim)


class PagedDecode:
    """One new token for each of many requests: every page is a small matrix product, in place.

    The scores of a page need only the query of the request that owns it; a request's pages are put together afterwards
    with their common maximum (the split of a long context of Flash-Decoding, with pages as the parts). Pages in use
    that lie next to each other are one strided batch, so keys and values are read once and never copied. Pages that
    several requests share are gathered first, since a page in place can meet one query only. Batches have the sizes of
    ``page_steps``: pages that nobody asked for are computed along, and their results are never read.
    """

    def __init__(self, segments: Sequence[Segment], shape: AttentionShape) -> None:
        block_size, kv_heads, device = shape.block_size, shape.kv_heads, shape.device
        tables = [segment.pages[: -(-segment.context // block_size)] for segment in segments]
        used = [page for table in tables for page in table]
        in_place = len(set(used)) == len(used)
        self._runs = _runs(used, shape.num_pages, shape.page_steps) if in_place else []
        counts = [run.count for run in self._runs] or shape.page_steps.split(len(used))
        count = sum(counts)
        gathered = used + [SCRATCH_PAGE] * (count - len(used))
        self._gathered = None if in_place else torch.tensor(gathered, device=device)
        parts = _part_numbers(tables, self._runs)
        owner, filled = [0] * count, [block_size] * count
        for request, (segment, table) in enumerate(zip(segments, parts, strict=True)):
            for part in table:
                owner[part] = request
            filled[table[-1]] = segment.context - (len(table) - 1) * block_size
        longest = max(map(len, parts))
        self.rows = torch.tensor([segment.first for segment in segments], device=device)
        self._owner = torch.tensor(owner, device=device)
        self._parts = torch.tensor([table + table[-1:] * (longest - len(table)) for table in parts], device=device)
        self._flat = torch.tensor([part for table in parts for part in table], device=device)
        starts = itertools.accumulate((len(table) for table in parts[:-1]), initial=0)
        self._offsets = torch.tensor(list(starts), device=device)
        empty = torch.arange(block_size, device=device) >= torch.tensor(filled, device=device).unsqueeze(1)
        mask = torch.zeros(empty.shape, dtype=shape.dtype, device=device).masked_fill_(empty, -torch.inf)
        self._mask = mask.repeat_interleave(kv_heads, 0).unsqueeze(1)
        self._sizes = [count * kv_heads for count in counts]
        self._masks = torch.split_with_sizes(self._mask, self._sizes)

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """queries: [tokens, heads, head_dim], of which ``rows`` are used. Returns [requests, heads, head_dim]."""
        q = queries.index_select(0, self.rows)
        requests, heads, head_dim = q.shape
        parts = self._owner.shape[0]
        batch, kv_heads = self._mask.shape[0], keys.shape[2]
        spread = q.view(requests, -1).index_select(0, self._owner).view(batch, heads // kv_heads, head_dim)
        scores = q.new_empty(batch, heads // kv_heads, keys.shape[1])
        spreads, scale = torch.split_with_sizes(spread, self._sizes), head_dim**-0.5
        for mask, part, k, out in zip(
            self._masks, spreads, self._matrices(keys), torch.split_with_sizes(scores, self._sizes), strict=True
        ):
            torch.baddbmm(mask, part, k.transpose(1, 2), alpha=scale, out=out)
        scores = scores.float()
        top = scores.amax(-1).view(parts, heads)[self._parts].amax(1)
        scores.sub_(top.index_select(0, self._owner).view(batch, -1, 1)).exp_()
        mass = self._sum(scores.sum(-1).view(parts, heads))
        scores = scores.to(q.dtype)
        for weights, v, out in zip(
            torch.split_with_sizes(scores, self._sizes), self._matrices(values), spreads, strict=True
        ):
            torch.bmm(weights, v, out=out)
        summed = self._sum(spread.float().view(parts, -1))
        return (summed.view(requests, heads, head_dim) / mass.unsqueeze(-1)).to(q.dtype)

    def _matrices(self, pool: torch.Tensor) -> list[torch.Tensor]:
        """For each batch, the matrices [block_size, head_dim] of its pages and KV heads."""
        heads_first, kv_heads = pool.transpose(1, 2), pool.shape[2]
        if self._gathered is not None:
            gathered = heads_first.index_select(0, self._gathered).flatten(0, 1)
            return list(torch.split_with_sizes(gathered, self._sizes))
        matrices = heads_first.flatten(0, 1)
        return [matrices[run.first_page * kv_heads : (run.first_page + run.count) * kv_heads] for run in self._runs]

    def _sum(self, parts: torch.Tensor) -> torch.Tensor:
        """Sum [parts, n] over the parts of each request, in order; parts of no request are never read."""
        return embedding_bag(self._flat, parts, self._offsets, mode="sum")


@dataclass(frozen=True, slots=True)
class _Run:
    """Pages first_page .. first_page + count - 1, which are parts first_part .. first_part + count - 1."""

    first_page: int
    first_part: int
    count: int


def _runs(used: Sequence[int], num_pages: int, steps: SizeSteps) -> list[_Run]:
    """Cover the used pages by runs of the sizes of ``steps``; where runs overlap, a page is computed twice."""
    runs: list[_Run] = []
    parts = 0
    for first, count in _stretches(used):
        for size in steps.split(count):
            fitting = min(size, num_pages)
            runs.append(_Run(min(first, num_pages - fitting), parts, fitting))
            parts += fitting
            first += size
    return runs


def _stretches(used: Sequence[int]) -> list[tuple[int, int]]:
    """Cover the used pages by (first page, count); a gap too short to be worth a call of its own is covered too."""
    ordered = sorted(used)
    stretches = []
    first = previous = ordered[0]
    for page in ordered[1:]:
        if page - previous - 1 > _LONGEST_GAP:
            stretches.append((first, previous + 1 - first))
            first = page
        previous = page
    return [*stretches, (first, previous + 1 - first)]


def _part_numbers(tables: Sequence[Sequence[int]], runs: Sequence[_Run]) -> list[list[int]]:
    """Part number of every page of every table; without runs, parts are numbered in order of the tables."""
    if not runs:
        numbers = itertools.count()
        return [[next(numbers) for _ in table] for table in tables]
    part_of = {run.first_page + i: run.first_part + i for run in runs for i in range(run.count)}
    return [[part_of[page] for page in table] for table in tables]


@torch.inference_mode()
def warm_up_decode(shape: AttentionShape, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Multiply every size of page batch once, so that no later step has to compile one. Only reads the cache."""
    queries = torch.zeros(1, shape.kv_heads * shape.group, keys.shape[-1], device=shape.device, dtype=shape.dtype)
    for size in shape.page_steps.sizes:
        pages = tuple(range(min(size, shape.num_pages)))
        PagedDecode([Segment(0, 1, pages, len(pages) * shape.block_size)], shape).run(queries, keys, values)
