"""Decode steps of fixed shape: input tensors that keep their place, so that a step can be recorded once and replayed.

A step in which every request computes one token is padded to the next of a few batch sizes. Its inputs are copied into
the same tensors each time, its logits come out of the same tensor. On CUDA the whole forward pass of each size is
recorded as a CUDA graph at start: launching it costs the CPU one call instead of some hundreds. With nothing to
record, the same code calls the forward pass directly, and is tested so.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from model_runner.attention import Attention
from model_runner.inputs import Segment, StepRows
from model_runner.kv_cache import SCRATCH_PAGE, KVCache
from model_runner.model import LlamaModel
from model_runner.varlen import PagedVarlen, VarlenKernel

BATCH_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Padding costs at most half of a small batch, where a row more is nearly free, and a third of a large one."""

Work = Callable[[], None]
Record = Callable[[Work], Work]


def batch_sizes(num_blocks: int) -> tuple[int, ...]:
    """The sizes that can be reached when each request holds at least one of ``num_blocks`` blocks."""
    return BATCH_SIZES[: bisect.bisect_left(BATCH_SIZES, num_blocks) + 1]


class DecodeInputs:
    """The tensors that a decode reads, at addresses that never change, with room for the largest batch.

    Each has a twin on the host (page-locked on CUDA), which is filled and copied in one piece; block tables, which
    seldom change, only where they did. The host may write to it again once the step's tokens have come back.
    Rows beyond the requests are padding: they read and write slot 0 of the scratch page and see one key, their own.
    """

    def __init__(self, rows: int, pages: int, block_size: int, device: torch.device) -> None:
        self._block_size = block_size
        pinned = device.type == "cuda"
        self._host_numbers = torch.zeros(3, rows, dtype=torch.int64, pin_memory=pinned)
        self._host_seqused_k = torch.ones(rows, dtype=torch.int32, pin_memory=pinned)
        self._host_block_table = torch.full((rows, pages), SCRATCH_PAGE, dtype=torch.int32, pin_memory=pinned)
        self._numbers = self._host_numbers.to(device, copy=True)
        self.token_ids, self.positions, self.slots = self._numbers.unbind()
        self.seqused_k = self._host_seqused_k.to(device, copy=True)
        self.block_table = self._host_block_table.to(device, copy=True)
        self.cu_seq_q = torch.arange(rows + 1, dtype=torch.int32, device=device)
        self._known: list[tuple[int, ...]] = [(SCRATCH_PAGE,)] * rows

    def fits(self, rows: StepRows) -> bool:
        """True for one token each of no more requests, with no longer contexts, than there is room for."""
        num_rows, pages = self.block_table.shape
        longest = pages * self._block_size
        return len(rows.segments) <= num_rows and all(s.count == 1 and s.context <= longest for s in rows.segments)

    def fill(self, rows: StepRows, batch: int) -> None:
        """Take over a step that fits, with padding up to ``batch`` rows."""
        missing = batch - len(rows.segments)
        numbers = self._host_numbers.numpy()
        for index, values in enumerate((rows.token_ids, rows.positions, rows.slots)):
            numbers[index, :batch] = values + [0] * missing
        self._host_seqused_k.numpy()[:batch] = [segment.context for segment in rows.segments] + [1] * missing
        self._numbers.copy_(self._host_numbers, non_blocking=True)
        self.seqused_k.copy_(self._host_seqused_k, non_blocking=True)
        self._fill_tables([*map(self._used_pages, rows.segments), *[(SCRATCH_PAGE,)] * missing])

    def fresh_pages(self, rows: StepRows) -> list[int]:
        """Pages whose first slot this step writes."""
        size = self._block_size
        return [slot // size for slot in rows.slots if slot % size == 0 and slot >= size]

    def _fill_tables(self, tables: Sequence[tuple[int, ...]]) -> None:
        changed = [row for row, table in enumerate(tables) if table != self._known[row]]
        if not changed:
            return
        host = self._host_block_table.numpy()
        for row in changed:
            self._known[row] = tables[row]
            host[row, : len(tables[row])] = np.array(tables[row], dtype=np.int32)
        rows = slice(changed[0], changed[-1] + 1)
        self.block_table[rows].copy_(self._host_block_table[rows], non_blocking=True)

    def _used_pages(self, segment: Segment) -> tuple[int, ...]:
        return segment.pages[: -(-segment.context // self._block_size)]


class DecodeBatches:
    """The forward pass of a decode, ready for each batch size once it is recorded."""

    def __init__(
        self, model: LlamaModel, cache: KVCache, kernel: VarlenKernel, sizes: Sequence[int], max_model_len: int
    ) -> None:
        self.sizes = tuple(sizes)
        self._model, self._cache, self._kernel = model, cache, kernel
        self._device = cache.keys(0).device
        pages = -(-max_model_len // cache.block_size)
        self.inputs = DecodeInputs(self.sizes[-1], pages, cache.block_size, self._device)
        self._logits = torch.zeros(self.sizes[-1], model.config.vocab_size, device=self._device)
        self._work: dict[int, Work] = {}

    @torch.inference_mode()
    def record(self, record: Record) -> None:
        """Make every size ready, the largest first, so that the smaller ones find its memory. Writes to scratch only.

        record: turns work on tensors that keep their place into the same work done faster, e.g. ``CudaGraphs``.
        """
        for size in reversed(self.sizes):
            self.inputs.fill(StepRows(), size)
            self._work[size] = record(self._forward_of(size))

    def takes(self, rows: StepRows) -> bool:
        """True for a step that ``run`` can compute."""
        return bool(self._work) and self.inputs.fits(rows)

    def run(self, rows: StepRows) -> torch.Tensor:
        """Float32 logits [samples, vocab_size] of the rows that sample; good until the next call.

        Fresh pages are cleared here and not in the recorded work, whose shapes know nothing of them.
        """
        count = len(rows.segments)
        batch = self.sizes[bisect.bisect_left(self.sizes, count)]
        self.inputs.fill(rows, batch)
        fresh = self.inputs.fresh_pages(rows)
        if fresh:
            self._cache.clear(torch.tensor(fresh).to(self._device, non_blocking=True))
        self._work[batch]()
        if rows.sample_rows == list(range(count)):
            return self._logits[:count]
        return self._logits[torch.tensor(rows.sample_rows, dtype=torch.int64).to(self._device)]

    def _forward_of(self, size: int) -> Work:
        at, every_row = self.inputs, torch.arange(size, device=self._device)
        attention: Attention = PagedVarlen(
            self._kernel,
            cu_seq_q=at.cu_seq_q[: size + 1],
            seqused_k=at.seqused_k[:size],
            block_table=at.block_table[:size],
            tokens=size,
            max_q=1,
            max_k=at.block_table.shape[1] * self._cache.block_size,
        )
        where = self._cache.plan_fixed_write(at.slots[:size])

        def forward() -> None:
            logits = self._model.compute(
                at.token_ids[:size], at.positions[:size], where, attention, every_row, self._cache
            )
            self._logits[:size].copy_(logits)

        return forward


class CudaGraphs:
    """Records work as CUDA graphs that share one pool of memory."""

    def __init__(self) -> None:
        self._pool: Any = None  # a token that only torch can read

    def __call__(self, work: Work) -> Work:
        """The work is done twice: once for what libraries set up at their first call, once to be recorded.

        Raises RuntimeError when something in it cannot be recorded.
        """
        stream = torch.cuda.current_stream()
        work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                work()
        except RuntimeError:
            torch.cuda.set_stream(stream)  # a failed recording leaves its own stream behind
            raise
        self._pool = graph.pool()
        replay: Work = graph.replay
        return replay
