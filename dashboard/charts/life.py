"""One request's life on an axis of seconds: what it did, its tokens, and below it who took its time."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.axis import haloed
from dashboard.charts.parts import data, from_row, number, raw
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate
from dashboard.life_tables import GROUPS
from dashboard.reasons import CAUSE_WORDS, STAGE_WORDS
from scheduler.blame_parts import CAUSES

LINE_HEIGHT: Final = 92
ROW_HEIGHT: Final = 23
LABEL_PX: Final = 132
POINT_WORDS: Final = (
    N_("arrived"), N_("admitted"), N_("preempted"), N_("back"), N_("finished"), N_("aborted"), N_("restart"),
)  # fmt: skip
FLOOR: Final = 64
"""Where the life line stands, in pixels from the top of its panel."""
TALL: Final = (6, 30, 15, 30, 6, 6, 6, 15, 6, 3, 3, 6, 6)
"""Height of each stage in pixels, by its code."""


def _x(field: str = "x") -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None}


def _axis_frame() -> Any:
    """States the scale of the axis: from the first to the last second in view."""
    lo, hi = from_row("frame", "lo", 0), from_row("frame", "hi", 1)
    scale = {"domain": [lo, hi], "nice": False, "zero": False, "range": [LABEL_PX, {"expr": "width-12"}]}
    return alt.Chart(data("frame")).mark_rule(opacity=0).encode(x={**_x("lo"), "scale": scale}, x2="hi")


def _grid(theme: Theme) -> Any:
    return alt.Chart(data("ticks")).mark_rule(color=theme.grid).encode(x=_x())


def _pixels(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def _stages(theme: Theme, t: Translate) -> Any:
    """Waiting is a thin grey line, prefill tall, decode half as tall; recompute has a red edge, an eviction is red."""
    thin, solid, red = theme.padding, theme.decode, theme.red
    colours = [thin, theme.prefill, solid, theme.prefill, red, theme.amber, thin, thin, thin, theme.grid, theme.grid,
               thin, thin]  # fmt: skip
    words = [t(word) for word in STAGE_WORDS.values()]
    return (
        alt.Chart(data("stages"))
        .transform_calculate(
            col=f"{json.dumps(colours)}[datum.k]",
            edge=f"datum.k == 3 ? {json.dumps(red)} : 'transparent'",
            top=f"{FLOOR} - {json.dumps(TALL)}[datum.k]",
            low=str(FLOOR),
            w=f"{json.dumps(words, ensure_ascii=False)}[datum.k]",
        )
        .mark_rect(strokeWidth=2)
        .encode(
            x=_x(), x2="e", y=_pixels("top"), y2="low", fill=raw("col"), stroke=raw("edge"),
            tooltip=[
                alt.Tooltip("w:N", title=t("stage")),
                alt.Tooltip("s:N", title=t("iteration")),
                alt.Tooltip("n:Q", title=t("tokens")),
            ],
        )
    )  # fmt: skip


def _tokens(theme: Theme) -> Any:
    mark = alt.Chart(data("tokens")).mark_rule(color=theme.accent, strokeWidth=1.5)
    return mark.encode(x=_x(), y={"value": FLOOR + 4}, y2={"value": FLOOR + 14})


def _points(theme: Theme, t: Translate) -> list[Any]:
    shapes = ["stroke", "circle", "triangle-down", "circle", "circle", "cross", "diamond"]
    base = (
        alt.Chart(data("points"))
        .transform_calculate(
            s=f"{json.dumps(shapes)}[datum.p]",
            f=f"datum.p == 2 ? '#ffffff' : datum.p == 4 ? {json.dumps(theme.ink)} : 'transparent'",
            o=f"datum.p == 2 || datum.p == 6 ? {json.dumps(theme.red)} : {json.dumps(theme.ink)}",
            z="datum.p == 2 ? 110 : 50",
            t=f"{json.dumps([t(word) for word in POINT_WORDS], ensure_ascii=False)}[datum.p]",
            a="datum.r == 0 ? 12 : 26",
        )
        .encode(x=_x())
    )
    signs = base.mark_point(strokeWidth=1.6, opacity=1).encode(
        y={"value": FLOOR - 32}, shape=raw("s"), fill=raw("f"), stroke=raw("o"), size=number("z"), tooltip="t:N"
    )
    words = []
    for side, align, dx in ((0, "left", 2), (1, "right", -2)):
        shown = base.transform_filter(f"datum.r >= 0 && datum.h == {side}").encode(y=_pixels("a"), text="t:N")
        words += haloed(theme, shown, align=align, dx=dx, fontSize=11, color=theme.ink)
    return [signs, *words]


def _line(theme: Theme, t: Translate) -> Any:
    words = [(FLOOR - 10, t("life")), (FLOOR + 9, t("tokens"))]
    labels = [_label(theme, word).encode(y={"value": y}) for y, word in words]
    layers = [_axis_frame(), _grid(theme), *labels, _stages(theme, t), _tokens(theme), *_points(theme, t)]
    return alt.layer(*layers).properties(height=LINE_HEIGHT)


def _label(theme: Theme, text: str) -> Any:
    base = alt.Chart(data("frame")).transform_calculate(w=json.dumps(text, ensure_ascii=False))
    mark: dict[str, Any] = {"align": "right", "fontSize": 12, "color": theme.ink, "limit": LABEL_PX - 10}
    return base.mark_text(**mark).encode(x={"value": LABEL_PX - 8}, text="w:N")


def _blame(theme: Theme, t: Translate) -> Any:
    """One row a group of causes, so that position and word tell them apart; height = share of the column's time."""
    fills = [theme.decode, theme.line, theme.line2, theme.red, theme.amber, theme.padding, theme.muted, theme.grid]
    causes = [t(CAUSE_WORDS[cause]) for cause in CAUSES]
    bars = (
        alt.Chart(data("blame"))
        .transform_calculate(
            low=f"(datum.y + 1) * {ROW_HEIGHT} - 3",
            top=f"(datum.y + 1) * {ROW_HEIGHT} - 3 - datum.h * {ROW_HEIGHT - 6}",
            col=f"{json.dumps(fills)}[datum.y]",
            w=f"{json.dumps(causes, ensure_ascii=False)}[datum.c]",
        )
        .mark_rect()
        .encode(
            x=_x(), x2="e", y=_pixels("low"), y2="top", fill=raw("col"),
            tooltip=[alt.Tooltip("w:N", title=t("cause")), alt.Tooltip("h:Q", title=t("share"), format=".0%")],
        )
    )  # fmt: skip
    labels, floors = [], []
    for i, (title, _) in enumerate(GROUPS.values()):
        labels.append(_label(theme, t(title)).encode(y={"value": i * ROW_HEIGHT + ROW_HEIGHT / 2}))
        rule = alt.Chart(data("frame")).mark_rule(color=theme.grid)
        floors.append(rule.encode(x=_x("lo"), x2="hi", y={"value": (i + 1) * ROW_HEIGHT - 3}))
    return alt.layer(_axis_frame(), _grid(theme), *floors, *labels, bars).properties(height=ROW_HEIGHT * len(GROUPS))


def _axis(theme: Theme) -> Any:
    text = alt.Chart(data("ticks")).mark_text(fontSize=11, color=theme.muted, baseline="middle")
    return alt.layer(_axis_frame(), text.encode(x=_x(), y={"value": 7}, text="t:N")).properties(height=14)


def life(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: frame, ticks, stages, tokens, points, blame (see ``dashboard.life_tables``)."""
    panels = [_line(theme, t), _blame(theme, t), _axis(theme)]
    spec: dict[str, Any] = alt.vconcat(*panels, spacing=4).resolve_scale(x="shared").to_dict(validate=False)
    return spec
