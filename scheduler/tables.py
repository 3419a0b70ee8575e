"""The snapshot's tables, built column by column. Columns that cannot have changed are reused, not rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, TypeVar

from scheduler.admission import must_fit
from scheduler.columns import RunningTable, WaitingTable
from scheduler.fragmentation import MemoryGauge
from scheduler.lifecycle import Lifecycle
from scheduler.plan import StepView
from scheduler.proposals import Deferral
from scheduler.sequence import Sequence
from scheduler.snapshot import ResumeRecord, StepSnapshot
from scheduler.step import ScheduleStep, StepTimings

T = TypeVar("T")

NO_STEP: Final = ScheduleStep(step_id=0, policy_version=0, time=0.0)


MEMBER_COLUMNS: Final = (
    "request_id",
    "slot",
    "priority",
    "num_prompt_tokens",
    "max_tokens",
    "arrival_time",
    "first_scheduled_time",
    "first_token_time",
    "num_preemptions",
    "held",
    "num_cached_tokens",
)
"""Columns of the running table that stay while nobody comes, goes, is held or samples a first token."""

WAITING_COLUMNS: Final = (
    "request_id",
    "priority",
    "num_prompt_tokens",
    "num_output_tokens",
    "max_tokens",
    "arrival_time",
    "num_preemptions",
)
"""Columns of the waiting table that the requests have themselves."""


def _columns(rows: list[Sequence], names: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(map(attrgetter(name), rows)) for name in names}


class RunningColumns:
    """Builds ``RunningTable``."""

    def __init__(self) -> None:
        self._members = _columns([], MEMBER_COLUMNS)
        self._block_ids: tuple[tuple[int, ...], ...] = ()

    def build(
        self, life: Lifecycle, tokens: Mapping[str, int], padding: Mapping[str, int], kinds: Mapping[str, str]
    ) -> RunningTable:
        """The table after a step that computed ``tokens`` and ``padding``; empty mappings between steps."""
        running = life.running
        if life.members_changed or life.blocks_changed:
            self._block_ids = tuple([seq.block_table for seq in running])
        if life.members_changed:
            self._members = _columns(running, MEMBER_COLUMNS)
        life.members_changed = life.blocks_changed = False
        ids = self._members["request_id"]
        return RunningTable(
            **self._members,
            num_output_tokens=tuple([seq.num_output_tokens for seq in running]),
            num_computed_tokens=tuple([seq.num_computed_tokens for seq in running]),
            num_scheduled_tokens=_per_row(ids, tokens, 0),
            num_padding_tokens=_per_row(ids, padding, 0) if padding else (0,) * len(ids),
            kind=_per_row(ids, kinds, "idle"),
            block_ids=self._block_ids,
        )


def _per_row(ids: tuple[str, ...], values: Mapping[str, T], default: T) -> tuple[T, ...]:
    if len(values) == len(ids) and tuple(values) == ids:
        return tuple(values.values())
    return tuple([values.get(request_id, default) for request_id in ids])


class WaitingColumns:
    """Builds ``WaitingTable`` for the first ``limit`` requests; only the reasons are new when the queue is the same."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._table = WaitingTable()
        self._rows_of = (-1, -1)
        self._reasons_of: tuple[Deferral | None, int] | None = None

    def build(self, life: Lifecycle, view: StepView, deferral: Deferral | None) -> WaitingTable:
        """The table with, for each row, why it waits: the head's reason, or ``head_of_line`` behind it."""
        free_blocks = view.block_limit - view.num_used_blocks
        rows_of, reasons_of = (life.waiting.version, view.policy.version), (deferral, free_blocks)
        if rows_of == self._rows_of and reasons_of == self._reasons_of:
            return self._table
        if rows_of != self._rows_of:
            self._table = self._rows(life.waiting.first(self._limit), view)
        self._table = with_reasons(self._table, deferral, free_blocks)
        self._rows_of, self._reasons_of = rows_of, reasons_of
        return self._table

    @staticmethod
    def _rows(rows: list[Sequence], view: StepView) -> WaitingTable:
        budget = view.policy.max_num_batched_tokens
        return WaitingTable(
            **_columns(rows, WAITING_COLUMNS),
            status=tuple([seq.state.value for seq in rows]),
            recompute_tokens=tuple([max(0, seq.high_water - seq.num_computed_tokens) for seq in rows]),
            needed_blocks=tuple(
                [must_fit(view, seq, min(seq.num_tokens - seq.num_computed_tokens, budget)) for seq in rows]
            ),
            swapped_blocks=tuple([len(seq.host_block_ids) for seq in rows]),
        )


