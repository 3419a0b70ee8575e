"""Charts with two measured axes: the chunk microscope, the goodput plane, and a race of forecasts."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.axis import haloed
from dashboard.charts.parts import data, number, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import Translate

HEIGHT: Final = 300
RACE_HEIGHT: Final = 170
Y: Final = {"tickCount": 4, "minExtent": 46}
RACE_SERIES: Final = 3
"""The real run, the forecast under the policy in force, and the forecast under the other."""


def _axis(theme: Theme, title: str, **extra: Any) -> dict[str, Any]:
    return {
        "title": title, "labels": True, "grid": True, "gridColor": theme.grid, "labelColor": theme.muted,
        "titleColor": theme.muted, "titleFontWeight": "normal", "tickCount": 6, **extra,
    }  # fmt: skip


def microscope(theme: Theme, t: Translate) -> dict[str, Any]:
    """A point a chunk size: what long prompts wait against what the others do. Data set "points" has the columns
    ``x, x1, x2, y, y1, y2`` in ms, ``n`` the size, ``k`` 1 at the knee."""
    points = alt.Chart(data("points"))
    long = _axis(theme, t("long prompts: median TTFT (ms)"))
    others = _axis(theme, t("the others: ITL p99 (ms)"))
    x = {"field": "x", "type": "quantitative", "axis": long, "scale": {"zero": False, "padding": 24}}
    y = {"field": "y", "type": "quantitative", "axis": others, "scale": {"zero": False, "padding": 24}}
    tips = [
        alt.Tooltip("n:N", title=t("chunk size (tokens)")),
        alt.Tooltip("x:Q", title=t("long prompts: median TTFT (ms)"), format=",.1f"),
        alt.Tooltip("y:Q", title=t("the others: ITL p99 (ms)"), format=",.1f"),
    ]
    line = points.mark_line(color=theme.line2, strokeWidth=1.5).encode(x=x, y=y, order="o:Q")
    across = points.mark_rule(color=theme.line, opacity=0.6).encode(x={**x, "field": "x1"}, x2="x2", y=y, tooltip=tips)
    upright = points.mark_rule(color=theme.line, opacity=0.6).encode(x=x, y={**y, "field": "y1"}, y2="y2", tooltip=tips)
    dots = points.mark_point(filled=True, size=80, color=theme.accent, opacity=1).encode(x=x, y=y, tooltip=tips)
    ring = (
        points.transform_filter("datum.k == 1")
        .mark_point(size=420, strokeWidth=3, color=theme.amber, filled=False, opacity=1)
        .encode(x=x, y=y)
    )
    names = haloed(theme, points.encode(x=x, y=y, text="t:N"), align="left", dx=10, dy=-10, fontSize=12)
    layers = [line, across, upright, dots, ring, *names]
    chart = alt.layer(*layers).properties(height=HEIGHT)
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec


def goodput_plane(theme: Theme, t: Translate) -> dict[str, Any]:
    """Who has more goodput at which limits. Data sets: see ``tables.plane_data``; limits in ms on log scales."""
    fills = json.dumps([theme.amber, theme.grid, theme.accent])
    ttft, tpot = _axis(theme, t("TTFT at most (ms)")), _axis(theme, t("TPOT at most (ms)"))

    scale = {"type": "log", "nice": False}
    x = {"field": "x", "type": "quantitative", "axis": ttft, "scale": scale}
    y = {"field": "y", "type": "quantitative", "axis": tpot, "scale": scale}
    cells = alt.Chart(data("cells")).transform_calculate(
        f=f"{fills}[datum.w + 1]", o="datum.w == 0 ? 0.55 : 0.25 + 0.75 * datum.s"
    )
    rects = cells.mark_rect(strokeWidth=0).encode(
        x=x, x2="x2", y=y, y2="y2", fill=raw("f"), fillOpacity=number("o"),
        tooltip=[
            alt.Tooltip("x2:Q", title=t("TTFT at most (ms)"), format=",.1f"),
            alt.Tooltip("y2:Q", title=t("TPOT at most (ms)"), format=",.1f"),
            alt.Tooltip("a:Q", title=t("baseline, good / s"), format=".3f"),
            alt.Tooltip("b:Q", title=t("the other arm, good / s"), format=".3f"),
        ],
    )  # fmt: skip
    contour = alt.Chart(data("contour")).mark_rule(color=theme.ink, strokeWidth=2.5).encode(x=x, x2="x2", y=y, y2="y2")
    here = alt.Chart(data("here"))
    marks = [
        here.mark_rule(color=theme.ink, strokeDash=[4, 3]).encode(x=x),
        here.mark_rule(color=theme.ink, strokeDash=[4, 3]).encode(y=y),
    ]
    signs = haloed(theme, alt.Chart(data("signs")).encode(x=x, y=y, text="t:N"), fontSize=13)
    chart = alt.layer(rects, contour, *marks, *signs).properties(height=HEIGHT)
    spec: dict[str, Any] = chart.to_dict(validate=False)
    return spec


def race(theme: Theme, t: Translate, field: str) -> dict[str, Any]:
    """Tokens delivered ("a") or requests waiting ("b") since the fork. Data set "lines": ``s`` series, ``x`` seconds,
    ``a``, ``b``; "names": where each line ends and what it is called."""
    strokes = [(theme.accent, 3.0, [1, 0]), (theme.muted, 2.0, [7, 3]), (theme.ink, 2.0, [2, 3])]
    title = t("tokens delivered since the fork") if field == "a" else t("requests waiting")
    bottom = _axis(theme, "" if field == "a" else t("seconds since the fork"))
    x = {"field": "x", "type": "quantitative", "axis": bottom, "scale": {"zero": True, "padding": 10}}
    y = {"field": field, "type": "quantitative", "axis": _axis(theme, title, format=",.0f", tickMinStep=1, **Y)}
    layers = []
    for place in reversed(range(RACE_SERIES)):
        ink, width, dash = strokes[place]
        base = alt.Chart(data("lines")).transform_filter(f"datum.s == {place}")
        mark = base.mark_line(color=ink, strokeWidth=width, strokeDash=dash, interpolate="step-after")
        layers.append(mark.encode(x=x, y=y, order="x:Q"))
    if field == "a":  # queues often end at the same number, where names would lie upon each other
        ends = alt.Chart(data("names")).encode(x=x, y=y, text="t:N")
        layers += haloed(theme, ends, align="right", dx=-4, dy=-9, fontSize=12)
    spec: dict[str, Any] = alt.layer(*layers).properties(height=RACE_HEIGHT).to_dict(validate=False)
    return spec
