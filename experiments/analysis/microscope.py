"""The chunk microscope: what the size of prefill chunks does to long prompts, and to all others meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from experiments.analysis.bootstrap import LEVEL, RESAMPLES, Interval, Method, draw_sample, interval, make_plan
from experiments.analysis.samples import Floats, Ints, Sample, Table, table
from experiments.record import Run

MIN_POINTS: Final = 4
MIN_BEND: Final = 0.1
SPREAD: Final = (0.05, 0.95)

RULE: Final = (
    "knee: both axes are scaled to 0..1 over the points, the chord joins the smallest and the largest chunk, and the "
    "knee is the point farthest below it. There is none when fewer than 4 sizes were measured, when one axis does not "
    "change, when the chord does not trade one time for the other, when the farthest point is under 0.1 from the "
    "chord, or when the middle 90 % of the resamples find it over more than a third of the sizes (two are always "
    "allowed)"
)
"""``knee`` in words: the distance to the chord of Satopaa et al., "Finding a 'Kneedle' in a Haystack", ICDCSW 2011."""


@dataclass(frozen=True, slots=True)
class Point:
    """One chunk size. chunk_tokens: tokens of a prefill one step may compute.

    long_ttft_s: median TTFT of the long prompts; others_itl_p99_s: p99 of all token gaps of the other requests. Means
    over the runs of the size; None without samples. Intervals are cut at 0, below which no time lies: what is cut away
    was not possible, so they hold the true value as often as before. long_count, gap_count: samples of the run that has
    fewest.
    """

    chunk_tokens: int
    runs: int
    long_ttft_s: float | None
    long_ttft_interval: Interval | None
    long_count: int
    others_itl_p99_s: float | None
    others_itl_interval: Interval | None
    gap_count: int


@dataclass(frozen=True, slots=True)
class Knee:
    """chunk_tokens: where the knee is, None = no knee. why_none: the reason, "" where there is one.

    bend: largest distance below the chord, in the scaled square. agreement: share of the resamples that have their
    farthest point at that same size; low_tokens, high_tokens: sizes between which the middle 90 % of them have it. None
    without resamples.
    """

    chunk_tokens: int | None
    bend: float
    agreement: float | None = None
    low_tokens: int | None = None
    high_tokens: int | None = None
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class Microscope:
    """Points by rising chunk size. long_tokens: prompts of at least so many tokens count as long."""

    points: tuple[Point, ...]
    knee: Knee
    long_tokens: int
    method: Method


def chunk_of(run: Run) -> int:
    """Tokens of one prefill a step may compute under the run's policy: the budget, or the threshold below it."""
    budget, threshold = run.policy.max_num_batched_tokens, run.policy.long_prefill_token_threshold
    return min(budget, threshold) if threshold else budget


def default_long_tokens(runs: Iterable[Run]) -> int:
    """The 90th percentile of all prompt lengths, rounded up to a length that occurs."""
    lengths = [row.prompt_len for run in runs for row in run.requests]
    if not lengths:
        raise ValueError("runs have no requests, expected at least 1 to tell long prompts from others")
    return int(np.quantile(lengths, 0.9, method="higher"))


