"""A scheduler that nobody looks at: the same decisions by the same code, without the snapshots of each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from scheduler.assembly import deliver
from scheduler.columns import RunningTable, WaitingTable
from scheduler.policy import SchedulerPolicy
from scheduler.scheduler import Scheduler
from scheduler.snapshot import RequestRecord, StepSnapshot, Totals
from scheduler.step import ScheduleStep, StepResult

EMPTY: Final = StepSnapshot(
    step_id=0,
    time=0.0,
    policy=SchedulerPolicy(),
    num_scheduled_tokens={},
    num_padding_tokens={},
    kinds={},
    new_tokens={},
    running=RunningTable(),
    waiting=WaitingTable(),
    num_waiting=0,
    num_waiting_tokens=0,
    preempted=(),
    resumed=(),
    new=(),
    finished=(),
    events=(),
    records=(),
    num_blocks=0,
    block_size=0,
    block_limit=0,
    num_used_blocks=0,
    num_free_blocks=0,
    kv_cache_usage=0.0,
    allocated_tokens=0,
    filled_tokens=0,
    totals=Totals(),
)
"""What ``update`` returns here, whatever happened."""


class UnwatchedScheduler(Scheduler):
    """Decides as ``Scheduler`` does. ``update`` returns an empty snapshot; what ended is in ``take_records``.

    For simulations of very many requests, where building what nobody reads would take half the time. calm: whether
    the driver expects steps in which nobody arrives; without them a run of decodes is not worth its beginning.
    """

    calm = True
    _records: tuple[RequestRecord, ...] = ()
    _context = 0

    def take_records(self) -> tuple[RequestRecord, ...]:
        """Requests that ended since the last call."""
        records, self._records = self._records, ()
        return records

    def num_sure(self) -> int:
        """Decode steps from here on that can be taken at once by ``skip``; 0 = the next must be planned."""
        return 0 if self._run is None or self._in_flight is not None else self._run.num_sure()

    @property
    def next_context(self) -> int:
        """Positions that the next step reads, over all rows, when ``num_sure`` is above 0."""
        return 0 if self._run is None else self._context + len(self._life.running) * (self._run.num_planned + 1)

    def skip(self, num_steps: int, now: float) -> None:
        """Take so many steps at once, at most ``num_sure``. now: when the last ends, on the scheduler's clock."""
        if self._run is not None and num_steps > 0:
            self._run.skip(num_steps, now)
            self._step_id += num_steps
            self._log.step_id = self._step_id + 1

    def _finish(self, step: ScheduleStep, result: StepResult, now: float) -> StepSnapshot:
        life = self._life
        deliver(step, result, life, now)
        life.resumes.settle(step, result.timings, life.live, now)
        life.end_held(self._policies.in_force.batching, now)
        self._books.steps += 1
        self._refusals.next_step()
        self._drain()
        if self.calm and life.num_decoding == len(life.running) and not life.ended.any_for_step:
            self._begin_run(self._as_far_as_a_run_reads_it(now))
        return EMPTY

    def _drain(self) -> None:
        _, records = self._log.drain()
        if records:
            self._records += records
        self._life.ended.drain_for_snapshot()

    def _as_far_as_a_run_reads_it(self, now: float) -> StepSnapshot:
        pool, view, running = self.pool, self._planner.view(), self._life.running
        computed = tuple([seq.num_computed_tokens for seq in running])
        self._context = sum(computed)
        return replace(
            EMPTY,
            time=now,
            policy=view.policy,
            running=RunningTable(
                request_id=tuple([seq.request_id for seq in running]),
                num_computed_tokens=computed,
                block_ids=tuple([seq.block_table for seq in running]),
            ),
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            block_limit=view.block_limit,
            num_used_blocks=pool.num_used_blocks,
        )
