"""The running and the waiting requests of a snapshot, as columns.

A step with a thousand decodes then costs a few tuples, not a thousand objects, and a table travels to a browser as it
is. ``table[i]`` and iteration build single rows for those who prefer them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

Row = TypeVar("Row")


class Columns(Generic[Row]):
    """A table whose fields are columns of one length, named and ordered as the fields of its rows."""

    __slots__ = ()
    request_id: tuple[str, ...]
    _row: ClassVar[Any]

    def __len__(self) -> int:
        return len(self.request_id)

    def __getitem__(self, index: int) -> Row:
        row: Row = self._row(*[getattr(self, column.name)[index] for column in fields(self._row)])
        return row

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True)
class RunningRow:
    """One running request. Token counts are after the step; times are seconds on the scheduler's clock.

    slot: lane the request keeps while it runs: the lowest free one at admission, 0 .. max_num_seqs - 1.
    kind: what it did in this step: "prefill", "decode", "recompute", "padding" (static: padding computed only)
        or "idle" (running, but nothing was planned for it).
    held: True for a request of a static batch that has all its tokens and waits for the batch to end.
    num_cached_tokens: tokens found in the prefix cache when it was last admitted, hence not computed.
    first_scheduled_time, first_token_time: None until it happened; never moved by a preemption.
    """

    request_id: str
    slot: int
    priority: int
    num_prompt_tokens: int
    max_tokens: int
    arrival_time: float
    first_scheduled_time: float | None
    first_token_time: float | None
    num_preemptions: int
    num_output_tokens: int
    num_computed_tokens: int
    num_scheduled_tokens: int
    num_padding_tokens: int
    kind: str
    held: bool
    block_ids: tuple[int, ...]
    num_cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RunningTable(Columns[RunningRow]):
    """The running requests as columns, in the order in which the scheduler walks them."""

    request_id: tuple[str, ...] = ()
    slot: tuple[int, ...] = ()
    priority: tuple[int, ...] = ()
    num_prompt_tokens: tuple[int, ...] = ()
    max_tokens: tuple[int, ...] = ()
    arrival_time: tuple[float, ...] = ()
    first_scheduled_time: tuple[float | None, ...] = ()
    first_token_time: tuple[float | None, ...] = ()
    num_preemptions: tuple[int, ...] = ()
    num_output_tokens: tuple[int, ...] = ()
    num_computed_tokens: tuple[int, ...] = ()
    num_scheduled_tokens: tuple[int, ...] = ()
    num_padding_tokens: tuple[int, ...] = ()
    kind: tuple[str, ...] = ()
    held: tuple[bool, ...] = ()
    block_ids: tuple[tuple[int, ...], ...] = ()
    num_cached_tokens: tuple[int, ...] = ()

    _row = RunningRow


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One request that waits, in the order in which the scheduler will look at it.

    status: "waiting" (never ran) or "preempted" (ran, was evicted, has num_output_tokens already).
    reason: why it did not run in this step, one of ``events.DEFER_REASONS``.
    needed_blocks: KV blocks its admission asks for under the rule in force; free_blocks: what was usable then.
    blocked_by: request_id in front of it or holding what it needs; "" when nobody does.
    recompute_tokens: tokens to be computed again when it resumes.
    swapped_blocks: blocks of it that lie in the host pool and will be copied back when it resumes; 0 = none.
    fits_paged: it waits for memory, and would be let in now were blocks given out page by page (allocation "paged").
    """

    request_id: str
    status: str
    priority: int
    num_prompt_tokens: int
    num_output_tokens: int
    max_tokens: int
    arrival_time: float
    num_preemptions: int
    recompute_tokens: int
    reason: str
    needed_blocks: int
    free_blocks: int
    blocked_by: str
    swapped_blocks: int = 0
    fits_paged: bool = False


@dataclass(frozen=True, slots=True)
class WaitingTable(Columns[WaitingRow]):
    """The waiting requests as columns, head of the queue first."""

    request_id: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    priority: tuple[int, ...] = ()
    num_prompt_tokens: tuple[int, ...] = ()
    num_output_tokens: tuple[int, ...] = ()
    max_tokens: tuple[int, ...] = ()
    arrival_time: tuple[float, ...] = ()
    num_preemptions: tuple[int, ...] = ()
    recompute_tokens: tuple[int, ...] = ()
    reason: tuple[str, ...] = ()
    needed_blocks: tuple[int, ...] = ()
    free_blocks: tuple[int, ...] = ()
    blocked_by: tuple[str, ...] = ()
    swapped_blocks: tuple[int, ...] = ()
    fits_paged: tuple[bool, ...] = ()

    _row = WaitingRow
