"""The lanes: one row a slot, one column an iteration; what each request computed, and what happened to it."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.axis import LABEL_X, columns, frame, framed, grid, haloed, mark_rules, now, x_at
from dashboard.charts.parts import HUE, data, number, raw, veil
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate

TITLE: Final = N_("Iterations: tall = prefill chunk, thin = one decode token")
LANES_HEIGHT: Final = 164
WORDS_HEIGHT: Final = 28
"""Head of the lanes, for the words of policy marks."""


def _lane_y(field: str = "a", **extra: Any) -> dict[str, Any]:
    """Lanes from the top. The scale is stated once, by the layer that spans them."""
    return {"field": field, "type": "quantitative", "axis": None, **extra}


def _blocks(theme: Theme, name: str) -> Any:
    """The cells of the lanes. Recompute is ringed red, padding grey in ink, an idle slot a grey line."""
    base = (
        alt.Chart(data(name))
        .transform_calculate(
            c=f"datum.k > 2 ? {json.dumps(theme.padding)} : ({HUE})",
            fo="datum.k == 3 ? 0.4 : datum.k == 4 ? 1 : datum.k > 4 ? 0.45 : datum.m > 7 ? 0.18 : "
            "datum.k == 2 ? 0.45 : 1",
            sc=f"datum.k == 2 ? {json.dumps(theme.red)} : datum.k == 3 ? I : ({HUE})",
            sw="datum.k == 2 || datum.k == 3 || (datum.m > 7 && datum.k < 3) ? 1 : 0",
        )
        .encode(
            x=x_at(),
            x2="e",
            y=_lane_y(),
            y2="b",
            fill=raw("c"),
            fillOpacity=number("fo"),
            stroke=raw("sc"),
            strokeWidth=number("sw"),
        )
    )
    return base.mark_rect()


def _pointed(t: Translate) -> Any:
    """Unseen, over bars and hairlines and as high as a lane: what the pointer is told of a bar."""
    base = alt.Chart(data("runs")).transform_calculate(a="floor(datum.a)", b="datum.a + 0.9")
    titles = {"r:N": t("request"), "x:N": t("iteration"), "n:N": t("tokens")}
    tooltip = [alt.Tooltip(field, title=title) for field, title in titles.items()]
    return base.mark_rect(opacity=0).encode(x=x_at(), x2="e", y=_lane_y(), y2="b", tooltip=tooltip)


def _points(theme: Theme, t: Translate) -> Any:
    """Evictions as white triangles with a red edge, admissions as rings, ends as dots, aborts as crosses."""
    shapes = ["circle", "circle", "triangle-down", "circle", "cross"]
    return (
        alt.Chart(data("points"))
        .transform_calculate(
            s=f"{json.dumps(shapes)}[datum.p]",
            f=f"datum.p == 2 ? '#ffffff' : datum.p < 2 ? 'transparent' : {json.dumps(theme.ink)}",
            o=f"datum.p == 2 ? {json.dumps(theme.red)} : {json.dumps(theme.ink)}",
            z="datum.p == 2 ? 110 : datum.p == 3 ? 16 : 34",
            w="datum.p == 2 ? 2 : 1.2",
        )
        .mark_point()
        .encode(
            x=x_at(),
            y=_lane_y("y"),
            shape=raw("s"),
            fill=raw("f"),
            stroke=raw("o"),
            size=number("z"),
            strokeWidth=number("w"),
            tooltip=alt.Tooltip("r:N", title=t("request")),
        )
    )


def _told(t: Translate) -> str:
    """Vega expression: the words of a mark, which are English in the shared data, in the reader's language."""
    words = [
        ("/burst of ([0-9]+)/g", "burst of $1", t("burst of {n}", n="$1")),
        ("/ on(?=;|$)/g", " on", " " + t("on")),
        ("/ off(?=;|$)/g", " off", " " + t("off")),
    ]
    told = "datum.t"
    for pattern, english, word in words:
        told = told if word == english else f"replace({told}, {pattern}, {json.dumps(word)})"
    return told


def _floors(theme: Theme) -> list[Any]:
    """A line under each lane, and its number; the scale of the lanes is stated here."""
    scale = {"domain": [0, framed("n")], "range": [WORDS_HEIGHT, LANES_HEIGHT], "nice": False}
    base = (
        alt.Chart(data("frame"))
        .transform_calculate(i="sequence(0, datum.n)")
        .transform_flatten(["i"])
        .transform_calculate(
            f="datum.i + 0.9",
            q="datum.i + 0.72",
            s="datum.i % (datum.n > 48 ? 8 : datum.n > 16 ? 4 : 1) ? '' : '' + datum.i",
        )
    )
    lines = base.mark_rule(color=theme.grid).encode(x=x_at(), x2="e", y=_lane_y("f", scale=scale))
    numbers = base.mark_text(align="right", color=theme.muted, fontSize=11)
    return [lines, numbers.encode(x={"value": LABEL_X}, y=_lane_y("q"), text="s:N")]


def _labels(theme: Theme) -> list[Any]:
    label = (
        alt.Chart(data("labels"))
        .transform_calculate(c=f"datum.m < 0 ? {json.dumps(theme.muted)} : {json.dumps(theme.ink)}")
        .encode(x=x_at(), y=_lane_y("y"), text="t:N", color=raw("c"))
    )
    return haloed(theme, label, align="left", baseline="top", dx=1, fontSize=11, fontWeight=600)


def _words(theme: Theme, t: Translate) -> list[Any]:
    """What each policy mark says, on the side of its rule that has room."""
    base = alt.Chart(data("marks")).transform_calculate(
        y="datum.l * 14 + 6",
        w=f"datum.k == 'restart' ? {json.dumps(t('restart'))} : {_told(t)}",
        c=f"datum.k == 'restart' ? {json.dumps(theme.red)} : {json.dumps(theme.accent)}",
    )
    at = {"field": "y", "type": "quantitative", "scale": None, "axis": None}

    def side(which: int, **mark: Any) -> list[Any]:
        text = base.transform_filter(f"datum.h == {which}").encode(x=x_at(), y=at, text="w:N", color=raw("c"))
        return haloed(theme, text, fontSize=11, fontWeight=600, **mark)

    return [*side(0, align="left", dx=4), *side(1, align="right", dx=-4)]


def lanes(theme: Theme, t: Translate) -> Any:
    """One lane a slot: tall blocks are prefill, thin ones single decodes; signs for what happened to the request."""
    layers = [frame(theme), grid(theme), *_floors(theme), _blocks(theme, "runs"), columns(theme), *_labels(theme)]
    layers += [veil(theme), _blocks(theme, "chosen"), _pointed(t), _points(theme, t), mark_rules(theme)]
    return alt.layer(*layers, *_words(theme, t), now(theme)).properties(height=LANES_HEIGHT)