def with_reasons(table: WaitingTable, deferral: Deferral | None, free_blocks: int) -> WaitingTable:
    """The table with, for each row, why it waits: the head's reason, or that of those behind it."""
    count = len(table)
    if not count:
        return table
    reason = blocked_by = ("",) * count
    fits_paged = (False,) * count
    if deferral is not None:
        if deferral.fits_paged:
            fitting = set(deferral.fits_paged)
            fits_paged = tuple([request_id in fitting for request_id in table.request_id])
        behind, behind_by = deferral.behind
        reason, blocked_by = (behind,) * count, (behind_by,) * count
        if not deferral.whole_queue:
            own = {each.request_id: each for each in (deferral, *deferral.others)}
            looked_at = [own.get(request_id) for request_id in table.request_id]
            reason = tuple([each.reason if each else behind for each in looked_at])
            blocked_by = tuple([each.blocked_by if each else behind_by for each in looked_at])
        free_blocks = deferral.free_blocks if deferral.needed_blocks else free_blocks
    return replace(
        table, reason=reason, free_blocks=(free_blocks,) * count, blocked_by=blocked_by, fits_paged=fits_paged
    )


class SnapshotBuilder:
    """Builds ``StepSnapshot`` and keeps the columns that can be used again."""

    def __init__(self, waiting_limit: int | None) -> None:
        self._running = RunningColumns()
        self._waiting = WaitingColumns(waiting_limit)
        self._memory = MemoryGauge()

    def build(
        self,
        life: Lifecycle,
        view: StepView,
        step_id: int,
        step: ScheduleStep | None,
        new_tokens: Mapping[str, int],
        deferral: Deferral | None,
        now: float,
        timings: StepTimings,
        resumes: tuple[ResumeRecord, ...],
    ) -> StepSnapshot:
        """The state after ``step``, or between steps when it is None. Drains events, records and ended ids."""
        events, records = life.log.drain()
        done = step or NO_STEP
        running = self._running.build(life, done.num_scheduled_tokens, done.num_padding_tokens, done.kinds)
        pool, waiting = life.pool, life.waiting
        memory = self._memory.measure(view, running.num_computed_tokens, life.num_reserving)
        return StepSnapshot(
            step_id=step_id,
            time=now,
            policy=view.policy,
            num_scheduled_tokens=done.num_scheduled_tokens,
            num_padding_tokens=done.num_padding_tokens,
            kinds=done.kinds,
            new_tokens=new_tokens,
            running=running,
            waiting=self._waiting.build(life, view, deferral),
            num_waiting=len(waiting),
            num_waiting_tokens=waiting.num_tokens,
            preempted=done.preempted,
            resumed=done.resumed,
            new=done.new,
            finished=life.ended.drain_for_snapshot(),
            events=events,
            records=records,
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            block_limit=view.block_limit,
            num_used_blocks=pool.num_used_blocks,
            num_free_blocks=pool.num_free_blocks,
            kv_cache_usage=pool.usage,
            allocated_tokens=pool.num_used_blocks * pool.block_size,
            filled_tokens=memory.filled,
            totals=life.books.totals(),
            timings=timings,
            memory=memory,
            num_host_blocks=life.host.pool.num_blocks,
            num_used_host_blocks=life.host.pool.num_used_blocks,
            cached_block_ids=pool.cached_free(),
            shared_block_ids=tuple(sorted(pool.shared)),
            swapped_out=done.swapped_out,
            swapped_in=done.swapped_in,
            resumes=resumes,
        )
