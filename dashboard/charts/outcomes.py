"""Charts of what two arms, or four decisions, differ in: rows of bars with their numbers written beside them."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.parts import data, from_row, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate

ROW_PX: Final = 25
NAME_PX: Final = 178
TEXT_PX: Final = 330
AXIS_PX: Final = 18
NUM_DIFFERENCES: Final = 12
NUM_SHARES: Final = 6
VERDICTS: Final = ("better", "worse", "unclear", "level")
"""Place in a column ``v``; "level" is a plain bar that is no change."""

LEDGER_ROW_PX: Final = 26
LEDGER_NAME_PX: Final = 190
LEDGER_TOTAL_PX: Final = 150
PARTS: Final = {
    "prefill": N_("prefill"), "decode": N_("decode"), "useful": N_("useful"), "recompute": N_("recompute"),
    "padding": N_("padding"), "idle_slots": N_("idle slots"), "swap": N_("copies"), "engine": N_("scheduling"),
    "other": N_("other"), "idle": N_("idle"), "filled": N_("filled"), "reserved": N_("reserved"),
    "internal": N_("block ends"), "external": N_("gaps"), "free": N_("free"),
}  # fmt: skip
"""Parts of the waste ledger, and what they are called in a bar."""
GROUPS: Final = {"tokens": N_("tokens"), "seconds": N_("time"), "memory": N_("memory x time")}
"""Its wholes, in the order of the chart."""
COUNTS: Final = {"swapped_blocks": N_("blocks copied"), "preemptions": N_("preemptions")}
"""Its lines beside those."""

PIXELS: Final = {"type": "quantitative", "scale": None, "axis": None}


def inks(theme: Theme) -> list[str]:
    """A colour for each of ``VERDICTS``."""
    return [theme.green, theme.red, theme.amber, theme.decode]


def _x(field: str, scale: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None, **({"scale": scale} if scale else {})}


def _frame(left: int, right: int) -> Any:
    """Invisible; states the horizontal scale, from the only row of the data set "frame"."""
    scale = {
        "domain": [from_row("frame", "lo", 0), from_row("frame", "hi", 1)], "nice": False, "zero": False,
        "range": [left, {"expr": f"width-{right}"}], "clamp": True,
    }  # fmt: skip
    base = alt.Chart(data("frame")).mark_rule(opacity=0)
    return base.encode(x=_x("hi", scale), y={"value": 0}, y2={"value": 1})


def _axis(theme: Theme, left: int, right: int) -> Any:
    """Where there is little room, as on a zoomed chart, only every second tick or fewer is named, from the middle."""
    named = f"width - {left + right} > 260 || abs(datum.i - ceil(datum.c / 2)) % (floor((datum.c - 1) / 4) + 1) == 0"
    text = (
        alt.Chart(data("ticks"))
        .transform_window(i="row_number()")
        .transform_joinaggregate(c="count()")
        .transform_filter(named)
        .mark_text(fontSize=11, color=theme.muted, baseline="middle")
    )
    return alt.layer(_frame(left, right), text.encode(x=_x("x"), y={"value": 9}, text="t:N")).properties(height=AXIS_PX)


def _rows(theme: Theme, num_rows: int, marks: list[Any], left: int = NAME_PX, right: int = TEXT_PX) -> dict[str, Any]:
    """Names at the left, ``marks`` in the middle over guides, the text of each row at the right."""
    height = ROW_PX * num_rows
    grid = alt.Chart(data("ticks")).mark_rule(color=theme.grid).encode(x=_x("x"))
    zero = alt.Chart(data("frame")).mark_rule(color=theme.ink, strokeWidth=1.5).encode(x=_x("z"))
    base = placed(data("rows"), theme)
    names = base.mark_text(align="right", fontSize=12, color=theme.ink, baseline="middle")
    words = base.mark_text(align="left", fontSize=12, baseline="middle")
    layers = [
        _frame(left, right), grid, zero, *marks,
        names.encode(x={"value": left - 10}, y={"field": "mid", **PIXELS}, text="n:N"),
        words.encode(
            x={"value": {"expr": f"width-{right - 12}"}}, y={"field": "mid", **PIXELS}, text="t:N", color=raw("tc")
        ),
    ]  # fmt: skip
    top = alt.layer(*layers).properties(height=height)
    both = alt.vconcat(top, _axis(theme, left, right), spacing=2).resolve_scale(x="shared")
    spec: dict[str, Any] = both.to_dict(validate=False)
    return spec


def placed(source: Any, theme: Theme) -> Any:
    """Rows with their pixels and the colour of their verdict."""
    return alt.Chart(source).transform_calculate(
        mid=f"(datum.r + 0.5) * {ROW_PX}", top=f"datum.r * {ROW_PX} + 4", low=f"(datum.r + 1) * {ROW_PX} - 4",
        c=f"{json.dumps(inks(theme))}[datum.v]", tc=f"{json.dumps([*inks(theme)[:3], theme.ink])}[datum.v]",
    )  # fmt: skip


def _tips(t: Translate) -> list[Any]:
    return [alt.Tooltip("n:N", title=t("number")), alt.Tooltip("t:N", title=t("change"))]


def differences(theme: Theme, t: Translate) -> dict[str, Any]:
    """Change of each metric in per cent of the baseline, with its interval. Data sets: ``tables.difference_data``."""
    base = placed(data("rows"), theme)
    where = {"y": {"field": "mid", **PIXELS}, "color": raw("c"), "tooltip": _tips(t)}
    spans = base.transform_filter("isValid(datum.lo)").mark_rule(strokeWidth=5, opacity=0.55)
    ends = base.transform_filter("isValid(datum.m)").mark_point(filled=True, size=75, opacity=1, shape="diamond")
    return _rows(theme, NUM_DIFFERENCES, [spans.encode(x=_x("lo"), x2="hi", **where), ends.encode(x=_x("m"), **where)])


def shares(theme: Theme, t: Translate) -> dict[str, Any]:
    """From the baseline to all four decisions, each share begins where the one before ended. Data sets:
    ``tables.share_data``."""
    base = placed(data("rows"), theme)
    bars = base.mark_rect(opacity=0.85).encode(
        x=_x("lo"), x2="hi", y={"field": "top", **PIXELS}, y2="low", fill=raw("c"), tooltip=_tips(t)
    )
    links = (
        base.transform_filter(f"datum.r < {NUM_SHARES - 1}")
        .transform_calculate(next=f"(datum.r + 1) * {ROW_PX} + 4")
        .mark_rule(color=theme.muted, strokeDash=[2, 2])
    )
    return _rows(theme, NUM_SHARES, [bars, links.encode(x=_x("m"), y={"field": "low", **PIXELS}, y2="next")], left=270)


def part_fills(theme: Theme) -> dict[str, str]:
    """The colour of each part of a ledger: work in greys, waste in red, amber and stripes of their own."""
    return {
        "prefill": theme.prefill, "decode": theme.decode, "useful": theme.decode, "recompute": theme.red,
        "padding": theme.amber, "idle_slots": theme.line2, "swap": theme.accent, "engine": theme.accent,
        "other": theme.padding, "idle": theme.grid, "filled": theme.decode, "reserved": theme.amber,
        "internal": theme.padding, "external": theme.red, "free": theme.grid,
    }  # fmt: skip


def ledger(theme: Theme, t: Translate) -> dict[str, Any]:
    """Tokens, seconds and memory of both arms, each bar divided by what it went to. Data sets:
    ``tables.ledger_data``."""
    fills = part_fills(theme)
    names = list(PARTS)
    light = {theme.prefill, theme.grid, theme.amber, theme.red, theme.accent, theme.padding, theme.line2}
    on = [theme.ink if fills[n] == theme.grid else theme.background if fills[n] in light else "#ffffff" for n in names]
    words = [t(PARTS[name]) for name in names]
    bars = alt.Chart(data("bars")).transform_calculate(
        top=f"datum.r * {LEDGER_ROW_PX} + 3 + 10 * floor(datum.r / 2)",
        low=f"(datum.r + 1) * {LEDGER_ROW_PX} - 3 + 10 * floor(datum.r / 2)",
        mid=f"(datum.r + 0.5) * {LEDGER_ROW_PX} + 10 * floor(datum.r / 2)",
        f=f"{json.dumps([fills[n] for n in names])}[datum.k]",
        c=f"{json.dumps(on)}[datum.k]",
        w=f"{json.dumps(words, ensure_ascii=False)}[datum.k]",
        q="format(datum.p, '.0%')",
        l="datum.e - datum.x > 0.14 ? datum.w + ' ' + datum.q : datum.e - datum.x > 0.055 ? datum.q : ''",
    )
    rects = bars.mark_rect(stroke=theme.background, strokeWidth=1).encode(
        x=_x("x"), x2="e", y={"field": "top", **PIXELS}, y2="low", fill=raw("f"),
        tooltip=[
            alt.Tooltip("w:N", title=t("what for")),
            alt.Tooltip("p:Q", title=t("share"), format=".1%"),
            alt.Tooltip("n:N", title=t("how much")),
        ],
    )  # fmt: skip
    inside = (
        bars.transform_filter("datum.l != ''")
        .mark_text(align="left", dx=5, fontSize=11, baseline="middle")
        .encode(x=_x("x"), y={"field": "mid", **PIXELS}, text="l:N", color=raw("c"))
    )
    heads = alt.Chart(data("names")).transform_calculate(
        mid=f"(datum.r + 0.5) * {LEDGER_ROW_PX} + 10 * floor(datum.r / 2)"
    )
    left = heads.mark_text(align="right", fontSize=12, color=theme.ink, baseline="middle")
    right = heads.mark_text(align="left", fontSize=12, color=theme.muted, baseline="middle")
    layers = [
        _frame(LEDGER_NAME_PX, LEDGER_TOTAL_PX), rects, inside,
        left.encode(x={"value": LEDGER_NAME_PX - 8}, y={"field": "mid", **PIXELS}, text="n:N"),
        right.encode(
            x={"value": {"expr": f"width-{LEDGER_TOTAL_PX - 8}"}}, y={"field": "mid", **PIXELS}, text="t:N"
        ),
    ]  # fmt: skip
    chart = alt.layer(*layers).properties(height=LEDGER_ROW_PX * 6 + 24)
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec
