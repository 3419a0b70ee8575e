"""Two arms on one trace: what differs, by how much, how sure that is, and what got worse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from experiments.analysis.bootstrap import LEVEL, RESAMPLES, Interval, Method, Plan, draw, interval, make_plan
from experiments.analysis.metrics import METRICS, Counts, Metric, Value, counts, measure_table
from experiments.analysis.ratio import ratio_interval
from experiments.analysis.samples import Bools, Floats, Slo, Table, table
from experiments.analysis.saturation import Saturation, saturation
from experiments.record import Run

Verdict = Literal["better", "worse", "unclear"]

VERDICT_RULE: Final = (
    "better or worse: the interval of the difference excludes 0; unclear: it does not, or there is no interval. Each "
    "metric is judged alone: of many metrics without any difference, 1 in 20 is called better or worse by chance"
)
"""How a verdict comes about, at the usual level of 95 %."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two arms. a, b: mean over the runs of the arm, None without samples.

    count_a, count_b: samples of the run of the arm that has fewest: so many are behind each value of which ``a`` is the
    mean, and a percentile is no better for being repeated.
    difference: b - a in the metric's unit; ratio: b / a, None where a is 0. verdict: of b against a.
    spread_a, spread_b: standard deviation over the runs (n - 1), None for one run.
    """

    metric: str
    a: float | None
    b: float | None
    count_a: int
    count_b: int
    difference: float | None
    difference_interval: Interval | None
    ratio: float | None
    ratio_interval: Interval | None
    verdict: Verdict
    spread_a: float | None
    spread_b: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """One arm of a comparison. counts: one a run; admitted: requests that were ever scheduled, in any run."""

    label: str
    runs: int
    counts: tuple[Counts, ...]
    admitted: int
    saturation: tuple[Saturation, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """b against a. same_requests: both arms were given the same trace.

    admitted_both: requests scheduled in every run of both arms; only_a, only_b: ids scheduled in every run of one arm
    and in no run of the other. different_finished: ids that finished in some runs and not in others, so that latencies
    are not of the same requests. method, resamples, seed: of the intervals (``bootstrap``).
    """

    a: Side
    b: Side
    differences: Mapping[str, Difference]
    same_requests: bool
    admitted_both: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    different_finished: tuple[str, ...]
    method: Method
    resamples: int
    seed: int
    slo: Slo | None

    def named(self, verdict: Verdict) -> tuple[str, ...]:
        """Metrics of one verdict, in the order of ``METRICS``."""
        return tuple(name for name, each in self.differences.items() if each.verdict == verdict)

    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse from a to b."""
        return self.named("worse")


def compare(
    a_runs: Sequence[Run],
    b_runs: Sequence[Run],
    slo: Slo | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Comparison:
    """b against a, over all their runs. Raises ValueError when an arm has none.

    level: of the intervals, 0..1. The same runs and seed give the same result.
    """
    arms = [[table(run) for run in runs] for runs in (a_runs, b_runs)]
    plan = make_plan(arms, resamples=resamples, seed=seed, level=level)
    values = [[measure_table(rows, slo) for rows in arm] for arm in arms]
    drawn = [draw(plan, index, arm, METRICS.values(), slo) for index, arm in enumerate(arms)]
    scheduled = [_ids(arm, lambda rows: ~np.isnan(rows.first_scheduled)) for arm in arms]
    (always_a, ever_a), (always_b, ever_b) = scheduled
    finished = [_ids(arm, lambda rows: rows.finished) for arm in arms]
    everywhere, anywhere = finished[0][0] & finished[1][0], finished[0][1] | finished[1][1]
    return Comparison(
        _side(a_runs, arms[0], len(ever_a)),
        _side(b_runs, arms[1], len(ever_b)),
        {
            name: _difference(metric, plan, [[run[name] for run in arm] for arm in values], drawn)
            for name, metric in METRICS.items()
        },
        len({run.trace_sha256 for run in (*a_runs, *b_runs)}) == 1,
        len(always_a & always_b),
        tuple(sorted(always_a - ever_b)),
        tuple(sorted(always_b - ever_a)),
        tuple(sorted(anywhere - everywhere)),
        plan.method,
        resamples,
        seed,
        slo,
    )


def _ids(arm: Sequence[Table], chosen: Callable[[Table], Bools]) -> tuple[set[str], set[str]]:
    """(ids chosen in every run, ids chosen in some run)."""
    sets = [{rows.ids[index] for index in np.flatnonzero(chosen(rows))} for rows in arm]
    return set.intersection(*sets), set.union(*sets)


def _side(runs: Sequence[Run], arm: Sequence[Table], admitted: int) -> Side:
    return Side(
        runs[0].label,
        len(runs),
        tuple(counts(run) for run in runs),
        admitted,
        tuple(saturation(rows) for rows in arm),
    )


def _difference(
    metric: Metric, plan: Plan, values: Sequence[Sequence[Value]], drawn: Sequence[Mapping[str, Floats]]
) -> Difference:
    """values: of each arm, one a run; drawn: of each arm, its resamples."""
    (a, spread_a), (b, spread_b) = (_mean_and_spread(arm) for arm in values)
    difference = ratio = None
    between: Interval | None = None
    over: Interval | None = None
    if a is not None and b is not None:
        difference, ratio = b - a, b / a if a else None
        if metric.name in drawn[0] and metric.name in drawn[1]:
            of_a, of_b = drawn[0][metric.name], drawn[1][metric.name]
            between = interval(plan, of_b - of_a)
            over = ratio_interval(plan, of_a, of_b) if a else None
    return Difference(
        metric.name,
        a,
        b,
        min(value.count for value in values[0]),
        min(value.count for value in values[1]),
        difference,
        between,
        ratio,
        over,
        verdict(metric, between),
        spread_a,
        spread_b,
    )


def _mean_and_spread(values: Sequence[Value]) -> tuple[float | None, float | None]:
    numbers = [value.value for value in values if value.value is not None]
    if len(numbers) < len(values):
        return None, None
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None


def verdict(metric: Metric, between: Interval | None) -> Verdict:
    """By ``VERDICT_RULE``; between: interval of the change of the metric."""
    if between is None or not between.excludes_zero:
        return "unclear"
    return "better" if (between.low > 0) == (metric.better == "higher") else "worse"
