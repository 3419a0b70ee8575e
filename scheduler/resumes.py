"""What evictions cost: one ``ResumeRecord`` for each, written when its victim is where it was."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.proposals import Evict
from scheduler.sequence import Sequence
from scheduler.snapshot import ResumeRecord
from scheduler.step import BlockMove, ScheduleStep, StepTimings


@dataclass(slots=True)
class OpenEviction:
    """An eviction whose victim has not caught up. target: its num_computed_tokens when it was evicted."""

    mode: str
    target: int
    moved_blocks: int
    evicted_step: int
    evicted_at: float
    resumed_step: int = 0
    resumed_at: float = 0.0
    recompute_tokens: int = 0
    work_s: float = 0.0


@dataclass(slots=True)
class ResumeLedger:
    """Follows victims until they have caught up. One that is aborted before leaves no record.

    A victim that is evicted again on its way back has several open evictions, the newest with the lowest target. Each
    recomputed token is booked on the newest that is still open, so that no token is counted twice.
    """

    _evictions: dict[str, list[OpenEviction]] = field(default_factory=dict)
    _recomputed: list[tuple[OpenEviction, int]] = field(default_factory=list)

    def evicted(self, seq: Sequence, eviction: Evict, step_id: int, now: float) -> None:
        """Open a record; called before the victim loses its computed tokens."""
        opened = OpenEviction(eviction.mode, seq.num_computed_tokens, eviction.moved_blocks, step_id, now)
        self._evictions.setdefault(seq.request_id, []).append(opened)

    def resumed(self, seq: Sequence, moved_blocks: int, step_id: int, now: float) -> None:
        """The victim runs again; ``moved_blocks`` come back from the host pool."""
        opened = self._evictions.get(seq.request_id, ())
        for each in opened:
            if not each.resumed_step:
                each.resumed_step, each.resumed_at = step_id, now
        if opened:
            opened[-1].moved_blocks += moved_blocks

    def recomputed(self, seq: Sequence, start: int, end: int) -> None:
        """The step in planning computes tokens ``start`` .. ``end`` of the request again."""
        for each in reversed(self._evictions.get(seq.request_id, ())):
            count = max(0, min(end, each.target) - start)
            if count:
                self._recomputed.append((each, count))
                start += count

    def aborted(self, request_id: str) -> None:
        """The request will never catch up."""
        self._evictions.pop(request_id, None)

    def give_up(self) -> None:
        """The step in flight never happened."""
        self._recomputed = []

    def settle(
        self, step: ScheduleStep, timings: StepTimings, live: dict[str, Sequence], now: float
    ) -> tuple[ResumeRecord, ...]:
        """Share out the times of the step that was executed, and close what has caught up.

        Called after the step's tokens were delivered: one that finished with them, and is not live, caught up as well.
        """
        if not self._evictions:
            self._recomputed = []
            return ()
        self._share(step, timings)
        closed: list[ResumeRecord] = []
        for request_id in [name for name in step.num_scheduled_tokens if name in self._evictions]:
            seq, opened = live.get(request_id), self._evictions[request_id]
            while opened and (seq is None or seq.num_computed_tokens >= opened[-1].target):
                closed.append(_record(request_id, opened.pop(), step.step_id, now))
            if not opened:
                del self._evictions[request_id]
        return tuple(closed)

    def _share(self, step: ScheduleStep, timings: StepTimings) -> None:
        tokens = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
        for each, count in self._recomputed:
            each.recompute_tokens += count
            each.work_s += timings.execute_s * count / tokens
        self._recomputed = []
        self._share_moves(step.swapped_out, timings.swap_out_s)
        self._share_moves(step.swapped_in, timings.swap_in_s)

    def _share_moves(self, moves: tuple[BlockMove, ...], seconds: float) -> None:
        blocks = sum(len(move.host_block_ids) for move in moves)
        for move in moves:
            opened = self._evictions.get(move.request_id)
            if opened:
                opened[-1].work_s += seconds * len(move.host_block_ids) / blocks


def _record(request_id: str, done: OpenEviction, step_id: int, now: float) -> ResumeRecord:
    return ResumeRecord(
        request_id=request_id,
        mode=done.mode,
        evicted_step=done.evicted_step,
        evicted_at=done.evicted_at,
        resumed_step=done.resumed_step,
        resumed_at=done.resumed_at,
        caught_up_step=step_id,
        caught_up_at=now,
        recompute_tokens=done.recompute_tokens,
        moved_blocks=done.moved_blocks,
        work_s=done.work_s,
    )
