"""Fork and race: the same future under the policy in force and under another, from a live step.

    history = client.history()
    future = future_of(client, history, step_id, horizon_s=30)
    result = race(history, rival_policy, future, max_model_len=..., at_step=step_id)

Everything is a pure function of snapshots; nothing touches the engine. 500 steps of both policies take less than a
second, so a page calls it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from experiments.virtual.fit import FitError, Fitted, HeldOutError, error_of, fit
from experiments.virtual.forecast import Ghost, Series, SeriesWriter, forecast, without_output
from experiments.virtual.future import Future
from experiments.virtual.work import StepWork, work_of_snapshot
from model_runner.messages import EngineSnapshot
from scheduler import SchedulerPolicy, StepSnapshot

FITTED_STEPS: Final = 1_000
"""The newest steps of the run that prices are fitted to: enough for all terms, and of this hour's machine."""


@dataclass(frozen=True, slots=True)
class Race:
    """Two forecasts of one future. control: under the policy in force at the fork; rival: under the other.

    live: what really happened since, as far as the history goes; its distance from ``control`` is the error of the
    whole forecast, while ``fitted.held_out_error`` is that of step times alone. guesses, assumptions: what the
    forecasts rest on, key of ``scheduler.restore.GUESSES`` or ``future.ASSUMPTIONS`` -> how many it concerns.
    """

    run_id: str
    control: Ghost
    rival: Ghost
    live: Series
    fitted: Fitted
    guesses: Mapping[str, int]
    assumptions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Check:
    """A forecast beside what the engine did under the same policy. Shares are of the real value (0.05 = 5 %).

    num_steps: real steps compared. started_late: steps between the fork and the policy's coming into force, not
    compared. identical_steps: of the first so many, each scheduled exactly what was forecast. seconds: of engine time
    compared. tokens, tokens_forecast: delivered in it; tokens_error: their distance. queue_error: mean distance of the
    number of waiting requests. ttft_p50_s and ttft_forecast_p50_s: medians, None without a first token; ttft_count:
    first tokens of the real run. step_times: prices of the forecast on the real steps, or None where there are none.
    """

    num_steps: int
    started_late: int
    identical_steps: int
    seconds: float
    tokens: int
    tokens_forecast: int
    tokens_error: float
    queue_error: float
    ttft_p50_s: float | None
    ttft_forecast_p50_s: float | None
    ttft_count: int
    step_times: HeldOutError | None


def race(
    history: Sequence[EngineSnapshot],
    rival: SchedulerPolicy,
    future: Future,
    *,
    max_model_len: int,
    at_step: int | None = None,
    max_steps: int = 500,
    max_seconds: float = float("inf"),
) -> Race:
    """Fork the newest run of ``history`` at a step (None = the newest) and go on under both policies.

    Raises FitError (a ValueError) when the run has too few steps to fit, ValueError when the step is not in the
    history or the policy would be refused.
    """
    run = run_of(history)
    step_id = run[-1].step.step_id if at_step is None else at_step
    start = next((snapshot for snapshot in run if snapshot.step.step_id == step_id), None)
    if start is None:
        raise ValueError(f"at_step is {step_id}, the history has steps {run[0].step.step_id} to {run[-1].step.step_id}")
    fitted = fit_history(run)

    def ghost(policy: SchedulerPolicy) -> Ghost:
        return forecast(
            start.step,
            policy,
            fitted.model,
            future,
            max_model_len=max_model_len,
            max_steps=max_steps,
            max_seconds=max_seconds,
        )

    control, other = ghost(start.step.policy), ghost(rival)
    live = live_series(run, step_id)
    return Race(start.run_id, control, other, live, fitted, control.guesses, future.assumptions)


def run_of(history: Sequence[EngineSnapshot]) -> list[EngineSnapshot]:
    """The steps of the newest run. Raises FitError when there are none."""
    if not history:
        raise FitError("history: it has no steps yet")
    return [snapshot for snapshot in history if snapshot.run_id == history[-1].run_id]


def timed_steps(run: Sequence[EngineSnapshot]) -> tuple[list[StepWork], list[float]]:
    """Work and seconds of each step: from the end of the step before where that was the one before and the engine had
    work, so that publishing is in it; else its own time."""
    works, seconds = [], []
    before: EngineSnapshot | None = None
    for snapshot in run:
        step = snapshot.step
        follows = before is not None and before.step.step_id + 1 == step.step_id
        if before is not None and follows and (len(before.step.running) or before.step.num_waiting):
            seconds.append(step.time - before.step.time)
        else:
            seconds.append(snapshot.step_s)
        works.append(work_of_snapshot(step))
        before = snapshot
    return works, seconds


