"""Quantiles of very many values in little memory, with a stated error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

RELATIVE_ERROR: Final = 0.005
"""A quantile is off by at most this share of the value at its rank (half a bin)."""

LOWEST: Final = 1e-6
HIGHEST: Final = 1e9
_BINS_PER_E: Final = 1.0 / math.log1p(2 * RELATIVE_ERROR)
_NUM_BINS: Final = math.ceil(math.log(HIGHEST / LOWEST) * _BINS_PER_E) + 1


@dataclass(frozen=True, slots=True)
class Spread:
    """What is left of a stream of values. p50 .. p99 within ``RELATIVE_ERROR``, the others exact; 0.0 without any."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    smallest: float = 0.0
    largest: float = 0.0


class LogHistogram:
    """Counts of values >= 0 in bins whose edges grow by 1 %: some 3,500 integers whatever is added.

    Values below ``LOWEST`` (0 among them) are counted as 0, those above ``HIGHEST`` as ``HIGHEST``. Two histograms
    merge without further error.
    """

    __slots__ = ("_bins", "_largest", "_smallest", "_sum", "_zeros")

    def __init__(self) -> None:
        self._bins = [0] * _NUM_BINS
        self._zeros = 0
        self._sum = 0.0
        self._smallest, self._largest = math.inf, -math.inf

    def add(self, value: float, count: int = 1) -> None:
        """Count a value so many times. Raises ValueError for one below 0 or not a number."""
        if value < LOWEST:
            if value < 0:
                raise ValueError(f"value is {value!r}, expected a number of at least 0")
            self._zeros += count
        elif value != value:
            raise ValueError("value is not a number")
        else:
            self._bins[min(_NUM_BINS - 1, int(math.log(value / LOWEST) * _BINS_PER_E))] += count
        self._sum += value * count
        self._smallest, self._largest = min(self._smallest, value), max(self._largest, value)

    def merge(self, other: LogHistogram) -> None:
        """Add all that the other has counted."""
        self._bins = [a + b for a, b in zip(self._bins, other._bins, strict=True)]
        self._zeros += other._zeros
        self._sum += other._sum
        self._smallest, self._largest = min(self._smallest, other._smallest), max(self._largest, other._largest)

    @property
    def count(self) -> int:
        """Values so far."""
        return self._zeros + sum(self._bins)

    def quantile(self, share: float) -> float:
        """The value at rank ceil(share x count) of all, in the middle of its bin; 0.0 without values."""
        count = self.count
        if not count:
            return 0.0
        rank = max(1, math.ceil(share * count))
        if rank <= self._zeros:
            return 0.0
        index = int(np.searchsorted(np.cumsum(self._bins) + self._zeros, rank))
        middle = LOWEST * math.exp((index + 0.5) / _BINS_PER_E)
        return min(max(middle, self._smallest), self._largest)

    def spread(self) -> Spread:
        """The summary."""
        count = self.count
        if not count:
            return Spread()
        p50, p90, p99 = (self.quantile(share) for share in (0.5, 0.9, 0.99))
        return Spread(count, self._sum / count, p50, p90, p99, self._smallest, self._largest)
