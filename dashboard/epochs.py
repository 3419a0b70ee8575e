"""Numbers by policy epoch: what was measured while one set of decisions was in force, followed from the snapshots.

An epoch begins when a decision of the policy changes, or when another model, device or KV pool is started; pace, pause
and single step change nothing. A request belongs to the epoch in which it was first admitted, a gap between two tokens
to the one in which the later token came. Whatever began or ended in another epoch, or in another life of the worker,
is marked as spanning. Times are the scheduler's clock, which stands still while the engine is held.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dashboard.epoch_rows import EpochSummary, RequestRow, Summary, row_of
from dashboard.figures import decisions
from dashboard.samples import Reservoir, Spread
from dashboard.values import policy_diff
from model_runner.messages import EngineInfo, EngineSnapshot
from model_runner.views import RequestView
from scheduler import RequestRecord, SchedulerPolicy, StepSnapshot, Totals

METRICS: Final = ("ttft", "itl", "tpot", "queue", "e2e")
PURPOSES: Final = ("prefill", "decode", "recompute", "padding", "idle")
"""Useful (the first two) and other work, by the counters of the scheduler; idle: free slots of a static batch."""
_COUNTERS: Final = {
    "prefill": "prefill_tokens", "decode": "decode_tokens", "recompute": "recompute_tokens",
    "padding": "padding_tokens", "idle": "idle_slot_steps", "output": "output_tokens", "preemptions": "preemptions",
}  # fmt: skip
_ENGINE: Final = ("model", "device", "dtype", "num_blocks", "block_size")
KEPT_EPOCHS: Final = 24
KEPT_REQUESTS: Final = 5_000
MAX_AGE_S: Final = 1.0
"""A summary is at most so old while steps go on: made once for all pages, not once for each."""


@dataclass(slots=True, eq=False)
class _Epoch:
    """While it is written. started_at: on the clock of run ``run_id``."""

    serial: int
    policy: SchedulerPolicy
    engine: tuple[Any, ...]
    changes: tuple[tuple[str, Any, Any], ...]
    run_id: str
    started_at: float
    wall_time: float
    samples: dict[str, Reservoir]
    counts: dict[str, int]
    ended: dict[str, int]
    steps: int = 0
    duration_s: float = 0.0
    restarts: int = 0
    revision: int = 0
    cached: tuple[int, Mapping[tuple[str, bool], Spread]] = (-1, {})

    def spreads(self) -> Mapping[tuple[str, bool], Spread]:
        """(metric, without those that span) -> its spread; computed again only when a sample came."""
        if self.cached[0] != self.revision:
            both = {(m, whole): self.samples[m].spread(whole_only=whole) for m in METRICS for whole in (False, True)}
            self.cached = (self.revision, both)
        return self.cached[1]

    def add(self, metric: str, seconds: float, *, spans: bool) -> None:
        self.samples[metric].add(seconds, spans=spans)
        self.revision += 1


@dataclass(slots=True, eq=False)
class _Open:
    """An admitted request that has not ended. last: when its newest token came, and in which epoch."""

    epoch: _Epoch
    arrival: float
    last: tuple[float, _Epoch] | None = None


class EpochBook:
    """Fed by the hub, read by any page. Thread-safe; what it hands out is frozen.

    Memory: of each of the newest KEPT_EPOCHS epochs a reservoir of CAPACITY samples a metric, the newest KEPT_REQUESTS
    requests that ended, and a small record of each admitted one. view: the client's view of a request, asked only for
    those that were aborted: a reader that found its stop string aborts, and has all it wanted.
    """

    def __init__(
        self, view: Callable[[str], RequestView | None] | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._view, self._now = view, now
        self._epochs: deque[_Epoch] = deque(maxlen=KEPT_EPOCHS)
        self._open: dict[str, _Open] = {}
        self._rows: deque[RequestRow] = deque(maxlen=KEPT_REQUESTS)
        self._last: EngineSnapshot | None = None
        self._serial = self._missed = 0
        self._summary: tuple[int, float, Summary] | None = None
        self._revision = 0

    def add(self, snapshot: EngineSnapshot) -> None:
        """Take one step's snapshot; each is seen once, in order."""
        with self._lock:
            self._revision += 1
            before, step = self._last, snapshot.step
            if before is None or before.run_id != snapshot.run_id:
                self._open.clear()
                before = None
            elif step.step_id > before.step.step_id + 1:
                self._missed += step.step_id - before.step.step_id - 1
                for life in self._open.values():
                    life.last = None
            epoch = self._current(snapshot, before)
            _count(epoch, snapshot, before)
            for record in step.records:
                self._end(record, epoch, snapshot)
            self._follow(epoch, step)
            self._last = snapshot

    # Epochs.

    def _current(self, snapshot: EngineSnapshot, before: EngineSnapshot | None) -> _Epoch:
        policy, engine = snapshot.step.policy, _engine_of(snapshot.info)
        epoch = self._epochs[-1] if self._epochs else None
        if epoch is not None and epoch.engine == engine and decisions(epoch.policy) == decisions(policy):
            if before is None:
                epoch.run_id, epoch.started_at = snapshot.run_id, 0.0
                epoch.restarts += 1
            return epoch
        if epoch is not None and epoch.steps == 0:
            self._epochs.pop()
            epoch = self._epochs[-1] if self._epochs else None
            if epoch is not None and epoch.engine == engine and decisions(epoch.policy) == decisions(policy):
                return epoch
        self._serial += 1
        fresh = _Epoch(
            self._serial, policy, engine, _changes(epoch, policy, engine), snapshot.run_id, _start_of(snapshot, before),
            snapshot.wall_time, {metric: Reservoir() for metric in METRICS}, dict.fromkeys(_COUNTERS, 0),
            dict.fromkeys(("finished", "aborted", "rejected"), 0),
        )  # fmt: skip
        self._epochs.append(fresh)
        return fresh

    def _epoch_at(self, at: float, run_id: str) -> _Epoch:
        """The epoch in force at a time of a run; the oldest that is kept for times before it."""
        mine = [epoch for epoch in self._epochs if epoch.run_id == run_id]
        return next((epoch for epoch in reversed(mine) if epoch.started_at <= at), mine[0])

    # Requests.

    def _admit(self, arrival: float, scheduled: float, epoch: _Epoch, *, is_continued: bool) -> _Open:
        """is_continued: it had tokens in an earlier life of the worker, so this is not its first admission."""
        home = self._epoch_at(scheduled, epoch.run_id)
        if not is_continued:
            home.add("queue", scheduled - arrival, spans=arrival < home.started_at)
        return _Open(home, arrival)

    def _follow(self, epoch: _Epoch, step: StepSnapshot) -> None:
        """Admissions and tokens of the requests that run on after the step."""
        running = step.running
        columns = (running.request_id, running.num_output_tokens, running.arrival_time)
        times = (running.first_scheduled_time, running.first_token_time)
        for request_id, output, arrival, scheduled, first in zip(*columns, *times, strict=True):
            life = self._open.get(request_id)
            if life is None and scheduled is not None:
                had = output - (request_id in step.new_tokens) > 0 and request_id in step.new
                life = self._open[request_id] = self._admit(arrival, scheduled, epoch, is_continued=had)
            if life is not None and request_id in step.new_tokens:
                _token(life, step.time, first if output == 1 else None, epoch)
        if len(self._open) > len(running) + step.num_waiting:
            here = {*running.request_id, *step.waiting.request_id}
            self._open = {request_id: life for request_id, life in self._open.items() if request_id in here}

    def _end(self, record: RequestRecord, epoch: _Epoch, snapshot: EngineSnapshot) -> None:
        life = self._open.pop(record.request_id, None)
        if life is not None and life.arrival != record.arrival_time:
            life = None  # the id was used twice
        scheduled, last = record.first_scheduled_time, record.last_token_time
        if life is None and scheduled is not None:
            had = record.num_prior_output_tokens > 0
            life = self._admit(record.arrival_time, scheduled, epoch, is_continued=had)
        if life is not None and last is not None and (life.last is None or last > life.last[0]):
            only = record.num_output_tokens == 1
            _token(life, last, record.first_token_time if only else None, epoch)
        home = life.epoch if life is not None else epoch
        outcome = record.outcome if record.outcome != "aborted" else self._outcome(record.request_id)
        spans = record.arrival_time < home.started_at or home is not epoch or record.num_prior_output_tokens > 0
        row = row_of(record, outcome, home.serial, spans, snapshot)
        home.ended[outcome] += 1
        if outcome == "finished":
            home.add("e2e", row.e2e_s, spans=spans)
            if row.tpot_s is not None and record.num_output_tokens > 1:
                home.add("tpot", row.tpot_s, spans=spans)
        self._rows.append(row)

    def _outcome(self, request_id: str) -> str:
        seen = self._view(request_id) if self._view is not None else None
        return "finished" if seen is not None and seen.outcome == "finished" else "aborted"

    # What is handed out.

    def summary(self) -> Summary | None:
        """The numbers as of the newest step, at most MAX_AGE_S old; None before the first."""
        with self._lock:
            if self._last is None:
                return None
            made = self._summary
            if made is None or (made[0] != self._revision and self._now() - made[1] >= MAX_AGE_S):
                made = self._summary = (self._revision, self._now(), self._summarise(self._last))
            return made[2]

    def _summarise(self, last: EngineSnapshot) -> Summary:
        unfinished = dict.fromkeys((epoch.serial for epoch in self._epochs), 0)
        for life in self._open.values():
            if life.epoch.serial in unfinished:
                unfinished[life.epoch.serial] += 1
        waiting = len(last.step.running) + last.step.num_waiting - len(self._open)
        unfinished[self._epochs[-1].serial] += max(0, waiting)
        return Summary(
            epochs=tuple(_frozen(epoch, unfinished[epoch.serial]) for epoch in self._epochs),
            requests=tuple(self._rows),
            run_id=last.run_id,
            step_id=last.step.step_id,
            missed_steps=self._missed,
        )


