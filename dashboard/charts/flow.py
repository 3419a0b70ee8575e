"""The waiting queue and the running set, one row a request."""

from __future__ import annotations

import json
from typing import Any

import altair as alt

from dashboard.charts.parts import HUE, INK_ON, data, number, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import Translate
from dashboard.state_tables import QUEUE_ROWS
from dashboard.words import DEFER_SHORT
from scheduler import DEFER_REASONS

QUEUE_HEIGHT = 164
RUNNING_HEIGHT = 198
WIDE = {"domain": [0, 100], "nice": False}


def _at(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None, "scale": WIDE}


def _queue_y(field: str) -> dict[str, Any]:
    scale = {"domain": [0, QUEUE_ROWS], "reverse": True, "nice": False}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def _edge(theme: Theme) -> str:
    return f"datum.m < 0 ? {json.dumps(theme.other)} : ({HUE})"


def _ring(theme: Theme, y: dict[str, Any]) -> Any:
    """A ring around the row of the chosen request (data set "chosen": its row i, or none)."""
    base = alt.Chart(data("chosen")).transform_calculate(lo="datum.i + 0.02", hi="datum.i + 0.98")
    mark = base.mark_rect(fillOpacity=0, stroke=theme.ink, strokeWidth=1.5)
    return mark.encode(x={"value": 0}, x2={"value": "width"}, y={**y, "field": "lo"}, y2="hi")


def queue(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: queue, chosen. Bars: tokens to compute (square root); the words: who, how long, why not yet."""
    reasons = [t(DEFER_SHORT[reason]) for reason in DEFER_REASONS]
    base = alt.Chart(data("queue")).transform_calculate(
        k0="0",
        k100="100",
        a="datum.i + 0.06",
        b="datum.i + 0.94",
        mid="datum.i + 0.5",
        hue=_edge(theme),
        w0="min(100, sqrt(datum.n) * 3)",
        left=f"datum.t + '  ' + format(datum.n, ',') + {json.dumps(' ' + t('tok'))}",
        right=f"format(datum.w, '.1f') + ' s  ' + (datum.q < 0 ? '' : {json.dumps(reasons)}[datum.q])",
    )
    bars = base.mark_rect(color=theme.empty, opacity=0.45).encode(
        x=_at("k0"), x2="w0", y=_queue_y("a"), y2="b", tooltip=[alt.Tooltip("r:N", title=t("request"))]
    )
    edge = (
        base.transform_calculate(w1="1.2")
        .mark_rect()
        .encode(x=_at("k0"), x2="w1", y=_queue_y("a"), y2="b", fill=raw("hue"))
    )
    text: dict[str, Any] = {"baseline": "middle"}
    left = base.mark_text(align="left", dx=8, fontSize=12, **text).encode(x=_at("k0"), y=_queue_y("mid"), text="left:N")
    right = base.mark_text(align="right", dx=-2, color=theme.muted, fontSize=11, **text).encode(
        x=_at("k100"), y=_queue_y("mid"), text="right:N"
    )
    ring = _ring(theme, _queue_y("a"))
    spec: dict[str, Any] = (
        alt.layer(bars, edge, left, right, ring).properties(height=QUEUE_HEIGHT).to_dict(validate=False)
    )
    return spec


def running(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: running, chosen. A row: letter, id, blocks; bar: prompt computed (full), output (lighter), goal.

    Above eight rows a row is one line: words, a shorter bar, numbers.
    """
    y = {
        "type": "quantitative",
        "axis": None,
        "scale": {"reverse": True, "nice": False, "zero": True},
    }
    stack = "(datum.rows > 8 ? 27 : 88) * min(1, {0} / datum.g) + (datum.rows > 8 ? 34 : 11)"
    base = (
        alt.Chart(data("running"))
        .transform_joinaggregate(rows="count()")
        .transform_calculate(
            k0="0",
            k4="4.25",
            a="datum.i + 0.08",
            b="datum.i + 0.9",
            bar="datum.i + (datum.rows > 8 ? 0.2 : 0.62)",
            mid="datum.i + 0.5",
            up="datum.i + (datum.rows > 8 ? 0.52 : 0.34)",
            hue=HUE,
            ink=INK_ON,
            fo="datum.m > 7 ? 0.15 : 1",
            o2="datum.m > 7 ? 0.1 : 0.6",
            k11="11",
            p0="datum.rows > 8 ? 34 : 11",
            p1=stack.format("min(datum.c, datum.p)"),
            p2=stack.format("datum.p"),
            p3=stack.format("max(datum.c, min(datum.c, datum.p))"),
            p4="datum.rows > 8 ? 61 : 99",
            k99="99",
            chip="8.5",
            left="datum.t + (datum.h ? ' ❚❚' : '')",
            right=f"format(datum.c, ',') + '/' + format(datum.g, ',') + '  ' + datum.z + {json.dumps(' ' + t('blk'))}",
        )
    )
    floor = (
        alt.Chart(data("running"))
        .transform_aggregate(n="count()")
        .transform_calculate(e="max(8, datum.n)", z="0", k0="0")
    )
    span = floor.mark_rule(opacity=0).encode(x=_at("k0"), y={"field": "z", **y}, y2="e")

    def bar(low: str, high: str, opacity: Any, **mark: Any) -> Any:
        return base.mark_rect(**mark).encode(
            x=_at(low),
            x2=high,
            y={"field": "bar", **y},
            y2="b",
            fill=raw("hue"),
            fillOpacity=opacity,
            stroke=raw("hue"),
        )

    outline = base.mark_rect(fillOpacity=0.08, strokeWidth=1).encode(
        x=_at("p0"), x2="p4", y={"field": "bar", **y}, y2="b", fill=raw("hue"), stroke=raw("hue")
    )
    chips = base.mark_rect(cornerRadius=2).encode(
        x=_at("k0"), x2="chip", y={"field": "a", **y}, y2="b",
        fill=raw("hue"), fillOpacity=number("fo"), stroke=raw("hue"),
        tooltip=[alt.Tooltip("r:N", title=t("request")), alt.Tooltip("o:Q", title=t("output tokens"))],
    )  # fmt: skip
    letters = base.mark_text(baseline="middle", fontSize=13, fontWeight=700).encode(
        x=_at("k4"), y={"field": "mid", **y}, text="l:N", color=raw("ink")
    )
    goal = base.mark_rule(color=theme.ink, strokeWidth=1.5).encode(x=_at("p2"), y={"field": "bar", **y}, y2="b")
    left = base.mark_text(align="left", baseline="middle", fontSize=12).encode(
        x=_at("k11"), y={"field": "up", **y}, text="left:N"
    )
    right = base.mark_text(align="right", baseline="middle", fontSize=11, color=theme.muted).encode(
        x=_at("k99"), y={"field": "up", **y}, text="right:N"
    )
    ring = _ring(theme, y)
    parts = [
        span,
        outline,
        bar("p0", "p1", number("fo")),
        bar("p2", "p3", number("o2")),
        goal,
        chips,
        letters,
        left,
        right,
    ]
    spec: dict[str, Any] = alt.layer(*parts, ring).properties(height=RUNNING_HEIGHT).to_dict(validate=False)
    return spec
