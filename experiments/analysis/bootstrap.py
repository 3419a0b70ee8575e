"""Intervals by resampling: over repeats where there are enough, else over blocks of requests or of time.

The rule, for all arms of one comparison alike:

- at least ``MIN_REPEATS`` runs in every arm: whole runs are drawn with replacement, in each
  arm for itself ("repeats"); simulated repeats that are the same to the last digit count as one;
- fewer: blocks of requests that follow each other are drawn, the same blocks in every arm and run, since all arms
  have the same requests ("requests"). Neighbours share queues, so single requests would make intervals too narrow:
  circular blocks of ceil(n^(1/3)) (Politis and Romano 1992; length by Hall, Horowitz and Jing, Biometrika 1995).
  Rates have no sample of requests: the run is cut into ``WINDOWS`` windows of time, and blocks of those are drawn in
  each run for itself. With 2 to 4 runs an arm, runs are drawn too, and since so few cannot show the ends of a
  distribution, the interval is mean +- t x standard error of the resamples, for the number of runs.

Other ends are expanded percentiles: those of a plain percentile interval are too narrow for small n by the factor
sqrt((n-1)/n) and for using a normal distribution (Hesterberg, "What Teachers Should Know About the Bootstrap",
The American Statistician 69, 2015). Everything is drawn from one seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from experiments.analysis import student
from experiments.analysis.metrics import Metric
from experiments.analysis.samples import FAMILIES, Floats, Ints, Sample, Slo, Table, moments

MIN_REPEATS: Final = 5
WINDOWS: Final = 60
RESAMPLES: Final = 1000
LEVEL: Final = 0.95
_BUCKETS: Final = 256
"""Parts into which sorted samples are cut to find percentiles of resamples."""

Method = Literal["repeats", "requests"]


@dataclass(frozen=True, slots=True)
class Interval:
    """low <= high, at ``level`` (0..1)."""

    low: float
    high: float
    level: float = LEVEL

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Plan:
    """How the arms of one comparison are resampled.

    runs: that are used of each arm; one, the first, where all repeats are the same. units: what is drawn: runs, or
    blocks of requests. request_weights: shape (resamples, requests), how often each request is drawn; None where the
    arms do not have the same requests, and under "repeats".
    """

    method: Method
    runs: tuple[int, ...]
    units: int
    resamples: int
    seed: int
    level: float
    request_weights: Ints | None

    @property
    def by_spread(self) -> bool:
        """Whether intervals are mean +- t x standard error: 2 to 4 runs an arm."""
        return self.method == "requests" and min(self.runs) > 1


def make_plan(
    arms: Sequence[Sequence[Table]], *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> Plan:
    """The rule of this module for these arms. Raises ValueError for an arm without runs or a level outside 0..1."""
    if not arms or not all(arms):
        raise ValueError(f"arms have {[len(arm) for arm in arms]} runs, expected at least 1 in each")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level is {level!r} and resamples {resamples!r}, expected 0 < level < 1 and resamples >= 1")
    runs = (1,) * len(arms) if all(_identical(arm) for arm in arms) else tuple(len(arm) for arm in arms)
    if min(runs) >= MIN_REPEATS:
        return Plan("repeats", runs, min(runs), resamples, seed, level, None)
    first = arms[0][0]
    same = all(rows.ids == first.ids for arm in arms for rows in arm)
    count = len(first.ids)
    weights = circular_blocks(count, resamples, np.random.default_rng([seed, 1])) if same and count else None
    return Plan("requests", runs, num_blocks(min(len(rows.ids) for arm in arms for rows in arm)), resamples, seed,
                level, weights)  # fmt: skip


def _identical(arm: Sequence[Table]) -> bool:
    """A simulated run repeats to the last digit: its repeats say nothing about spread."""
    first = arm[0]
    return all(
        rows.wall_s == first.wall_s
        and np.array_equal(rows.first_token, first.first_token, equal_nan=True)
        and np.array_equal(rows.gaps, first.gaps)
        for rows in arm
    )


def block_length(count: int) -> int:
    """Units that are drawn together, of ``count``."""
    return max(1, math.ceil(math.cbrt(count) - 1e-9))


def num_blocks(count: int) -> int:
    """Blocks drawn for one resample of ``count`` units."""
    return math.ceil(count / block_length(count)) if count else 0


def circular_blocks(count: int, resamples: int, generator: np.random.Generator) -> Ints:
    """Weights of shape (resamples, count): how often each unit is drawn; a block runs on past the end at the start."""
    starts = generator.integers(count, size=(resamples, num_blocks(count)))
    members = (starts[:, :, None] + np.arange(block_length(count))) % count
    flat = members.reshape(resamples, -1) + np.arange(resamples)[:, None] * count
    return np.bincount(flat.ravel(), minlength=resamples * count).reshape(resamples, count)


def draw(
    plan: Plan, arm: int, tables: Sequence[Table], metrics: Iterable[Metric], slo: Slo | None = None
) -> dict[str, Floats]:
    """Metrics of one arm in every resample, each of shape (resamples,): means over its runs.

    A metric that some run has no sample for is left out.
    """
    tables = tables[: plan.runs[arm]]
    drawn: dict[str, Floats] = {}
    families: dict[str, list[Metric]] = {}
    for metric in metrics:
        if metric.stat != "rate":
            families.setdefault(metric.family, []).append(metric)
        elif (rates := _draw_rate(plan, arm, tables, metric, slo)) is not None:
            drawn[metric.name] = rates
    for family, members in families.items():
        samples = [FAMILIES[family](rows, slo) for rows in tables]
        made = draw_sample(plan, arm, tables, samples, [metric.quantile for metric in members])
        if made is not None:
            drawn |= {metric.name: made[index] for index, metric in enumerate(members)}
    return drawn


def _draw_rate(plan: Plan, arm: int, tables: Sequence[Table], metric: Metric, slo: Slo | None) -> Floats | None:
    parts = [moments(rows, metric.family, slo) for rows in tables]
    if any(len(times) == 0 or rows.wall_s <= 0 for (times, _), rows in zip(parts, tables, strict=True)):
        return None
    if plan.method == "repeats":
        rates = [amounts.sum() / rows.wall_s for (_, amounts), rows in zip(parts, tables, strict=True)]
        drawn = _over_repeats(plan, arm, np.array([rates]))
    else:
        made = [_windows(plan, arm, run, rows, *parts[run])[None] for run, rows in enumerate(tables)]
        drawn = _two_stages(plan, arm, np.stack(made))
    return drawn.reshape(-1)


def draw_sample(
    plan: Plan, arm: int, tables: Sequence[Table], samples: Sequence[Sample], quantiles: Sequence[float | None]
) -> Floats | None:
    """``draw`` for samples of one's own, one a run; shape (quantiles, resamples), None as a quantile = the mean.

    None where a run has no sample.
    """
    tables, samples = tables[: plan.runs[arm]], samples[: plan.runs[arm]]
    if not all(len(sample.values) for sample in samples):
        return None
    if plan.method == "repeats":
        return _over_repeats(plan, arm, np.array([[_plain(each.values, q) for each in samples] for q in quantiles]))
    made: list[Floats] = []
    for run, (rows, sample) in enumerate(zip(tables, samples, strict=True)):
        weights = plan.request_weights
        if weights is None:
            weights = circular_blocks(len(rows.ids), plan.resamples, np.random.default_rng([plan.seed, 2, arm, run]))
        made.append(weighted(sample, weights, quantiles))
    return _two_stages(plan, arm, np.stack(made))


def _plain(values: Floats, quantile: float | None) -> float:
    return float(values.mean() if quantile is None else np.quantile(values, quantile))


def _over_repeats(plan: Plan, arm: int, values: Floats) -> Floats:
    """values: (figures, runs) -> (figures, resamples): means of runs drawn with replacement."""
    runs = values.shape[1]
    picks = np.random.default_rng([plan.seed, 3, arm]).integers(runs, size=(plan.resamples, runs))
    means: Floats = values[:, picks].mean(axis=2)
    return means


def _two_stages(plan: Plan, arm: int, made: Floats) -> Floats:
    """made: (runs, figures, resamples) -> (figures, resamples): runs are drawn too, each with its own resamples."""
    runs, _, resamples = made.shape
    picks = np.random.default_rng([plan.seed, 3, arm]).integers(runs, size=(runs, resamples))
    means: Floats = made.transpose(1, 0, 2)[:, picks, np.arange(resamples)].mean(axis=1)
    return means


def _windows(plan: Plan, arm: int, run: int, rows: Table, times: Floats, amounts: Floats) -> Floats:
    """A rate in every resample: blocks of windows of time."""
    windows, _ = np.histogram(times, bins=WINDOWS, range=(0.0, rows.wall_s), weights=amounts)
    weights = circular_blocks(WINDOWS, plan.resamples, np.random.default_rng([plan.seed, 4, arm, run]))
    rates: Floats = (weights @ windows) / weights.sum(axis=1) * WINDOWS / rows.wall_s
    return rates


def weighted(sample: Sample, request_weights: Ints, quantiles: Sequence[float | None]) -> Floats:
    """Percentiles, or the mean (None), of a sample whose values count as often as their request.

    Shape (quantiles, resamples): each as ``np.quantile`` of the values repeated so often. NaN where no request of the
    sample was drawn.
    """
    found: Floats = np.full((len(quantiles), len(request_weights)), np.nan)
    cuts = np.array([q for q in quantiles if q is not None])
    if None in quantiles:
        found[list(quantiles).index(None)] = _weighted_mean(sample, request_weights)
    if len(cuts):
        found[[index for index, q in enumerate(quantiles) if q is not None]] = _weighted_cuts(
            sample, request_weights, cuts
        )
    return found


def _weighted_mean(sample: Sample, request_weights: Ints) -> Floats:
    requests = request_weights.shape[1]
    sums = np.bincount(sample.owner, weights=sample.values, minlength=requests)
    total = request_weights @ np.bincount(sample.owner, minlength=requests)
    means: Floats = np.divide(request_weights @ sums, total, out=np.full(len(total), np.nan), where=total > 0)
    return means


def _weighted_cuts(sample: Sample, request_weights: Ints, cuts: Floats) -> Floats:
    """Sorted values are counted by buckets in one matrix product; only the bucket of a percentile is looked through."""
    order = np.argsort(sample.values, kind="stable")
    values, owner = sample.values[order], sample.owner[order]
    resamples, requests = request_weights.shape
    width = math.ceil(len(values) / _BUCKETS)
    buckets = math.ceil(len(values) / width)
    cells = owner * buckets + np.arange(len(values)) // width
    held = np.bincount(cells, minlength=requests * buckets).reshape(requests, buckets)
    counts = np.cumsum(request_weights.astype(np.float64) @ held, axis=1)
    totals = counts[:, -1]
    found: Floats = np.full((len(cuts), resamples), np.nan)
    for index, cut in enumerate(cuts):
        places = np.maximum(totals - 1, 0) * cut
        below, above = (
            _value_at(values, owner, request_weights, counts, edge(places), width) for edge in (np.floor, np.ceil)
        )
        found[index] = np.where(totals > 0, below + (above - below) * (places % 1), np.nan)
    return found


def _value_at(values: Floats, owner: Ints, request_weights: Ints, counts: Floats, places: Floats, width: int) -> Floats:
    """In each resample the value at a place of the repeated values. counts: up to and with each bucket, (resamples,
    buckets); places: whole numbers from 0, (resamples,)."""
    rows = np.arange(len(places))
    bucket = np.minimum((counts <= places[:, None]).sum(axis=1), counts.shape[1] - 1)
    before = np.where(bucket > 0, counts[rows, bucket - 1], 0.0)
    inside = bucket[:, None] * width + np.arange(width)
    real = np.minimum(inside, len(values) - 1)
    weights = np.where(inside == real, request_weights[rows[:, None], owner[real]], 0)
    passed = before[:, None] + np.cumsum(weights, axis=1) > places[:, None]
    picked: Floats = values[real[rows, passed.argmax(axis=1)]]
    return picked


def interval(plan: Plan, drawn: Floats, arms: int = 2) -> Interval | None:
    """The expanded percentile interval of a figure made from ``arms`` arms.

    None where a resample has no value, or where there is only one unit to draw.
    """
    reach = reach_of(plan, arms)
    if reach is None or not np.isfinite(drawn).all():
        return None
    if plan.by_spread:
        middle, error = float(drawn.mean()), float(drawn.std())
        return Interval(middle - reach * error, middle + reach * error, plan.level)
    tail = NormalDist().cdf(-reach)
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Interval(float(low), float(high), plan.level)


def reach_of(plan: Plan, arms: int = 2) -> float | None:
    """Standard errors from the middle of an interval to its ends; None where there is only one unit to draw."""
    by_run = plan.method == "repeats" or plan.by_spread
    units = min(plan.runs) if by_run else plan.units
    if units < 2:
        return None
    freedom = arms * (units - 1) if by_run else units - 1
    return math.sqrt(units / (units - 1)) * student.quantile((1 + plan.level) / 2, freedom)