def _engine_of(info: EngineInfo) -> tuple[Any, ...]:
    return tuple(getattr(info, name) for name in _ENGINE)


def _changes(
    before: _Epoch | None, policy: SchedulerPolicy, engine: tuple[Any, ...]
) -> tuple[tuple[str, Any, Any], ...]:
    if before is None:
        return ()
    found = policy_diff(decisions(before.policy), decisions(policy))
    found += [(name, a, b) for name, a, b in zip(_ENGINE, before.engine, engine, strict=True) if a != b]
    return tuple(found)


def _start_of(snapshot: EngineSnapshot, before: EngineSnapshot | None) -> float:
    """When the policy of a step came into force, on the clock of its run."""
    step = snapshot.step
    changed = [event.time for event in step.events if event.kind == "policy_changed"]
    if changed:
        return changed[-1]
    if before is not None:
        return before.step.time
    is_first = step.step_id <= 1 or step.policy.version == 1
    return 0.0 if is_first else step.time


def _count(epoch: _Epoch, snapshot: EngineSnapshot, before: EngineSnapshot | None) -> None:
    """The tokens and the time of a step. Of a run that is met later than at its first step, what was before is not in
    any epoch."""
    step = snapshot.step
    epoch.steps += bool(step.num_scheduled_tokens or step.num_padding_tokens)
    if before is not None:
        epoch.duration_s += max(0.0, snapshot.engine_time - before.engine_time)
        earlier = before.step.totals
    else:
        epoch.duration_s += snapshot.step_s
        earlier = Totals() if step.step_id <= 1 else step.totals
    for name, counter in _COUNTERS.items():
        epoch.counts[name] += getattr(step.totals, counter) - getattr(earlier, counter)


def _token(life: _Open, at: float, first_token: float | None, epoch: _Epoch) -> None:
    """A token came. first_token: when, for the first of all; else None."""
    if life.last is not None:
        epoch.add("itl", at - life.last[0], spans=life.last[1] is not epoch)
    elif first_token is not None:
        home = life.epoch
        spans = life.arrival < home.started_at or home is not epoch
        home.add("ttft", first_token - life.arrival, spans=spans)
    life.last = (at, epoch)


def _frozen(epoch: _Epoch, unfinished: int) -> EpochSummary:
    return EpochSummary(
        serial=epoch.serial,
        version=epoch.policy.version,
        changes=epoch.changes,
        wall_time=epoch.wall_time,
        steps=epoch.steps,
        duration_s=epoch.duration_s,
        restarts=epoch.restarts,
        counts=dict(epoch.counts),
        ended=dict(epoch.ended),
        unfinished=unfinished,
        spreads=epoch.spreads(),
    )
