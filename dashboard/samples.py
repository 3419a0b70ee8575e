"""Samples of one kind, kept in bounded memory, and what is told of them. Pure."""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from dashboard.figures import percentile

CAPACITY: Final = 2_000
QUANTILES: Final = (50, 90, 95, 99)
CURVE_POINTS: Final = 101
ROUND: Final = (1, 1.5, 2, 3, 5, 7)
"""Times a power of ten: where an axis can end."""
EDGES: Final = tuple(float(f"{f}e{p}") for p in range(-3, 8) for f in ROUND)
"""Milliseconds at which an axis can end. How many samples lie beyond each is counted as they come, so that it is told
exactly, of all samples and not of those that are kept."""


def needed(q: float) -> int:
    """Samples a percentile needs, so that at least one of them is expected to lie beyond it: 2, 10, 20, 100."""
    return math.ceil(round(1 / (1 - q / 100), 6))


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds. n: samples there were; kept: samples the rest is computed from; spanning: of n, those that began or
    ended under another policy.

    values: one for each of QUANTILES, None where ``kept`` is less than ``needed``. curve: the percentiles 0, 1 .. 100,
    the last of all n, () without a sample. longest: of all n, 0 without a sample. beyond: how many of all n are longer
    than each of EDGES.
    """

    n: int
    kept: int
    spanning: int
    values: tuple[float | None, ...]
    curve: tuple[float, ...]
    longest: float
    beyond: tuple[int, ...]

    def num_beyond(self, edge: float) -> int:
        """Samples longer than ``edge``, which is one of EDGES."""
        return self.beyond[EDGES.index(edge)]


@dataclass(slots=True)
class _Tally:
    """Of samples that came, those that are not kept included. longest: milliseconds.

    up_to: how many lie between each of EDGES and the one before it; the last, beyond them all.
    """

    up_to: list[int]
    longest: float = 0.0

    def add(self, ms: float) -> None:
        self.up_to[bisect_left(EDGES, ms)] += 1
        self.longest = max(self.longest, ms)


def _spread(n: int, spanning: int, ordered: Sequence[float], tallies: Sequence[_Tally]) -> Spread:
    kept = len(ordered)
    places = [sum(counts) for counts in zip(*(tally.up_to for tally in tallies), strict=True)]
    beyond = tuple(n - below for below in accumulate(places[:-1]))
    longest = max(tally.longest for tally in tallies)
    values = tuple(1000 * percentile(ordered, q) if kept >= needed(q) else None for q in QUANTILES)
    last = CURVE_POINTS - 1
    curve = (*(1000 * percentile(ordered, 100 * i / last) for i in range(last)), longest) if ordered else ()
    return Spread(n, kept, spanning, values, curve, longest, beyond)


class Reservoir:
    """Algorithm R (Vitter, "Random sampling with a reservoir", ACM TOMS 1985): at any time each sample that came has
    the same chance to be among the ``capacity`` that are kept. All are kept up to that many. The same samples in the
    same order give the same choice.
    """

    __slots__ = ("_capacity", "_rng", "_spans", "_tallies", "_values", "n", "spanning")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._values = array("d")
        self._spans = bytearray()
        self._tallies = tuple(_Tally([0] * (len(EDGES) + 1)) for _ in (False, True))
        self._rng = random.Random(capacity)
        self.n = self.spanning = 0

    def add(self, value: float, *, spans: bool) -> None:
        """Take a sample in seconds. spans: it does not lie under one policy alone."""
        self.n += 1
        self.spanning += spans
        self._tallies[spans].add(1000 * value)
        if len(self._values) < self._capacity:
            self._values.append(value)
            self._spans.append(spans)
            return
        at = self._rng.randrange(self.n)
        if at < self._capacity:
            self._values[at] = value
            self._spans[at] = spans

    def spread(self, *, whole_only: bool) -> Spread:
        """As of now. whole_only: without the samples that span."""
        if not whole_only:
            return _spread(self.n, self.spanning, sorted(self._values), self._tallies)
        whole = sorted(value for value, spans in zip(self._values, self._spans, strict=True) if not spans)
        return _spread(self.n - self.spanning, 0, whole, self._tallies[:1])
