"""Epochs as the charts and tables show them. Pure: a summary in, Arrow bytes and words out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dashboard.arrow import F32, I8, TEXT, rows
from dashboard.epoch_rows import EpochSummary, Summary
from dashboard.epochs import PURPOSES
from dashboard.i18n import Translate
from dashboard.life_tables import ticks
from dashboard.samples import QUANTILES, Spread
from dashboard.values import told

SHOWN_EPOCHS: Final = 5
"""Side by side at most; the table of epochs has all that are kept."""
NAME_CHARS: Final = 72
GUIDES: Final = (0, 50, 90, 95, 100)
LABEL_AT: Final = (45, 60, 72, 82, 30)
"""Where on its curve the name of each epoch stands, in percent: names of like curves do not lie upon each other."""
SHARES, TOKENS = "shares", "tokens"


def shown(summary: Summary | None) -> list[EpochSummary]:
    """The newest epochs in which anything was computed, the newest first."""
    worked = [epoch for epoch in summary.epochs if epoch.steps] if summary else []
    return worked[: -SHOWN_EPOCHS - 1 : -1]


def changes_words(epoch: EpochSummary, t: Translate) -> str:
    """What changed: "chunk 512 → 128; ..."."""
    parts = [f"{name} {told(name, old, t)} → {told(name, new, t)}" for name, old, new in epoch.changes]
    text = "; ".join(parts) or t("as the engine was found")
    return text if len(text) <= NAME_CHARS else text[: NAME_CHARS - 1] + "…"


def labels(epochs: Sequence[EpochSummary]) -> list[str]:
    """Short names: the policy version, and the epoch's number where two have the same (after a restart)."""
    seen = Counter(epoch.version for epoch in epochs)
    return [f"v{e.version}" + (f" ({e.serial})" if seen[e.version] > 1 else "") for e in epochs]


def ceiling(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 5, 7 times a power of ten: the end of an axis that does not move with each sample."""
    if value <= 0:
        return 1.0
    size = 1e-6
    while size * 10 < value:
        size *= 10
    return next(size * f for f in (1, 1.5, 2, 3, 5, 7, 10) if size * f >= value * (1 - 1e-9))


def axis_end(spreads: Sequence[Spread]) -> float:
    """Milliseconds: beyond the largest p99; beyond the largest sample where there is no p99."""
    ends = [s.values[QUANTILES.index(99)] or s.curve[-1] for s in spreads if s.curve]
    return ceiling(max(ends, default=1.0))


def spread_data(epochs: Sequence[EpochSummary], metric: str, *, whole_only: bool) -> dict[str, bytes]:
    """curves: x ms, q percent, e place of the epoch (0 = the newest). names: where each curve's name stands.

    frame: hi = end of the axis. ticks, guides: rules with their labels. A curve is cut at the end of the axis.
    """
    spreads = [epoch.spreads[metric, whole_only] for epoch in epochs]
    high = axis_end(spreads)
    curves = [
        (min(x, high), q, place)
        for place, spread in enumerate(spreads)
        for q, x in enumerate(spread.curve)
        if x <= high or q == 0 or spread.curve[q - 1] <= high
    ]
    names = [
        (min(spread.curve[LABEL_AT[place]], high), LABEL_AT[place], place, name)
        for place, (spread, name) in enumerate(zip(spreads, labels(epochs), strict=True))
        if spread.curve
    ]
    return {
        "curves": rows({"x": F32, "q": F32, "e": I8}, curves),
        "names": rows({"x": F32, "q": F32, "e": I8, "t": TEXT}, names),
        "frame": rows({"hi": F32}, [(high,)]),
        "ticks": rows({"x": F32, "t": TEXT}, _ms_ticks(high)),
        "guides": rows({"q": F32, "t": TEXT}, [(q, "" if q == 95 else f"{q}%") for q in GUIDES]),
    }


def _ms_ticks(high: float) -> list[tuple[float, str]]:
    return [(1000 * x, text) for x, text in ticks(0.0, high / 1000)]


def tokens_data(epochs: Sequence[EpochSummary], unit: str) -> dict[str, bytes]:
    """bars: x, e from, to (percent, or tokens); r row, k index into PURPOSES, n tokens, p share. names: r row, t name,
    s total. frame: hi. ticks: x with its label."""
    bars, names = [], []
    totals = [sum(epoch.counts[name] for name in PURPOSES) for epoch in epochs]
    high = 100.0 if unit == SHARES else ceiling(float(max(totals, default=1)))
    for row, (epoch, total, name) in enumerate(zip(epochs, totals, labels(epochs), strict=True)):
        names.append((row, name, f"{total:,}"))
        at = 0.0
        for kind, purpose in enumerate(PURPOSES):
            count = epoch.counts[purpose]
            if not count:
                continue
            share = count / total
            wide = 100 * share if unit == SHARES else float(count)
            bars.append((at, at + wide, row, kind, f"{count:,}", share))
            at += wide
    steps = [(high * i / 4) for i in range(5)]
    marks = [(x, f"{x:.0f}%" if unit == SHARES else f"{x:,.0f}") for x in steps]
    return {
        "bars": rows({"x": F32, "e": F32, "r": I8, "k": I8, "n": TEXT, "p": F32}, bars),
        "names": rows({"r": I8, "t": TEXT, "s": TEXT}, names),
        "frame": rows({"hi": F32}, [(high,)]),
        "ticks": rows({"x": F32, "t": TEXT}, marks),
    }
