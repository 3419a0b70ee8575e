"""Fits the prices of a step to measured steps, and says how well it predicts steps it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from experiments.virtual.cost import KNOTS, FittedCost
from experiments.virtual.work import StepWork

Floats = NDArray[np.float64]

MIN_STEPS: Final = 30
"""Fewer measured steps are not fitted."""

FOLDS: Final = 5
ROUNDS: Final = 6
OUTLIER_FACTOR: Final = 5.0
"""A step that took this many times its prediction was disturbed from outside, and counts in no sum."""


class FitError(ValueError):
    """The steps cannot be fitted; the message says why."""


@dataclass(frozen=True, slots=True)
class HeldOutError:
    """How far predictions of steps that were not fitted are off, as shares (0.05 = 5 %).

    The steps are cut into five stretches of time; each is predicted by a model fitted to the other four.
    median_step, mean_step: of the absolute errors of single steps. total_time: the absolute errors of the five
    stretches' total times, summed, over the time of all. num_steps: predicted. num_outliers: steps above
    ``OUTLIER_FACTOR`` times their prediction, left out of total_time.
    """

    median_step: float
    mean_step: float
    total_time: float
    num_steps: int
    num_outliers: int

    def describe(self) -> str:
        """One line."""
        return (
            f"held-out error over {self.num_steps} steps: a step {100 * self.median_step:.1f} % (median), "
            f"{100 * self.mean_step:.1f} % (mean); total time {100 * self.total_time:.1f} %"
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model fitted to all steps, and the error of models fitted to a part of them on the rest."""

    model: FittedCost
    held_out_error: HeldOutError


def features(works: Sequence[StepWork]) -> Floats:
    """One row a step, one column a term of ``cost.TERMS``."""
    table = np.asarray(works, dtype=np.float64).reshape(len(works), len(StepWork._fields))
    tokens = table[:, :4].sum(axis=1)
    chunk = tokens != table[:, 1]
    over = [np.maximum(0.0, tokens - knot) for knot in KNOTS]
    return np.column_stack(
        [np.ones(len(works)), tokens, *over, table[:, 5], table[:, 4], chunk, table[:, 6] * chunk, table[:, 7]]
    )


def non_negative(matrix: Floats, target: Floats) -> Floats:
    """x >= 0 with the least |matrix @ x - target| (Lawson and Hanson, Solving Least Squares Problems, chapter 23)."""
    count = matrix.shape[1]
    scale = np.sqrt((matrix**2).sum(axis=0))
    scaled = matrix / np.where(scale > 0, scale, 1.0)
    x, free = np.zeros(count), np.zeros(count, dtype=bool)
    for _ in range(10 * count):
        gradient = scaled.T @ (target - scaled @ x)
        gradient[free | (scale == 0)] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-10 * max(1e-300, float(np.linalg.norm(target))):
            break
        free[best] = True
        x = _inner(scaled, target, x, free)
    return x / np.where(scale > 0, scale, 1.0)


def _inner(matrix: Floats, target: Floats, x: Floats, free: NDArray[np.bool_]) -> Floats:
    """Go to the least squares of the free columns as far as nothing becomes negative; ``free`` shrinks on the way."""
    while True:
        trial = np.zeros_like(x)
        trial[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
        negative = free & (trial <= 0)
        if not negative.any():
            return trial
        shares = x[negative] / np.maximum(x[negative] - trial[negative], 1e-300)
        x = x + float(shares.min()) * (trial - x)
        free &= x > 1e-12 * max(1e-300, float(x.max()))
        x[~free] = 0.0
        if not free.any():
            return x


def robust(matrix: Floats, seconds: Floats) -> Floats:
    """Non-negative prices that single disturbed steps do not move, with the right sum over the undisturbed ones.

    Weighted by 1 / time, between equal weight for each step and for each second. Residuals above 2.5 deviations count
    less (Huber, Annals of Mathematical Statistics 35, 1964); the deviation is 1.4826 x their median. As the time lost
    to noise is real, all prices are then scaled so that the steps that are no outliers sum up to what was measured.
    """
    by_time = 1.0 / np.sqrt(np.maximum(seconds, 0.1 * np.median(seconds)))
    weights = np.ones(len(seconds))
    prices = np.zeros(matrix.shape[1])
    for _ in range(ROUNDS):
        each = by_time * np.sqrt(weights)
        prices = non_negative(matrix * each[:, None], seconds * each)
        residuals = np.abs((seconds - matrix @ prices) * by_time)
        deviation = 1.4826 * float(np.median(residuals))
        if deviation <= 0:
            break
        weights = np.minimum(1.0, 2.5 * deviation / np.maximum(residuals, 1e-300))
    predicted = matrix @ prices
    normal = (seconds <= OUTLIER_FACTOR * predicted) & (predicted > 0)
    return prices * float(seconds[normal].sum() / predicted[normal].sum()) if normal.any() else prices


def fit(works: Sequence[StepWork], seconds: Sequence[float], source: str) -> Fitted:
    """Fit the steps that computed something. seconds: wall seconds of each. source: what they are, for people.

    Raises FitError for fewer than ``MIN_STEPS`` such steps.
    """
    kept = [
        (work, each)
        for work, each in zip(works, seconds, strict=True)
        if each > 0 and (work.tokens or work.moved_blocks)
    ]
    if len(kept) < MIN_STEPS:
        raise FitError(f"steps: {len(kept)} computed something and were timed, at least {MIN_STEPS} are needed")
    matrix = features([work for work, _ in kept])
    target = np.array([each for _, each in kept])
    prices = robust(matrix, target)
    model = FittedCost(tuple(float(price) for price in prices), f"{len(kept)} steps of {source}")
    return Fitted(model, _held_out(matrix, target))


def _held_out(matrix: Floats, seconds: Floats) -> HeldOutError:
    predicted = np.zeros(len(seconds))
    stretches = np.array_split(np.arange(len(seconds)), FOLDS)
    for stretch in stretches:
        others = np.ones(len(seconds), dtype=bool)
        others[stretch] = False
        predicted[stretch] = matrix[stretch] @ robust(matrix[others], seconds[others])
    return error_of(predicted, seconds, stretches)


def error_of(predicted: Floats, seconds: Floats, stretches: Sequence[NDArray[np.int_]] | None = None) -> HeldOutError:
    """Compare predictions with measured times; without stretches all steps are one."""
    shares = np.abs(predicted - seconds) / seconds
    normal = seconds <= OUTLIER_FACTOR * np.maximum(predicted, 1e-300)
    off = 0.0
    for stretch in stretches or [np.arange(len(seconds))]:
        inside = stretch[normal[stretch]]
        off += abs(float(predicted[inside].sum() - seconds[inside].sum()))
    total = float(seconds[normal].sum())
    return HeldOutError(
        float(np.median(shares)),
        float(shares.mean()),
        off / total if total else float("inf"),
        len(seconds),
        int((~normal).sum()),
    )
