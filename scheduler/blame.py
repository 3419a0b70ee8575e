"""Who kept a request waiting: its whole end-to-end time, and each gap between two of its tokens, split by cause.

``Blame`` reads the stream of snapshots, of a live engine or of a simulation. The rule by which a step is divided among
those who took part in it is in ``blame_parts``. Time outside of steps is booked so: from the arrival to the step that
lets a request in, it waits for the reason the scheduler gave; from an eviction to the return it is preempted. A wait
whose reason changes in a step changes its cause at the end of the step before.

All times are whole nanoseconds, so the parts of a life add up to its end-to-end time exactly: to that of its
``RequestRecord`` (``end_time - arrival_time``), both rounded to nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from scheduler.blame_life import PREEMPTED, RUNNING, WAITING, Life, Moment, OpenLife
from scheduler.blame_parts import StepShare, nanoseconds, share_of
from scheduler.events import TERMINAL_KINDS, StepEvent
from scheduler.snapshot import RequestRecord, StepSnapshot
from scheduler.step import NOT_TIMED

KEPT_LIVES: Final = 500
PLANNED: Final = frozenset({"admitted", "resumed", "deferred", "chunked", "preempted"})
"""Kinds of events that planning a step writes, all at the time at which it begins."""


class Blame:
    """The lives of all requests that have not ended, and of the newest ``kept`` that have. One writer, one thread.

    Cost of a step: O(running + rows of the waiting table). Memory: of each life the newest steps, of older ones sums.
    Snapshots come in order, each once; those between steps (``Scheduler.peek``) may be among them. Where some are
    missing, the time is booked as "unseen", and a request that has gone meanwhile has the outcome "lost".
    """

    def __init__(self, kept: int = KEPT_LIVES) -> None:
        self._live: dict[str, OpenLife] = {}
        self._away: dict[str, OpenLife] = {}
        self._ended: deque[OpenLife] = deque(maxlen=kept)
        self._run_id = ""
        self._step_id = 0
        self._time: int | None = None
        self._before: int | None = None
        self._computed = 0
        self._held = 0

    def life(self, request_id: str) -> Life | None:
        """The newest request of this id; None when it is not known, or no longer."""
        found = self._live.get(request_id) or self._away.get(request_id)
        if found is None:
            found = next((life for life in reversed(self._ended) if life.request_id == request_id), None)
        if found is None:
            return None
        until = self._time if found.run_id == self._run_id else None
        return found.frozen(found.cursor if until is None else until, self._held)

    def ids(self) -> list[str]:
        """Known requests, those that arrived last first. An id that was used twice is there once."""
        known = [*self._ended, *self._away.values(), *self._live.values()]
        return list(dict.fromkeys(life.request_id for life in reversed(known)))

    def add(self, step: StepSnapshot, *, run_id: str = "", held_s: float = 0.0) -> None:
        """Take the next snapshot. run_id: of the engine; another one than before means that all clocks begin again.

        held_s: how long the scheduler's clock stood still since the snapshot before.
        """
        self._held += nanoseconds(held_s)
        share = self._begin(step, run_id)
        ended = self._events(step, share)
        tokens = step.num_scheduled_tokens, step.num_padding_tokens, step.kinds
        for request_id, number, holds in zip(
            step.running.request_id, step.running.num_output_tokens, step.running.held, strict=True
        ):
            life = self._running(request_id, step, share)
            if not share.is_empty:
                _take_part(life, share, share.end, *_own(request_id, *tokens))
            life.holds = holds
            if request_id in step.new_tokens:
                life.token(number, share.end, share.step_id)
        self._waiting(step, share)
        self._close(ended, step, share)
        if len(self._live) != len(step.running) + step.num_waiting:
            self._vanished(step, share)
        self._time = share.end

    def _begin(self, step: StepSnapshot, run_id: str) -> StepShare:
        totals = step.totals
        computed = totals.prefill_tokens + totals.decode_tokens + totals.recompute_tokens + totals.padding_tokens
        if run_id != self._run_id:
            for life in self._away.values():
                self._end(life, "lost", "")
            self._away, self._live = self._live, {}
            self._run_id, self._step_id, self._time, self._before = run_id, step.step_id, None, None
        own = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
        missed = self._time is not None and step.step_id > self._step_id + 1 and computed != self._computed + own
        if step.step_id != self._step_id:
            self._step_id, self._before = step.step_id, self._time
        self._computed = computed
        start = self._before
        if start is None and step.timings == NOT_TIMED:
            start = min([nanoseconds(event.time) for event in step.events if event.kind in PLANNED], default=None)
        return share_of(step, start, missed)

    # What happened to requests, in the order in which it happened.

    def _events(self, step: StepSnapshot, share: StepShare) -> list[tuple[OpenLife, StepEvent]]:
        ended: list[tuple[OpenLife, StepEvent]] = []
        records: dict[str, list[RequestRecord]] = {}
        for record in step.records:
            if record.outcome != "rejected":
                records.setdefault(record.request_id, []).append(record)
        for event in step.events:
            request_id, at = event.request_id, nanoseconds(event.time)
            if event.kind == "queued":
                coming = records.get(request_id)
                arrival = coming[0].arrival_time if coming else _arrival(request_id, step)
                life = self._open(request_id, at if arrival is None else nanoseconds(arrival), at, event)
                life.arrival_known = arrival is not None
            elif event.kind in TERMINAL_KINDS:
                if event.kind != "rejected":
                    arrival = records[request_id].pop(0).arrival_time
                    life = self._live.get(request_id) or self._meet(request_id, arrival, step, share)
                    del self._live[request_id]
                    life.came_earlier(nanoseconds(arrival))
                    ended.append((life, event))
            elif event.kind in PLANNED:
                if request_id not in self._live:
                    coming = records.get(request_id)
                    arrival = coming[0].arrival_time if coming else _arrival(request_id, step)
                    if arrival is None:
                        continue
                    self._meet(request_id, arrival, step, share)
                self._move(self._live[request_id], event, at, share)
        return ended

    def _move(self, life: OpenLife, event: StepEvent, at: int, share: StepShare) -> None:
        if event.kind == "deferred":
            if life.state == RUNNING:
                life.blocked = True
            else:
                life.because(event.reason, str(event.numbers.get("blocked_by", "")), at)
        elif event.kind in ("admitted", "resumed") and life.state != RUNNING:
            life.wait(at)
            life.state = RUNNING
            life.moments.append(Moment(event.kind, at, event.step_id))
        elif event.kind == "preempted":
            _catch_up(life, at, share)
            life.state, life.reason, life.behind, life.blocked = PREEMPTED, "", "", False
            other = str(event.numbers.get("for_request_id", ""))
            life.moments.append(Moment(event.kind, at, event.step_id, event.reason, other))

    def _open(self, request_id: str, arrival: int, at: int, event: StepEvent | None) -> OpenLife:
        known = self._away.pop(request_id, None)
        step_id = self._step_id if event is None else event.step_id
        if known is not None:
            known.move_to(self._run_id, arrival, at, step_id)
            life = known
        else:
            first = min(arrival, at)
            life = OpenLife(request_id, self._run_id, first, first, known_from=first, held_before=self._held)
            life.moments.append(Moment("queued", life.arrival, step_id))
            if self._time is None:
                life.wait(at, "unseen")
        if event is not None:
            life.num_prompt_tokens = int(event.numbers["num_prompt_tokens"])
        self._live[request_id] = life
        return life

    def _meet(self, request_id: str, arrival_time: float, step: StepSnapshot, share: StepShare) -> OpenLife:
        """A request whose arrival was not seen."""
        arrival = nanoseconds(arrival_time)
        life = self._open(request_id, arrival, max(arrival, share.start), None)
        if share.missed:
            life.wait(share.start, "unseen")
        return life

    # What each request did in the step.

    def _running(self, request_id: str, step: StepSnapshot, share: StepShare) -> OpenLife:
        life = self._live.get(request_id)
        if life is None:
            row = step.running[step.running.request_id.index(request_id)]
            life = self._meet(request_id, row.arrival_time, step, share)
            life.num_prompt_tokens = row.num_prompt_tokens
            if row.first_scheduled_time is not None and row.num_preemptions == 0:
                life.wait(min(nanoseconds(row.first_scheduled_time), share.end))
        if life.state != RUNNING:
            life.wait(share.start)
            life.state = RUNNING
        return life

    def _waiting(self, step: StepSnapshot, share: StepShare) -> None:
        table = step.waiting
        for i, request_id in enumerate(table.request_id):
            life = self._live.get(request_id)
            if life is None:
                life = self._meet(request_id, table.arrival_time[i], step, share)
                life.num_prompt_tokens = table.num_prompt_tokens[i]
            elif not life.arrival_known:
                life.came_earlier(nanoseconds(table.arrival_time[i]))
            if life.state == RUNNING or (life.state == WAITING and table.status[i] == PREEMPTED):
                _catch_up(life, share.start, share)
                life.state = PREEMPTED if table.status[i] == PREEMPTED else WAITING
            life.because(table.reason[i], table.blocked_by[i], share.start)

    def _close(self, ended: list[tuple[OpenLife, StepEvent]], step: StepSnapshot, share: StepShare) -> None:
        """End lives. What a step computed for an id belongs to the last request of that id that ran in it."""
        tokens = step.num_scheduled_tokens, step.num_padding_tokens, step.kinds
        claimed = {r for r, life in self._live.items() if life.state == RUNNING} if ended else set()
        for life, event in reversed(ended):
            request_id, at = life.request_id, nanoseconds(event.time)
            if life.state != RUNNING:
                life.wait(at)
            elif share.is_empty or request_id in claimed or (at <= share.start and at < share.end):
                _catch_up(life, at, share)
            else:
                _take_part(life, share, max(at, life.cursor), *_own(request_id, *tokens))
                claimed.add(request_id)
                if request_id in step.new_tokens and event.kind == "finished":
                    life.token(int(event.numbers["num_output_tokens"]), share.end, share.step_id)
            life.moments.append(Moment(event.kind, max(at, life.cursor), event.step_id, event.reason))
        for life, event in ended:
            self._end(life, event.kind, event.reason)

    def _vanished(self, step: StepSnapshot, share: StepShare) -> None:
        """Requests that are in no table: deep in a long queue, or gone while nobody watched."""
        shown = {*step.running.request_id, *step.waiting.request_id}
        deep = step.num_waiting > len(step.waiting)
        for life in [life for request_id, life in self._live.items() if request_id not in shown]:
            if deep and life.state != RUNNING:
                if life.reason == "" and life.state == WAITING and len(step.waiting):
                    life.because("head_of_line", step.waiting.request_id[0], share.start)
                continue
            del self._live[life.request_id]
            life.wait(share.start, "unseen")
            self._end(life, "lost", "")

    def _end(self, life: OpenLife, outcome: str, reason: str) -> None:
        life.outcome, life.end_reason, life.held = outcome, reason, self._held - life.held_before
        self._ended.append(life)


def _arrival(request_id: str, step: StepSnapshot) -> float | None:
    for table in (step.running, step.waiting):
        if request_id in table.request_id:
            return table.arrival_time[table.request_id.index(request_id)]
    return None


def _own(
    request_id: str, tokens: Mapping[str, int], padding: Mapping[str, int], kinds: Mapping[str, str]
) -> tuple[str, int, int]:
    """(kind, tokens, padding) of a row of the step."""
    return kinds.get(request_id, "none"), tokens.get(request_id, 0), padding.get(request_id, 0)


def _take_part(life: OpenLife, share: StepShare, until: int, kind: str, tokens: int, padding: int) -> None:
    """Book a step on a running request: what it computed, or why it has no tokens in it."""
    _catch_up(life, share.start, share)
    if tokens:
        life.blocked = False
    elif life.holds:
        kind, padding = "batch_end", 0
    elif life.blocked:
        kind = "memory"
    life.take_part(share, until, kind, tokens, padding)


def _catch_up(life: OpenLife, until: int, share: StepShare) -> None:
    """Book the time of a running request up to the step: nothing was computed then, or nobody saw what."""
    if share.missed:
        life.wait(min(until, share.start), "unseen")
    idle = "batch_end" if life.holds else "memory" if life.blocked else "idle"
    life.wait(min(until, share.start), idle)
    life.wait(until, "overhead")
