"""Student's t distribution for whole degrees of freedom, without a library of statistics."""

from __future__ import annotations

import math
from functools import lru_cache


def cdf(t: float, freedom: int) -> float:
    """P(T <= t), by the finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    theta = math.atan2(abs(t), math.sqrt(freedom))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 or not odd else 0.0
    for k in range(1, (freedom - 1) // 2 if odd else freedom // 2):
        term *= cosine * cosine * (2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))
        total += term
    inside = 2 / math.pi * (theta + sine * total) if odd else sine * total
    return 0.5 + math.copysign(inside / 2, t)


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: int) -> float:
    """The t with ``cdf(t) == probability``, 0.5 <= probability < 1, by bisection. Raises ValueError outside of that."""
    if not 0.5 <= probability < 1 or freedom < 1:
        raise ValueError(f"probability is {probability!r} and freedom {freedom!r}, expected 0.5 to below 1 and >= 1")
    low, high = 0.0, 1.0
    while cdf(high, freedom) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2
