"""The waiting queue and the running set, one row a request."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.parts import HUE, INK_ON, data, number, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate
from dashboard.state_tables import QUEUE_ROWS
from dashboard.words import DEFER_SHORT
from scheduler import DEFER_REASONS

QUEUE_HEIGHT: Final = 148
RUNNING_HEIGHT: Final = 198
PAGED_SIGN: Final = "▦"
"""A waiting request that would be let in were blocks given out page by page."""
QUEUE_TIPS: Final = {
    "r": N_("request"),
    "why": N_("why it waits"),
    "needs": N_("blocks: needed / free"),
    "by": N_("blocked by"),
    "fits": N_("would fit under paged"),
    "h": N_("blocks in the host pool"),
}
RUNNING_TIPS: Final = {"r:N": N_("request"), "o:Q": N_("output tokens"), "s:Q": N_("tokens from the prefix cache")}
WIDE: Final = {"domain": [0, 100], "nice": False}


def _at(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None, "scale": WIDE}


def _ring(theme: Theme, y: dict[str, Any]) -> Any:
    """A ring around the row of the chosen request (data set "chosen": its row i, or none)."""
    base = alt.Chart(data("chosen")).transform_calculate(lo="datum.i + 0.02", hi="datum.i + 0.98")
    mark = base.mark_rect(fillOpacity=0, stroke=theme.ink, strokeWidth=1.5)
    return mark.encode(x={"value": 0}, x2={"value": "width"}, y={**y, "field": "lo"}, y2="hi")


def _row_y(top: Any) -> dict[str, Any]:
    """Rows from the top; ``top``: how many there are, a number or an expression."""
    scale = {"domain": [0, top], "reverse": True, "nice": False}
    return {"type": "quantitative", "axis": None, "scale": scale}


def queue(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: queue, chosen. Bars: tokens to compute (square root); the words: who, how long, why not yet.

    Where memory is the reason: blocks needed / free, and the sign PAGED_SIGN where it would fit under paged.
    """
    y = _row_y(QUEUE_ROWS)
    reasons = [t(DEFER_SHORT[reason]) for reason in DEFER_REASONS]
    blocks = f"datum.d + '/' + datum.f + {json.dumps(' ' + t('blk'))} + (datum.p ? {json.dumps(' ' + PAGED_SIGN)} : '')"
    base = alt.Chart(data("queue")).transform_calculate(
        k0="0",
        k100="100",
        a="datum.i + 0.06",
        low="datum.i + 0.94",
        mid="datum.i + 0.5",
        hue=f"datum.m < 0 ? {json.dumps(theme.other)} : ({HUE})",
        w0="min(100, sqrt(datum.n) * 3)",
        w1="1.2",
        why=f"datum.q < 0 ? '' : {json.dumps(reasons)}[datum.q]",
        left=f"datum.t + '  ' + format(datum.n, ',') + {json.dumps(' ' + t('tok'))}",
        right=f"format(datum.w, '.1f') + ' s  ' + (datum.d < 0 ? datum.why : {blocks})",
        fits=f"datum.p ? {json.dumps(t('yes'))} : '–'",
        needs="datum.d < 0 ? '–' : datum.d + ' / ' + datum.f",
        by="datum.b || '–'",
    )
    box = {"x": _at("k0"), "y": {**y, "field": "a"}, "y2": "low"}
    bars = base.mark_rect(color=theme.empty, opacity=0.45).encode(**box, x2="w0")
    edge = base.mark_rect().encode(**box, x2="w1", fill=raw("hue"))
    text: dict[str, Any] = {"baseline": "middle"}
    left = base.mark_text(align="left", dx=8, fontSize=12, **text).encode(
        x=_at("k0"), y={**y, "field": "mid"}, text="left:N"
    )
    right = base.mark_text(align="right", dx=-2, color=theme.muted, fontSize=11, **text).encode(
        x=_at("k100"), y={**y, "field": "mid"}, text="right:N"
    )
    hover = base.mark_rect(opacity=0).encode(
        **box, x2="k100", tooltip=[alt.Tooltip(f"{name}:N", title=t(word)) for name, word in QUEUE_TIPS.items()]
    )
    parts = alt.layer(bars, edge, left, right, _ring(theme, y), hover)  # nothing may lie over what is pointed at
    spec: dict[str, Any] = parts.properties(height=QUEUE_HEIGHT).to_dict(validate=False)
    return spec


