"""Attention of a flat batch over a paged KV cache, in plain torch.

Prefill chunks go one by one through torch's fused attention, over their gathered pages. Decodes go together through
``PagedDecode``, which multiplies the pages where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
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
    def chunk_dtype(self) -> torch.dtype:
        """In which chunks attend: on a CPU torch's fused attention is faster in float32 than in bfloat16."""
        return torch.float32 if self.device.type == "cpu" else self.dtype

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
        rows = [segment.first for segment in decodes]
        in_a_row = bool(rows) and rows[-1] - rows[0] == len(rows) - 1
        self._decoded = slice(rows[0], rows[-1] + 1) if in_a_row else torch.tensor(rows, device=shape.device)
        self._chunks = [_Chunk.of(segment, shape) for segment in chunks]
        self._tokens = sum(segment.count for segment in segments)

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """queries: [rows, heads, head_dim]. keys, values: one layer's pages, [pages, block_size, kv_heads, head_dim].

        Returns [rows, heads, head_dim] in the queries' number type; rows of no segment come last and are 0.
        """
        out = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
        out[self._tokens :] = 0
        if self._decode:
            out[self._decoded] = self._decode.run(queries, keys, values)
        for chunk in self._chunks:
            out[chunk.rows] = chunk.run(queries[chunk.rows], keys, values)
        return out


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One segment, in ``chunk_dtype``.

    matrices: int64 [kv_heads * n], the pages of one KV head after those of the other, in the cache seen as matrices of
    a page and a head. mask: added to the scores, [group * count, context]; None for a single row.
    """

    rows: slice
    matrices: torch.Tensor
    context: int
    mask: torch.Tensor | None
    dtype: torch.dtype

    @classmethod
    def of(cls, segment: Segment, shape: AttentionShape) -> _Chunk:
        count, context = segment.count, segment.context
        used = segment.pages[: -(-context // shape.block_size)]
        pages = torch.tensor(used, dtype=torch.int64, device=shape.device)
        matrices = pages * shape.kv_heads + torch.arange(shape.kv_heads, device=shape.device).unsqueeze(1)
        mask = None
        if count > 1:
            # is_causal would align the triangle at the top left; with earlier context it belongs at the bottom right.
            mask = torch.full((count, context), -torch.inf, dtype=shape.chunk_dtype, device=shape.device)
            mask = mask.triu_(context - count + 1).repeat(shape.group, 1)
        return cls(slice(segment.first, segment.first + count), matrices.flatten(), context, mask, shape.chunk_dtype)

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Query heads that share a KV head are stacked as rows, so that keys and values need not be repeated."""
        count, heads, head_dim = queries.shape
        kv_heads = keys.shape[2]
        group = heads // kv_heads
        k, v = (
            pool.transpose(1, 2).flatten(0, 1).index_select(0, self.matrices).view(kv_heads, -1, head_dim)
            for pool in (keys, values)
        )
        k, v = k[:, : self.context], v[:, : self.context]
        q = (
            queries.view(count, kv_heads, group, head_dim)
            .permute(1, 2, 0, 3)
            .reshape(kv_heads, group * count, head_dim)
        )
        q, k, v = (t.to(self.dtype) for t in (q, k, v))
        found = scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), attn_mask=self.mask)
        found = found.view(kv_heads, group, count, head_dim).permute(2, 0, 1, 3)
        return found.reshape(count, heads, head_dim).to(queries.dtype)


