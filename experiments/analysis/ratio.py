"""The interval of a ratio, which says the same as that of the difference."""

from __future__ import annotations

import math

import numpy as np

from experiments.analysis.bootstrap import Interval, Plan, interval, reach_of
from experiments.analysis.samples import Floats


def ratio_interval(plan: Plan, of_a: Floats, of_b: Floats) -> Interval | None:
    """That of b / a: 1 lies outside where 0 lies outside of ``interval`` of b - a.

    of_a, of_b: figures of two arms in every resample, >= 0, each of shape (resamples,). None where there is none of
    the difference, or where a may be 0: then no ratio is too large.
    """
    reach = reach_of(plan)
    if not plan.by_spread or reach is None:
        return interval(plan, of_b / of_a) if np.all(of_a) else None
    return _fieller(of_a, of_b, reach, plan.level) if np.isfinite(of_a).all() and np.isfinite(of_b).all() else None


def _fieller(a: Floats, b: Floats, reach: float, level: float) -> Interval | None:
    """Every ratio r >= 0 for which 0 lies within mean +- ``reach`` x standard deviation of b - r a.

    Fieller, "Some problems in interval estimation", Journal of the Royal Statistical Society B 16 (1954).
    """
    scale = float(a.mean())
    if scale <= 0:
        return None
    over_a, shared, _, over_b = (reach * reach * np.cov(a / scale, b / scale, ddof=0)).ravel().tolist()
    first, point = 1.0 - over_a, float(b.mean()) / scale
    if first <= 0:
        return None
    middle = point - shared
    root = math.sqrt(max(0.0, middle * middle - first * (point * point - over_b)))
    return Interval(max(0.0, (middle - root) / first), max(0.0, (middle + root) / first), level)
