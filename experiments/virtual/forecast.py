"""Goes on from a live step on a virtual clock, under any policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from experiments.virtual.cost import CostModel
from experiments.virtual.future import Coming, Future
from experiments.virtual.work import work_of_step
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, ScheduleStep, StepResult, StepSnapshot
from scheduler.policy import limit_problems, problems
from scheduler.restore import restore
from scheduler.simulate import FILLER_TOKEN, VirtualClock

END_TOKEN: Final = 1
"""Sampled where an output ends before max_tokens. Its value means nothing, only that it is not the filler."""


@dataclass(frozen=True, slots=True)
class Series:
    """A stretch of steps, one entry a step in each column; of a forecast, or of a live run for comparison.

    times_s: ends of the steps, on the engine's clock. tokens: delivered since the stretch began. waiting, running,
    used_blocks: after the step. preemptions: since the stretch began. scheduled: (request id, tokens) in order.
    ttft_s: request id -> seconds from its arrival to its first token, of first tokens within the stretch. gaps_s: time
    between two tokens of one request, both within the stretch, in order of their ends. finished: requests that ended.
    """

    times_s: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    used_blocks: tuple[int, ...] = ()
    preemptions: tuple[int, ...] = ()
    scheduled: tuple[tuple[tuple[str, int], ...], ...] = ()
    ttft_s: Mapping[str, float] | None = None
    gaps_s: tuple[float, ...] = ()
    finished: int = 0


@dataclass(frozen=True, slots=True)
class Ghost:
    """What the engine would do from a step on. from_step, from_s: the step it forks at, and the engine's clock there.

    dropped: arrivals that found the queue at its limit. ended: True when nothing was left to do; else it stops where
    it was told to.
    """

    policy: SchedulerPolicy
    from_step: int
    from_s: float
    series: Series
    guesses: Mapping[str, int]
    dropped: int
    ended: bool


class SeriesWriter:
    """Gathers the columns of a ``Series``. start_preemptions: the counter when the stretch begins."""

    def __init__(self, start_preemptions: int, arrivals: Mapping[str, float]) -> None:
        self._before = start_preemptions
        self._arrivals = dict(arrivals)
        self._columns: dict[str, list[int]] = {
            name: [] for name in ("tokens", "waiting", "running", "used_blocks", "preemptions")
        }
        self._times: list[float] = []
        self._scheduled: list[tuple[tuple[str, int], ...]] = []
        self._last_token: dict[str, float] = {}
        self._ttft: dict[str, float] = {}
        self._gaps: list[float] = []
        self._delivered = 0
        self._finished = 0

    def arrived(self, request_id: str, at_s: float) -> None:
        """A request came."""
        self._arrivals.setdefault(request_id, at_s)

    def add(self, snapshot: StepSnapshot, end_s: float) -> None:
        """The next step. Requests without output yet must have been told to ``arrived``."""
        for request_id in snapshot.new_tokens:
            before = self._last_token.get(request_id)
            if before is not None:
                self._gaps.append(end_s - before)
            elif request_id in self._arrivals:
                self._ttft[request_id] = end_s - self._arrivals.pop(request_id)
            self._last_token[request_id] = end_s
        self._delivered += len(snapshot.new_tokens)
        self._finished += sum(1 for record in snapshot.records if record.outcome == "finished")
        now = {
            "tokens": self._delivered,
            "waiting": snapshot.num_waiting,
            "running": len(snapshot.running),
            "used_blocks": snapshot.num_used_blocks,
            "preemptions": snapshot.totals.preemptions - self._before,
        }
        for name, value in now.items():
            self._columns[name].append(value)
        self._times.append(end_s)
        self._scheduled.append(tuple(snapshot.num_scheduled_tokens.items()))

    def series(self) -> Series:
        """What was gathered."""
        columns = {name: tuple(values) for name, values in self._columns.items()}
        return Series(
            times_s=tuple(self._times),
            **columns,
            scheduled=tuple(self._scheduled),
            ttft_s=dict(self._ttft),
            gaps_s=tuple(self._gaps),
            finished=self._finished,
        )


def without_output(snapshot: StepSnapshot) -> dict[str, float]:
    """Arrival of each request that has delivered nothing yet."""
    tables = (snapshot.running, snapshot.waiting)
    return {
        name: at
        for table in tables
        for name, at, made in zip(table.request_id, table.arrival_time, table.num_output_tokens, strict=True)
        if not made
    }


def forecast(
    snapshot: StepSnapshot,
    policy: SchedulerPolicy,
    cost_model: CostModel,
    future: Future,
    *,
    max_model_len: int,
    max_steps: int = 500,
    max_seconds: float = float("inf"),
) -> Ghost:
    """Put ``policy`` in force right after the step of ``snapshot`` and go on for so many steps or seconds.

    Pause, single step and pace of a policy are left out: they are for the eye. Raises ValueError, naming the fields,
    for a policy that the engine would refuse, or one in force that is not known here.
    """
    pace = {"paused": False, "single_step": False, "step_delay_ms": 0.0}
    policy = replace(policy, **pace)  # type: ignore[arg-type]
    wrong = problems(policy) or limit_problems(policy, max_model_len, snapshot.num_host_blocks)
    if wrong:
        raise ValueError("; ".join(wrong))
    clock = VirtualClock()
    clock.now = snapshot.time
    restored = restore(snapshot, max_model_len=max_model_len, clock=clock, eos_token_ids=(END_TOKEN,))
    restored.scheduler.set_policy(policy)
    play = _Play(restored.scheduler, clock, cost_model, snapshot, future)
    ended = play.go(max_steps, snapshot.time + max_seconds)
    return Ghost(
        restored.scheduler.policy,
        snapshot.step_id,
        snapshot.time,
        play.writer.series(),
        restored.guesses,
        play.dropped,
        ended,
    )


class _Play:
    """One forecast under way."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: VirtualClock,
        cost_model: CostModel,
        snapshot: StepSnapshot,
        future: Future,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._cost_model = cost_model
        self._coming = list(reversed(future.coming))
        self._max_waiting = future.max_waiting
        self._left: dict[str, int] = {}
        for table in (snapshot.running, snapshot.waiting):
            for name, most, made in zip(table.request_id, table.max_tokens, table.num_output_tokens, strict=True):
                self._left[name] = future.lengths.get(name, most) - made
        self._num_waiting = snapshot.num_waiting
        self.writer = SeriesWriter(snapshot.totals.preemptions, without_output(snapshot))
        self.dropped = 0

    def go(self, max_steps: int, until_s: float) -> bool:
        """True when everything has ended and nothing comes any more."""
        scheduler, clock, steps, idle = self._scheduler, self._clock, 0, 0
        while steps < max_steps and clock.now < until_s:
            self._arrive()
            if not scheduler.has_unfinished or idle > 1:
                if not self._coming:
                    return not scheduler.has_unfinished
                clock.now, idle = max(clock.now, self._coming[-1].at_s), 0
                continue
            step = scheduler.schedule()
            computes = not step.is_empty or step.swapped_out or step.swapped_in
            if computes:
                clock.now += self._cost_model.seconds(work_of_step(step))
            snapshot = scheduler.update(StepResult(step.step_id, self._sampled(step)))
            self._num_waiting = snapshot.num_waiting
            if computes:
                self.writer.add(snapshot, clock.now)
                steps += 1
            idle = 0 if computes or step.preempted or snapshot.finished else idle + 1
        return False

    def _sampled(self, step: ScheduleStep) -> dict[str, int]:
        left, sampled = self._left, {}
        for request_id in step.sampling_ids:
            left[request_id] = remaining = left.get(request_id, 0) - 1
            sampled[request_id] = END_TOKEN if remaining == 0 else FILLER_TOKEN
        return sampled

    def _arrive(self) -> None:
        coming = self._coming
        while coming and coming[-1].at_s <= self._clock.now:
            each = coming.pop()
            if each.droppable and self._max_waiting is not None and self._num_waiting >= self._max_waiting:
                self.dropped += 1
                continue
            if self._scheduler.add(_request(each)).accepted:
                self._left[each.request_id] = each.output_len
                self._num_waiting += 1
                self.writer.arrived(each.request_id, each.at_s)


def _request(each: Coming) -> Request:
    sampling = SamplingParams(max_tokens=each.max_tokens)
    return Request(each.request_id, (FILLER_TOKEN,) * each.prompt_len, sampling, each.priority, each.at_s)
