"""A step of the scheduler as index tensors for the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from model_runner.errors import StepError
from model_runner.kv_cache import SCRATCH_PAGE
from scheduler import ScheduleStep


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of one request in the flat batch, which attend to one context.

    first, count: rows of the flat batch. pages: page numbers in order of position. context: keys visible to the last
    token, >= count; token i of the segment sees context - count + i + 1 of them (fault F17).
    """

    first: int
    count: int
    pages: tuple[int, ...]
    context: int


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One flat batch. Tensors are int64 on the device.

    token_ids, positions, slots: [tokens]. segments: what attends to what, in order of rows. sample_rows: [samples]
    rows whose logits are wanted, in the order of ``sampling_ids``.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    segments: tuple[Segment, ...]
    sample_rows: torch.Tensor


@dataclass(slots=True)
class StepRows:
    """``StepInputs`` as plain lists, before they go to the device."""

    token_ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    sample_rows: list[int] = field(default_factory=list)

    def on(self, device: torch.device) -> StepInputs:
        """The same as tensors on the device."""
        lists = (self.token_ids, self.positions, self.slots, self.sample_rows)
        ids, positions, slots, sample_rows = (
            torch.tensor(values, dtype=torch.int64).to(device, non_blocking=True) for values in lists
        )
        return StepInputs(ids, positions, slots, tuple(self.segments), sample_rows)


@dataclass(slots=True)
class InputBuilder:
    """Builds ``StepInputs``; remembers how much left padding each row of a static batch has computed so far."""

    block_size: int
    max_positions: int
    device: torch.device
    _padded: dict[str, int] = field(default_factory=dict)

    def forget(self, request_ids: Sequence[str]) -> None:
        """Drop what is kept of requests that ended or were evicted."""
        for request_id in request_ids:
            self._padded.pop(request_id, None)

    def build(self, step: ScheduleStep) -> StepInputs:
        """The step on the device. Raises StepError when it contradicts itself."""
        return self.rows(step).on(self.device)

    def rows(self, step: ScheduleStep) -> StepRows:
        """The step as lists. Raises StepError when it contradicts itself."""
        rows = StepRows()
        last_row: dict[str, int] = {}
        for request_id, count in step.num_scheduled_tokens.items():
            self._add_padding(rows, step, request_id)
            self._add_tokens(rows, step, request_id, count)
            last_row[request_id] = len(rows.token_ids) - 1
        for request_id in step.num_padding_tokens:
            if request_id not in step.num_scheduled_tokens:
                self._add_padding(rows, step, request_id)
        try:
            rows.sample_rows = [last_row[request_id] for request_id in step.sampling_ids]
        except KeyError as error:
            raise StepError(f"sampling_ids names {error.args[0]!r}, which has no scheduled token") from error
        return rows

    def _add_tokens(self, rows: StepRows, step: ScheduleStep, request_id: str, count: int) -> None:
        tokens = step.token_ids[request_id]
        start = step.positions_start[request_id]
        pages = step.block_tables[request_id]
        size, end = self.block_size, start + count
        if len(tokens) != count:
            raise StepError(f"{request_id}: token_ids has {len(tokens)} tokens, num_scheduled_tokens is {count}")
        if len(pages) * size < end or end > self.max_positions:
            raise StepError(
                f"{request_id}: positions {start}..{end - 1} do not fit {len(pages)} blocks of {size} tokens "
                f"and {self.max_positions} positions"
            )
        rows.segments.append(Segment(len(rows.token_ids), count, pages, end))
        rows.token_ids.extend(tokens)
        rows.positions.extend(range(start, end))
        rows.slots.extend([pages[p // size] * size + p % size for p in range(start, end)])

    def _add_padding(self, rows: StepRows, step: ScheduleStep, request_id: str) -> None:
        """Padding costs what it costs in a padded batch: each token goes through every layer and attends.

        Left padding attends to the padding before it; a row that has ended attends to its own context. Keys and values
        go to the scratch page; nothing of it is sampled.
        """
        count = step.num_padding_tokens.get(request_id, 0)
        if not count:
            return
        size = self.block_size
        if step.kinds.get(request_id) == "padding" and step.block_tables.get(request_id):
            pages = step.block_tables[request_id]
            end = min(step.positions_start.get(request_id, len(pages) * size - count) + count, len(pages) * size)
            start = max(0, end - count)
            context = max(end, count)
        else:
            start = self._padded.get(request_id, 0)
            context = start + count
            self._padded[request_id] = context
            pages = (SCRATCH_PAGE,) * -(-context // size)
        context = min(context, len(pages) * size)
        rows.segments.append(Segment(len(rows.token_ids), count, pages, context))
        rows.token_ids.extend([0] * count)
        rows.positions.extend([min(start + i, self.max_positions - 1) for i in range(count)])
        rows.slots.extend([SCRATCH_PAGE * size + (start + i) % size for i in range(count)])