class PagedDecode:
    """One new token for each of many requests, over pages in place: keys and values are read once and never copied.

    Scores: every page and KV head is one small matrix of a batched product; pages in use that lie next to each other
    are one batch, and batches have the sizes of ``page_steps``, so pages that nobody asked for are computed along.
    The scores that are wanted are then put in order of request, head and position. Values: a token's output is a
    weighted sum of rows of the cache, which is what an embedding bag computes. Only keys that several requests share
    are copied first, since a page in place can meet one query only.
    """

    def __init__(self, segments: Sequence[Segment], shape: AttentionShape) -> None:
        block_size, kv_heads, device = shape.block_size, shape.kv_heads, shape.device
        heads = kv_heads * shape.group
        tables = [segment.pages[: -(-segment.context // block_size)] for segment in segments]
        used = [page for table in tables for page in table]
        in_place = len(set(used)) == len(used)
        self._runs = _runs(used, shape.num_pages, shape.page_steps) if in_place else []
        counts = [run.count for run in self._runs] or shape.page_steps.split(len(used))
        gathered = used + [SCRATCH_PAGE] * (sum(counts) - len(used))
        self._gathered = None if in_place else torch.tensor(gathered, device=device)
        self._sizes = [count * kv_heads for count in counts]
        lengths = np.array([len(table) for table in tables])
        parts = _part_numbers(used, self._runs)
        token, filled = np.zeros(sum(counts), np.int64), np.full(sum(counts), block_size)
        token[parts] = np.repeat([segment.first for segment in segments], lengths)
        filled[parts[lengths.cumsum() - 1]] = [(segment.context - 1) % block_size + 1 for segment in segments]
        self._token = torch.from_numpy(token).to(device)
        empty = torch.arange(block_size, device=device) >= torch.from_numpy(filled).to(device).unsqueeze(1)
        mask = torch.zeros(empty.shape, dtype=shape.dtype, device=device).masked_fill_(empty, -torch.inf)
        self._masks = mask.repeat_interleave(kv_heads, 0).unsqueeze(1).split_with_sizes(self._sizes)

        # A bag is one head of one request; its rows are the request's pages, in each of them block_size slots.
        bag, entry = _bags(lengths, heads)
        head = bag % heads
        starts = np.concatenate(([0], np.repeat(lengths, heads).cumsum()))
        first_slot = (np.array(used)[entry] * kv_heads + head // shape.group) * block_size
        self._bag = torch.from_numpy(bag).to(device)
        self._starts = torch.from_numpy(starts).to(device)
        self._row = torch.from_numpy(parts[entry] * heads + head).to(device)
        slots = torch.from_numpy(first_slot).to(device).unsqueeze(1) + torch.arange(block_size, device=device)
        self._slots = slots.flatten()
        self._offsets = self._starts[:-1] * block_size

    def run(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """queries: [tokens, heads, head_dim] of the whole batch. Returns [requests, heads, head_dim]."""
        _, heads, head_dim = queries.shape
        kv_heads, block_size = keys.shape[2], keys.shape[1]
        spread = queries.flatten(1).index_select(0, self._token).view(-1, heads // kv_heads, head_dim)
        scores = queries.new_empty(spread.shape[0], heads // kv_heads, block_size)
        sizes, scale = self._sizes, head_dim**-0.5
        for mask, q, k, out in zip(
            self._masks, spread.split_with_sizes(sizes), self._keys(keys), scores.split_with_sizes(sizes), strict=True
        ):
            torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale, out=out)
        wanted = scores.view(-1, block_size).index_select(0, self._row).float()
        top = self._reduce(wanted.amax(-1), "max").index_select(0, self._bag)
        weights = wanted.sub_(top.unsqueeze(1)).exp_()
        mass = self._reduce(weights.sum(-1), "sum")
        rows = values.transpose(1, 2).reshape(-1, head_dim)
        weights = weights.to(queries.dtype).flatten()
        summed = embedding_bag(self._slots, rows, self._offsets, mode="sum", per_sample_weights=weights)
        return summed.div_(mass.unsqueeze(1)).view(-1, heads, head_dim)

    def _keys(self, pool: torch.Tensor) -> list[torch.Tensor]:
        """For each batch, the matrices [block_size, head_dim] of its pages and KV heads."""
        heads_first, kv_heads = pool.transpose(1, 2), pool.shape[2]
        if self._gathered is not None:
            return list(heads_first.index_select(0, self._gathered).flatten(0, 1).split_with_sizes(self._sizes))
        matrices = heads_first.flatten(0, 1)
        return [matrices[run.first_page * kv_heads : (run.first_page + run.count) * kv_heads] for run in self._runs]

    def _reduce(self, values: torch.Tensor, kind: str) -> torch.Tensor:
        """[rows] to one value for each bag, [requests * heads]."""
        return torch.segment_reduce(values, kind, offsets=self._starts, unsafe=True)


def _bags(lengths: np.ndarray, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """For requests that use ``lengths`` pages: rows in order of request, head and page.

    Returns the bag (request * heads + head) of each row, and the number of its page among all pages used.
    """
    request = np.repeat(np.arange(len(lengths)), lengths * heads)
    row = np.arange(len(request)) - np.repeat((lengths.cumsum() - lengths) * heads, lengths * heads)
    own = lengths[request]
    return request * heads + row // own, (lengths.cumsum() - lengths)[request] + row % own


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


def _part_numbers(used: Sequence[int], runs: Sequence[_Run]) -> np.ndarray:
    """Part number of every used page; without runs, parts are numbered in that order."""
    if not runs:
        return np.arange(len(used))
    part_of = {run.first_page + i: run.first_part + i for run in runs for i in range(run.count)}
    return np.array([part_of[page] for page in used])


@torch.inference_mode()
def warm_up_decode(shape: AttentionShape, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Multiply every size of page batch once, so that no later step has to compile one. Only reads the cache."""
    queries = torch.zeros(1, shape.kv_heads * shape.group, keys.shape[-1], device=shape.device, dtype=shape.dtype)
    for size in shape.page_steps.sizes:
        pages = tuple(range(min(size, shape.num_pages)))
        PagedDecode([Segment(0, 1, pages, len(pages) * shape.block_size)], shape).run(queries, keys, values)
