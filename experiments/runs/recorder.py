"""Turns what a driver sees, step by step, into the rows of a ``Run``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from experiments.record import RequestRow, StepRow
from experiments.trace import TraceRequest
from scheduler import RequestRecord, Scheduler, ScheduleStep, StepEvent, StepResult, StepSnapshot
from scheduler.sequence import Sequence as LiveSequence
from scheduler.snapshot import MemoryUse

KINDS = ("prefill", "decode", "recompute")
"""Kinds of real work, in the order of ``StepRow``'s counts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The state right after planning: what the step computes with."""

    num_running: int
    used_blocks: int
    memory: MemoryUse


@dataclass(frozen=True, slots=True)
class StepTimes:
    """When things happened, on the clock of the run: schedule, execute and update each from one to the next."""

    start_s: float
    scheduled_s: float
    execute_s: float
    executed_s: float
    end_s: float


class Recorder:
    """Gathers the rows of one run. Costs O(rows of the step) a step, whatever the pool's size."""

    def __init__(self) -> None:
        self.steps: list[StepRow] = []
        self.events: list[StepEvent] = []
        self.records: dict[str, RequestRecord] = {}
        self.token_times: dict[str, list[float]] = {}
        self._last_admitted: dict[str, float] = {}
        self._left_padding: dict[str, int] = {}
        self._counted = dict.fromkeys(KINDS, 0)

    def planned(self, scheduler: Scheduler) -> Planned:
        """To be called between ``schedule`` and ``update``."""
        return Planned(len(scheduler.running_ids), scheduler.pool.num_used_blocks, scheduler.memory_use)

    def done(
        self,
        step: ScheduleStep,
        planned: Planned,
        result: StepResult,
        snapshot: StepSnapshot,
        times: StepTimes,
        scheduler: Scheduler,
    ) -> None:
        """Note a step that has been computed and taken in. A token counts as delivered at the snapshot's time."""
        self.took(snapshot)
        for request_id in result.sampled:
            self.token_times.setdefault(request_id, []).append(snapshot.time)
        prefill, decode, recompute = self._counts(step, scheduler)
        policy, memory, timings = scheduler.policy, planned.memory, result.timings
        idle = policy.batching == "static" and snapshot.num_waiting > 0
        self.steps.append(
            StepRow(
                step_id=step.step_id,
                start_s=times.start_s,
                end_s=times.end_s,
                scheduled=_scheduled(step),
                prefill_tokens=prefill,
                decode_tokens=decode,
                recompute_tokens=recompute,
                padding_tokens=sum(step.num_padding_tokens.values()),
                idle_slots=max(0, policy.max_num_seqs - planned.num_running) if idle else 0,
                context_tokens=self._context(step),
                num_running=planned.num_running,
                num_waiting=snapshot.num_waiting,
                used_blocks=planned.used_blocks,
                filled=memory.filled,
                reserved=memory.reserved,
                internal=memory.internal,
                external=memory.external,
                preempted=step.preempted,
                swapped_out_blocks=sum([len(move.device_block_ids) for move in step.swapped_out]),
                swapped_in_blocks=sum([len(move.device_block_ids) for move in step.swapped_in]),
                schedule_s=times.scheduled_s - times.start_s,
                build_s=timings.build_s,
                execute_s=timings.execute_s,
                sample_s=timings.sample_s,
                update_s=times.end_s - times.executed_s,
                swap_s=timings.swap_out_s + timings.swap_in_s,
            )
        )

    def took(self, snapshot: StepSnapshot) -> None:
        """Note events and ended requests, of a step or between steps."""
        self.events.extend(snapshot.events)
        for event in snapshot.events:
            if event.kind in ("admitted", "resumed"):
                self._last_admitted[event.request_id] = event.time
        for record in snapshot.records:
            self.records[record.request_id] = record

    def requests(
        self, trace: Iterable[TraceRequest], live: Mapping[str, LiveSequence], stopped: str, now: float
    ) -> tuple[RequestRow, ...]:
        """One row for each request of the trace, in its order. live: those that have not ended."""
        return tuple(self._request(request, live.get(request.request_id), stopped, now) for request in trace)

    def _request(self, asked: TraceRequest, live: LiveSequence | None, stopped: str, now: float) -> RequestRow:
        record = self.records.get(asked.request_id)
        source = record or live
        preempted_s = 0.0 if source is None else source.preempted_s
        if live is not None and live.preempted_at is not None:
            preempted_s += now - live.preempted_at
        return RequestRow(
            request_id=asked.request_id,
            prompt_len=asked.prompt_len,
            output_len=asked.output_len,
            num_output_tokens=0 if source is None else source.num_output_tokens,
            priority=asked.priority,
            outcome="unfinished" if record is None else record.outcome,
            reason=stopped if record is None else record.reason,
            due_s=asked.arrival_s,
            first_scheduled_s=None if source is None else source.first_scheduled_time,
            last_scheduled_s=self._last_admitted.get(asked.request_id),
            token_times_s=tuple(self.token_times.get(asked.request_id, ())),
            end_s=None if record is None else record.end_time,
            num_preemptions=0 if source is None else source.num_preemptions,
            preempted_s=preempted_s,
            recompute_tokens=0 if source is None else source.recompute_tokens,
            padding_tokens=0 if source is None else source.padding_tokens,
        )

    def _counts(self, step: ScheduleStep, scheduler: Scheduler) -> tuple[int, int, int]:
        """Tokens of prefill, decode and recompute. A row that computes again may end in new tokens, so a step with
        such a row is read from the scheduler's books instead of its rows."""
        if "recompute" in step.kinds.values():
            totals = scheduler.totals
            found = {kind: getattr(totals, f"{kind}_tokens") - self._counted[kind] for kind in KINDS}
        else:
            found = dict.fromkeys(KINDS, 0)
            for request_id, count in step.num_scheduled_tokens.items():
                found[step.kinds[request_id]] += count
        for kind, count in found.items():
            self._counted[kind] += count
        return found["prefill"], found["decode"], found["recompute"]

    def _context(self, step: ScheduleStep) -> int:
        """Positions read: each row up to its last token, and left padding up to itself, as the runner computes it."""
        starts, tokens = step.positions_start, step.num_scheduled_tokens
        context = sum([starts[request_id] + count for request_id, count in tokens.items()])
        for request_id in (*step.finished, *step.preempted):
            self._left_padding.pop(request_id, None)
        for request_id, count in step.num_padding_tokens.items():
            if step.kinds.get(request_id) == "padding" and step.block_tables.get(request_id):
                context += starts[request_id] + count
            else:
                self._left_padding[request_id] = padded = self._left_padding.get(request_id, 0) + count
                context += padded
        return context


def _scheduled(step: ScheduleStep) -> tuple[tuple[str, int, str], ...]:
    """Rows of real tokens in schedule order, then rows of padding: together all that the step computes."""
    kinds = step.kinds
    rows = [(request_id, count, kinds[request_id]) for request_id, count in step.num_scheduled_tokens.items()]
    if step.num_padding_tokens:
        rows += [(request_id, count, "padding") for request_id, count in step.num_padding_tokens.items()]
    return tuple(rows)