def fit_history(history: Sequence[EngineSnapshot], newest: int = FITTED_STEPS) -> Fitted:
    """Prices from the newest steps of the newest run. Raises FitError when there are too few."""
    run = run_of(history)[-newest:]
    works, seconds = timed_steps(run)
    return fit(works, seconds, f"run {run[-1].run_id}")


def live_series(run: Sequence[EngineSnapshot], after_step: int) -> Series:
    """The steps after ``after_step`` as they really were, in the form of a forecast."""
    writer: SeriesWriter | None = None
    for snapshot in run:
        step = snapshot.step
        if step.step_id <= after_step:
            writer = SeriesWriter(step.totals.preemptions, without_output(step))
        elif writer is not None:
            for name, at in without_output(step).items():
                writer.arrived(name, at)
            for name, at in _let_in(step):
                writer.arrived(name, at)
            writer.add(step, step.time)
    return writer.series() if writer is not None else Series()


def _let_in(step: StepSnapshot) -> list[tuple[str, float]]:
    """Arrival of each request that was let in for the first time, whether it still runs or has ended."""
    rows = zip(step.running.request_id, step.running.arrival_time, strict=True)
    ended = [(record.request_id, record.arrival_time) for record in step.records]
    return [(name, at) for name, at in (*rows, *ended) if name in step.new]


def check(result: Race, history: Sequence[EngineSnapshot], ghost: Ghost | None = None) -> Check | None:
    """Compare a forecast (None = the rival) with the steps after its fork that ran under its policy.

    None when there are none yet. Steps from the first under yet another policy on are left out.
    """
    ghost = result.rival if ghost is None else ghost
    run = [snapshot for snapshot in history if snapshot.run_id == result.run_id]
    after = [snapshot for snapshot in run if snapshot.step.step_id > ghost.from_step]
    late = next((n for n, each in enumerate(after) if _alike(each.step.policy, ghost.policy)), None)
    if late is None:
        return None
    under = []
    for snapshot in after[late:]:
        if not _alike(snapshot.step.policy, ghost.policy):
            break
        under.append(snapshot)
    before = [snapshot for snapshot in run if snapshot.step.step_id < under[0].step.step_id]
    start = before[-1].step.step_id if before else ghost.from_step
    real = live_series([*before[-1:], *under], start)
    return _compared(result, ghost, real, under, late)


def _alike(one: SchedulerPolicy, other: SchedulerPolicy) -> bool:
    pace = {"version": 0, "paused": False, "single_step": False, "step_delay_ms": 0.0}
    return replace(one, **pace) == replace(other, **pace)  # type: ignore[arg-type]


def _compared(result: Race, ghost: Ghost, real: Series, under: Sequence[EngineSnapshot], late: int) -> Check | None:
    mine = ghost.series
    if not real.times_s or not mine.times_s:
        return None
    begin = under[0].step.time - under[0].step_s if late else ghost.from_s
    forecast_at = np.array(mine.times_s) - ghost.from_s
    real_at = np.array(real.times_s) - begin
    seconds = float(min(forecast_at[-1], real_at[-1]))
    count = int(np.searchsorted(real_at, seconds, side="right"))
    last = int(np.searchsorted(forecast_at, seconds, side="right")) - 1
    tokens = real.tokens[count - 1] if count else 0
    tokens_forecast = mine.tokens[last] if last >= 0 else 0
    places = np.searchsorted(forecast_at, real_at[:count], side="right") - 1
    waits = [abs(real.waiting[n] - mine.waiting[place]) for n, place in enumerate(places) if place >= 0]
    both = list(zip(real.scheduled, mine.scheduled, strict=False))
    return Check(
        num_steps=count,
        started_late=late,
        identical_steps=next((n for n, (a, b) in enumerate(both) if a != b), len(both)),
        seconds=seconds,
        tokens=tokens,
        tokens_forecast=tokens_forecast,
        tokens_error=abs(tokens_forecast - tokens) / tokens if tokens else 0.0,
        queue_error=float(np.mean(waits)) if waits else 0.0,
        ttft_p50_s=_median(real.ttft_s),
        ttft_forecast_p50_s=_median(mine.ttft_s),
        ttft_count=len(real.ttft_s or ()),
        step_times=_step_times(result.fitted, under),
    )


def _step_times(fitted: Fitted, under: Sequence[EngineSnapshot]) -> HeldOutError | None:
    works, times = timed_steps(under)
    pairs = [(fitted.model.seconds(work), each) for work, each in zip(works, times, strict=True) if each > 0]
    return error_of(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])) if pairs else None


def _median(values: Mapping[str, float] | None) -> float | None:
    return float(np.median(list(values.values()))) if values else None