def microscope(
    runs: Iterable[Run],
    long_tokens: int | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Microscope:
    """Long-prompt TTFT against the others' ITL over the chunk sizes of the runs, which share one trace.

    long_tokens: None = ``default_long_tokens``. Raises ValueError when there is no run, a run does not chunk, or no
    prompt, or every prompt, is long.
    """
    by_size: dict[int, list[Run]] = {}
    for run in runs:
        if not run.policy.enable_chunked_prefill:
            raise ValueError(
                f"enable_chunked_prefill is False in the run {run.label!r}, expected True: it has no chunks"
            )
        by_size.setdefault(chunk_of(run), []).append(run)
    every = [run for size in sorted(by_size) for run in by_size[size]]
    limit = default_long_tokens(every) if long_tokens is None else long_tokens
    _refuse_limit(every, limit)
    arms = [[table(run) for run in by_size[size]] for size in sorted(by_size)]
    plan = make_plan(arms, resamples=resamples, seed=seed, level=level)
    points: list[Point] = []
    drawn: list[tuple[Floats | None, Floats | None]] = []
    for index, (size, arm) in enumerate(zip(sorted(by_size), arms, strict=True)):
        samples = [_split(rows, limit) for rows in arm]
        long, gaps = [each[0] for each in samples], [each[1] for each in samples]
        made = draw_sample(plan, index, arm, long, [0.5]), draw_sample(plan, index, arm, gaps, [0.99])
        drawn.append((None if made[0] is None else made[0][0], None if made[1] is None else made[1][0]))
        ends = [None if each is None else _above_0(interval(plan, each, arms=1)) for each in drawn[-1]]
        points.append(
            Point(size, len(arm), _mean(long, 0.5), ends[0], _count(long), _mean(gaps, 0.99), ends[1], _count(gaps))
        )
    return Microscope(tuple(points), _knee(points, drawn), limit, plan.method)


def _refuse_limit(runs: Sequence[Run], limit: int) -> None:
    lengths = [row.prompt_len for run in runs for row in run.requests]
    long = sum(length >= limit for length in lengths)
    if not 0 < long < len(lengths):
        raise ValueError(
            f"long_tokens is {limit} and {long} of {len(lengths)} prompts are that long, expected some but not all"
        )


def _split(rows: Table, limit: int) -> tuple[Sample, Sample]:
    """(TTFT of the long prompts, token gaps of the others)."""
    long = np.flatnonzero(rows.finished & (rows.prompt >= limit) & ~np.isnan(rows.first_token))
    others = (rows.prompt < limit)[rows.gap_owner]
    return (
        Sample((rows.first_token - rows.due)[long], long),
        Sample(rows.gaps[others], rows.gap_owner[others]),
    )


def _mean(samples: Sequence[Sample], quantile: float) -> float | None:
    if not all(len(each.values) for each in samples):
        return None
    return float(np.mean([np.quantile(each.values, quantile) for each in samples]))


def _count(samples: Sequence[Sample]) -> int:
    return min(len(each.values) for each in samples)


def _above_0(between: Interval | None) -> Interval | None:
    return between and replace(between, low=max(0.0, between.low), high=max(0.0, between.high))


def _knee(points: Sequence[Point], drawn: Sequence[tuple[Floats | None, Floats | None]]) -> Knee:
    x = np.array([np.nan if point.long_ttft_s is None else point.long_ttft_s for point in points])
    y = np.array([np.nan if point.others_itl_p99_s is None else point.others_itl_p99_s for point in points])
    below, why = distance_below_chord(x, y)
    if why:
        return Knee(None, 0.0, why_none=why)
    index = int(np.argmax(below))
    bend = float(below[index])
    if bend < MIN_BEND:
        return Knee(None, bend, why_none=f"the curve bends by {bend:.2f} at most, under {MIN_BEND}")
    found = _found_at(drawn)
    if not len(found):
        return Knee(points[index].chunk_tokens, bend)
    first, last = (int(np.quantile(found, part, method="nearest")) for part in SPREAD)
    low, high, agreement = points[first].chunk_tokens, points[last].chunk_tokens, float(np.mean(found == index))
    if last - first + 1 > max(2, len(points) // 3):
        return Knee(None, bend, agreement, low, high, f"the resamples find it anywhere from {low} to {high} tokens")
    return Knee(points[index].chunk_tokens, bend, agreement, low, high)


def _found_at(drawn: Sequence[tuple[Floats | None, Floats | None]]) -> Ints:
    """Index of the point that each resample has farthest below its chord; those without a chord are left out."""
    pairs = [(x, y) for x, y in drawn if x is not None and y is not None]
    if len(pairs) < len(drawn):
        return np.empty(0, dtype=np.int64)
    xs, ys = np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])
    found = [distance_below_chord(xs[:, k], ys[:, k]) for k in range(xs.shape[1])]
    return np.array([int(np.argmax(below)) for below, why in found if not why], dtype=np.int64)


def distance_below_chord(x: Floats, y: Floats) -> tuple[Floats, str]:
    """(distance of each point below the chord from the first to the last, why there is none or "").

    x, y: shape (points,), in any unit; scaled to 0..1 by their ranges. Points above the chord are negative. Distances
    are perpendicular, so at most sqrt(1/2).
    """
    none = np.zeros(len(x))
    if len(x) < MIN_POINTS:
        return none, f"{len(x)} chunk sizes, expected at least {MIN_POINTS}"
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return none, "a chunk size has no sample"
    ranges = np.ptp(x), np.ptp(y)
    if not all(ranges):
        return none, "one of the axes does not change over the chunk sizes"
    u, v = (x - x.min()) / ranges[0], (y - y.min()) / ranges[1]
    along, across = u[-1] - u[0], v[-1] - v[0]
    if along * across >= 0:
        return none, "from the smallest to the largest chunk neither time is traded for the other"
    # Below means towards the corner where both times are short, whichever way the chord runs.
    side = np.sign(_cross(along, across, -u[0], -v[0]))
    return side * _cross(along, across, u - u[0], v - v[0]) / float(np.hypot(along, across)), ""


def _cross(along: float, across: float, u: Floats | float, v: Floats | float) -> Floats:
    return np.asarray(along * v - across * u)
