"""Epochs as the charts and tables show them. Pure: a summary in, Arrow bytes and words out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from dashboard.arrow import F32, I8, TEXT, rows
from dashboard.epoch_rows import EpochSummary, Summary
from dashboard.epochs import PURPOSES
from dashboard.i18n import N_, Translate
from dashboard.samples import ROUND, Spread
from dashboard.spread_axis import Axis, axis_of, on_axis, share_at, short_ms
from dashboard.values import told

SHOWN_EPOCHS: Final = 5
"""Side by side at most; the table of epochs has all that are kept."""
NAME_CHARS: Final = 72
GUIDES: Final = (0, 50, 90, 95, 100)
LABEL_AT: Final = (45, 60, 72, 82, 30)
"""Where on its curve the name of each epoch stands, in percent: names of like curves do not lie upon each other."""
NAME_END: Final = 0.96
"""No name stands nearer to the end of the axis than this share of it: it would reach out of the chart."""
SHORT: Final = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "queue": N_("Queue time"), "e2e": N_("End to end")}
"""What is measured, in a word or two."""
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
    return next(size * f for f in (*ROUND, 10) if size * f >= value * (1 - 1e-9))


def spread_data(
    epochs: Sequence[EpochSummary], metric: str, t: Translate, *, whole_only: bool, scale: str
) -> dict[str, bytes]:
    """curves: x place on the axis, q percent, e place of the epoch (0 = the newest), v milliseconds. names: where each
    curve's name stands. notes: what lies beyond the axis, a line an epoch, i counted from below.

    frame: hi = end of the axis, t what is measured. ticks, guides: rules with their labels. scale: LOG or EVEN.
    """
    spreads = [epoch.spreads[metric, whole_only] for epoch in epochs]
    axis = axis_of(spreads, scale)
    named = list(zip(spreads, labels(epochs), strict=True))
    curves = [
        (axis.at(ms), q, place, ms) for place, spread in enumerate(spreads) for ms, q in on_axis(spread.curve, axis)
    ]
    names = [
        (*_name_at(spread, axis, LABEL_AT[place]), place, name) for place, (spread, name) in enumerate(named)
        if spread.curve
    ]  # fmt: skip
    notes = [text for spread, name in reversed(named) if (text := _beyond(spread, axis, name, t))]
    return {
        "curves": rows({"x": F32, "q": F32, "e": I8, "v": F32}, curves),
        "names": rows({"x": F32, "q": F32, "e": I8, "t": TEXT}, names),
        "notes": rows({"i": I8, "t": TEXT}, list(enumerate(notes))),
        "frame": rows({"hi": F32, "t": TEXT}, [(axis.length, t(SHORT[metric]))]),
        "ticks": rows({"x": F32, "t": TEXT}, axis.ticks()),
        "guides": rows({"q": F32, "t": TEXT}, [(q, "" if q == 95 else f"{q}%") for q in GUIDES]),
    }


def _name_at(spread: Spread, axis: Axis, wanted: int) -> tuple[float, float]:
    """Where on its curve a name stands: at ``wanted`` percent, or where the curve leaves the axis before that."""
    ms = min(max(spread.curve[wanted], axis.low), axis.high)
    at = share_at(spread.curve, ms) if ms != spread.curve[wanted] else float(wanted)
    return min(axis.at(ms), NAME_END * axis.length), at


def _beyond(spread: Spread, axis: Axis, name: str, t: Translate) -> str:
    """What the axis does not show of an epoch; "" when it shows all."""
    beyond = spread.num_beyond(axis.high)
    if not beyond:
        return ""
    return t("{name}: {n} of {all} beyond {end}, the longest {longest}", name=name, n=f"{beyond:,}",
             all=f"{spread.n:,}", end=short_ms(axis.high), longest=short_ms(spread.longest))  # fmt: skip


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
