"""The axis of the distribution curves: where it ends, what lies beyond, and where a time stands on it. Pure.

One long tail must not press all curves into the left edge. A logarithmic axis holds everything, to the longest sample.
An even one ends behind the bulk, and the chart says of each epoch how many samples lie beyond and how long the longest
is.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.life_tables import ticks
from dashboard.samples import EDGES, QUANTILES, Spread, needed

LOG, EVEN = "log", "even"
SURE: Final = 90
"""An even axis does not end before this percentile of an epoch, where so many samples carry it that two lie beyond."""
BULK, WIDTHS_OF_BULK = 75, 2
"""Otherwise an even axis ends at twice the percentile below which three quarters lie: a few samples, however long,
do not move it."""
MAX_DECADES: Final = 4
"""Of a logarithmic axis: waiting times begin at some microseconds."""
ALL_LABELLED, FINE_LABELLED = 1.0, 2.4
"""Decades up to which all of EDGES, and up to which 1, 2 and 5, get a label; beyond, only powers of ten."""


@dataclass(frozen=True, slots=True)
class Axis:
    """low, high: milliseconds at its ends, each one of EDGES (low is 0 on an even axis)."""

    low: float
    high: float
    is_log: bool

    @property
    def length(self) -> float:
        """The place of its end; its beginning is 0."""
        return self.at(self.high)

    def at(self, ms: float) -> float:
        """The place of a time that lies on the axis."""
        return math.log10(ms / self.low) if self.is_log else ms

    def ticks(self) -> list[tuple[float, str]]:
        """Places of the rules, and what to write there."""
        if not self.is_log:
            return [(1000 * x, text) for x, text in ticks(0.0, self.high / 1000)]
        marks = [edge for edge in EDGES if self.low <= edge <= self.high]
        if self.length > ALL_LABELLED:
            marks = [edge for edge in marks if _digit(edge) in (1.0, 2.0, 5.0)]
        every = self.length <= FINE_LABELLED
        return [(self.at(m), short_ms(m) if every or _digit(m) == 1.0 else "") for m in marks]


def _digit(edge: float) -> float:
    """1.5 of 0.15, 1.5, 15 ...: what an edge is times a power of ten."""
    return float(f"{edge:e}".partition("e")[0])


def short_ms(ms: float) -> str:
    """A time in few characters: "7.2 ms", "14.2 s"."""
    value, unit = (ms / 1000, "s") if ms >= 1000 else (ms, "ms")
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _edge_from(ms: float) -> float:
    """The least of EDGES that is at least ``ms``; the last for more."""
    return EDGES[min(bisect_left(EDGES, ms * (1 - 1e-9)), len(EDGES) - 1)]


def _edge_to(ms: float) -> float:
    """The largest of EDGES that is at most ``ms``; the first for less."""
    return EDGES[max(bisect_right(EDGES, ms * (1 + 1e-9)) - 1, 0)]


def bulk_end(spread: Spread) -> float:
    """How far an even axis must reach for these samples."""
    told = spread.values[QUANTILES.index(SURE)]
    sure = told if told is not None and spread.kept >= 2 * needed(SURE) else 0.0
    return min(spread.longest, max(sure, WIDTHS_OF_BULK * spread.curve[BULK]))


def axis_of(spreads: Sequence[Spread], scale: str) -> Axis:
    """For the curves of several epochs. scale: LOG or EVEN."""
    there = [spread for spread in spreads if spread.curve]
    if not there:
        return Axis(1.0, 1000.0, True) if scale == LOG else Axis(0.0, 1000.0, False)
    if scale == EVEN:
        return Axis(0.0, _edge_from(max(map(bulk_end, there))), False)
    high = _edge_from(max(EDGES[1], *(spread.longest for spread in there)))
    low = max(_edge_to(min(spread.curve[0] for spread in there)), _edge_to(high / 10**MAX_DECADES))
    return Axis(low if low < high else _edge_to(high / 2), high, True)


def share_at(curve: Sequence[float], ms: float) -> float:
    """Percent of the samples that are at most ``ms`` long, on the line through the percentiles."""
    after = bisect_right(curve, ms)
    if after == 0:
        return 0.0
    if after == len(curve):
        return float(after - 1)
    before = curve[after - 1]
    return after - 1 + (ms - before) / (curve[after] - before)


def on_axis(curve: Sequence[float], axis: Axis) -> list[tuple[float, float]]:
    """(milliseconds, percent) of a curve where the axis shows it. It is cut at the ends, at the height it has there."""
    inside = [(ms, float(q)) for q, ms in enumerate(curve) if axis.low <= ms <= axis.high]
    left = [(axis.low, share_at(curve, axis.low))] if curve and curve[0] < axis.low < curve[-1] else []
    right = [(axis.high, share_at(curve, axis.high))] if curve and curve[0] < axis.high < curve[-1] else []
    return left + inside + right