STACK: Final = "(datum.rows > 8 ? 27 : 88) * min(1, {0} / datum.g) + (datum.rows > 8 ? 34 : 11)"
"""Where a number of tokens ends on the bar of a running request, in percent of the width."""


def _running_rows(t: Translate) -> Any:
    """Places of all that a row of the running set consists of. Above eight rows a row is one line."""
    return (
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
            p1=STACK.format("min(datum.c, datum.p)"),
            p2=STACK.format("datum.p"),
            p3=STACK.format("max(datum.c, datum.p)"),
            p4="datum.rows > 8 ? 61 : 99",
            k99="99",
            chip="8.5",
            left="datum.t + (datum.h ? ' ❚❚' : '')",
            right=f"format(datum.c, ',') + '/' + format(datum.g, ',') + '  ' + datum.z + {json.dumps(' ' + t('blk'))}",
        )
    )


def _progress(theme: Theme, base: Any, y: dict[str, Any]) -> list[Any]:
    """The bar: what it may become (outline), prompt computed (full), output computed (lighter), end of the prompt."""

    def bar(low: str, high: str, opacity: Any, **mark: Any) -> Any:
        shape = base.mark_rect(**mark).encode(x=_at(low), x2=high, y={"field": "bar", **y}, y2="b", fill=raw("hue"))
        return shape.encode(fillOpacity=opacity, stroke=raw("hue"))

    goal = base.mark_rule(color=theme.ink, strokeWidth=1.5).encode(x=_at("p2"), y={"field": "bar", **y}, y2="b")
    outline = bar("p0", "p4", {"value": 0.08}, strokeWidth=1)
    return [outline, bar("p0", "p1", number("fo")), bar("p2", "p3", number("o2")), goal]


def _names(theme: Theme, base: Any, y: dict[str, Any]) -> list[Any]:
    """Chip, id and numbers of a row."""
    chips = base.mark_rect(cornerRadius=2).encode(
        x=_at("k0"), x2="chip", y={"field": "a", **y}, y2="b",
        fill=raw("hue"), fillOpacity=number("fo"), stroke=raw("hue"),
    )  # fmt: skip
    letters = base.mark_text(baseline="middle", fontSize=13, fontWeight=700).encode(
        x=_at("k4"), y={"field": "mid", **y}, text="l:N", color=raw("ink")
    )
    left = base.mark_text(align="left", baseline="middle", fontSize=12).encode(
        x=_at("k11"), y={"field": "up", **y}, text="left:N"
    )
    right = base.mark_text(align="right", baseline="middle", fontSize=11, color=theme.muted).encode(
        x=_at("k99"), y={"field": "up", **y}, text="right:N"
    )
    return [chips, letters, left, right]


def running(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: running, chosen. A row: letter, id, blocks; bar: prompt computed (full), output (lighter), goal."""
    y = _row_y({"expr": "max(8, length(data('running')))"})
    base = _running_rows(t)
    hover = base.mark_rect(opacity=0).encode(
        x={"value": 0}, x2={"value": "width"}, y={"field": "a", **y}, y2="b",
        tooltip=[alt.Tooltip(field, title=t(word)) for field, word in RUNNING_TIPS.items()],
    )  # fmt: skip
    parts = [*_progress(theme, base, y), *_names(theme, base, y), _ring(theme, y), hover]
    spec: dict[str, Any] = alt.layer(*parts).properties(height=RUNNING_HEIGHT).to_dict(validate=False)
    return spec
