"""The strip over the kept history: where the page stands in it, and what happened when. A click goes there."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.parts import data, from_row, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate

HEIGHT: Final = 44
JUMP: Final = "jump"
"""Name of the selection that a click makes: the column of the strip, by its place n."""
TITLE: Final = N_(
    "kept history: area = KV in use, line = waiting · ▽ preemption · dashed = policy change · click to go"
)
HEAD: Final = 13
X: Final = {"type": "quantitative", "axis": None}


def _y(field: str, top: Any) -> dict[str, Any]:
    scale = {"domain": [0, top], "range": [HEIGHT - 1, HEAD], "nice": False}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def _ends() -> Any:
    scale = {"domain": [from_row("ends", "lo", 0), from_row("ends", "hi", 1)], "nice": False, "zero": False}
    return alt.Chart(data("ends")).mark_rule(opacity=0).encode(x={**X, "field": "lo", "scale": scale}, x2="hi")


def _full(base: Any, low: str, high: str, **mark: Any) -> Any:
    box = {"x": {**X, "field": low}, "x2": high, "y": {"value": HEAD}, "y2": {"value": HEIGHT}}
    return base.mark_rect(**mark).encode(**box)


def _across(rule: Any) -> Any:
    return rule.encode(x={**X, "field": "n"}, y={"value": HEAD}, y2={"value": HEIGHT})


def strip(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: ends, bins, rules, thumb (see ``dashboard.strip``). Selection: JUMP."""
    x = {**X, "field": "n"}
    bins, thumb = alt.Chart(data("bins")), alt.Chart(data("thumb"))
    step: dict[str, Any] = {"interpolate": "step-after"}
    area = bins.mark_area(color=theme.decode, opacity=0.75, **step).encode(x=x, y=_y("k", 100))
    waiting = bins.transform_calculate(y="100*datum.w/(data('ends')[0]||{}).w")
    line = waiting.mark_line(color=theme.line, strokeWidth=1.5, **step).encode(x=x, y=_y("y", 100))
    evictions = bins.transform_filter("datum.p>0").mark_point(
        shape="triangle-down", size=34, filled=True, color=theme.red, opacity=1
    )
    rules = alt.Chart(data("rules")).transform_calculate(
        col=f"datum.c?{json.dumps(theme.red)}:{json.dumps(theme.accent)}"
    )
    words = alt.Chart(data("ends")).mark_text(
        align="left", baseline="top", fontSize=11, color=theme.muted, limit={"expr": "width"}
    )
    columns = bins.transform_calculate(e="datum.n+E-datum.n%E".replace("E", "(data('ends')[0]||{}).b"))
    tips = {"s": t("iteration"), "k": t("KV blocks in use, %"), "w": t("waiting"), "p": t("preempted"),
            "g": t("longest gap between two tokens, ms")}  # fmt: skip
    layers = [
        _ends(),
        _full(thumb, "a", "b", color=theme.accent, opacity=0.18),
        area,
        line,
        _across(rules.mark_rule(strokeWidth=1.5, strokeDash=[2, 2])).encode(color=raw("col")),
        evictions.encode(x=x, y={"value": HEAD + 4}),
        _across(thumb.mark_rule(color=theme.ink, strokeWidth=3)),
        words.encode(x={"value": 2}, y={"value": 0}, text={"value": t(TITLE)}),
        _full(columns, "n", "e", opacity=0, clip=True).encode(
            tooltip=[alt.Tooltip(f"{f}:Q", title=w) for f, w in tips.items()]
        ),
    ]
    spec: dict[str, Any] = alt.layer(*layers).properties(height=HEIGHT).to_dict(validate=False)
    select = {"type": "point", "on": "click", "fields": ["n"], "toggle": False, "clear": False}
    spec["layer"][-1]["params"] = [{"name": JUMP, "select": select}]
    return spec
