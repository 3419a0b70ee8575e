"""Charts that compare epochs: distribution curves, and what the tokens of the steps were for."""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.axis import haloed
from dashboard.charts.parts import data, from_row, number, raw
from dashboard.charts.theme import Theme
from dashboard.epoch_tables import SHOWN_EPOCHS
from dashboard.epochs import PURPOSES
from dashboard.i18n import N_, Translate

CURVE_HEIGHT: Final = 196
AXIS_HEIGHT: Final = 16
KEY_HEIGHT: Final = 18
NOTE_HEIGHT: Final = 15
LEFT: Final = 40
RIGHT: Final = 20
ROW_HEIGHT: Final = 27
NAME_PX: Final = 66
TOTAL_PX: Final = 82
BAR_PX: Final = 440
"""Length of a whole bar at a page of 1440 pixels; words that would not fit a part of it are left out."""
DASHES: Final = ([1, 0], [1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
"""Of the newest epoch and the ones before it. The newest is also coloured and thick: no two differ by colour alone."""
WIDTHS: Final = (3, 1.8, 1.8, 1.8, 1.8)
PURPOSE_WORDS: Final = {
    "prefill": N_("prefill"), "decode": N_("decode"), "recompute": N_("recompute"), "padding": N_("padding"),
    "idle": N_("idle slots"),
}  # fmt: skip


def inks(theme: Theme) -> tuple[str, ...]:
    """The colour of each place, the newest epoch first."""
    return (theme.accent, theme.ink, theme.ink, theme.muted, theme.muted)


def _quantitative(field: str, scale: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "axis": None, **({"scale": scale} if scale else {})}


def _frame(left: int, right: int) -> Any:
    """Invisible; states the horizontal scale."""
    scale = {"domain": [0, from_row("frame", "hi", 1)], "nice": False, "range": [left, {"expr": f"width-{right}"}]}
    base = alt.Chart(data("frame")).mark_rule(opacity=0)
    return base.encode(x=_quantitative("hi", scale), y={"value": 0}, y2={"value": 1})


def _axis_layers(theme: Theme, left: int, right: int) -> list[Any]:
    text = alt.Chart(data("ticks")).mark_text(fontSize=11, color=theme.muted, baseline="middle")
    return [_frame(left, right), text.encode(x=_quantitative("x"), y={"value": 8}, text="t:N")]


def spread(theme: Theme, t: Translate) -> dict[str, Any]:
    """Share of the samples that are at most so long, a curve an epoch. Data sets: see ``epoch_tables.spread_data``."""
    up = {"domain": [0, 100], "range": [CURVE_HEIGHT - 6, 6], "nice": False}
    grid = alt.Chart(data("ticks")).mark_rule(color=theme.grid).encode(x=_quantitative("x"))
    guides = alt.Chart(data("guides"))
    rules = guides.mark_rule(color=theme.grid).encode(
        x={"value": LEFT}, x2={"value": {"expr": f"width-{RIGHT}"}}, y=_quantitative("q", up)
    )
    words = guides.mark_text(align="right", baseline="middle", fontSize=11, color=theme.muted)
    left = words.encode(x={"value": LEFT - 6}, y=_quantitative("q", up), text="t:N")
    lines = []
    for place in range(SHOWN_EPOCHS):
        base = alt.Chart(data("curves")).transform_filter(f"datum.e == {place}")
        mark = base.mark_line(
            color=inks(theme)[place], strokeDash=DASHES[place], strokeWidth=WIDTHS[place], interpolate="linear"
        )
        lines.append(mark.encode(x=_quantitative("x"), y=_quantitative("q", up), order="q:Q"))
    points = (
        alt.Chart(data("curves"))
        .mark_point(size=60, opacity=0)
        .encode(
            x=_quantitative("x"), y=_quantitative("q", up),
            tooltip=[
                alt.Tooltip("v:Q", title=t("at most (ms)"), format=",.1f"),
                alt.Tooltip("q:Q", title=t("percent of the samples"), format=".0f"),
            ],
        )
    )  # fmt: skip
    base = (
        alt.Chart(data("names"))
        .transform_calculate(c=f"{json.dumps(inks(theme))}[datum.e]")
        .encode(x=_quantitative("x"), y=_quantitative("q", up), text="t:N", color=raw("c"))
    )
    names = haloed(theme, base, align="left", dx=5, dy=6, fontSize=12)
    metric = alt.Chart(data("frame")).encode(x={"value": LEFT + 6}, y={"value": 16}, text="t:N")
    said = haloed(theme, metric, align="left", baseline="middle", fontSize=12, color=theme.muted)
    layers = [grid, rules, left, *reversed(lines), points, *names, *_notes(theme), *said]
    top = alt.layer(_frame(LEFT, RIGHT), *layers)
    below = alt.layer(*_axis_layers(theme, LEFT, RIGHT)).properties(height=AXIS_HEIGHT)
    both = alt.vconcat(top.properties(height=CURVE_HEIGHT), below, spacing=2)
    spec: dict[str, Any] = both.resolve_scale(x="shared").to_dict(validate=False)
    return spec


def _notes(theme: Theme) -> list[Any]:
    """What lies beyond the axis, in the corner that distributions leave free."""
    base = alt.Chart(data("notes")).transform_calculate(y=f"{CURVE_HEIGHT - 16} - datum.i * {NOTE_HEIGHT}")
    down = {"field": "y", "type": "quantitative", "scale": None, "axis": None}
    base = base.encode(x={"value": {"expr": f"width-{RIGHT + 4}"}}, y=down, text="t:N")
    return haloed(theme, base, align="right", baseline="middle", fontSize=11, color=theme.ink)


def tokens(theme: Theme, t: Translate) -> dict[str, Any]:
    """A bar an epoch, divided by what its tokens were for. Data sets: see ``epoch_tables.tokens_data``."""
    fills = [theme.prefill, theme.decode, theme.red, theme.padding, theme.grid]
    opacity = [1, 1, 1, 0.35, 0.6]
    edges = ["transparent", "transparent", "transparent", theme.padding, theme.padding]
    on = [theme.on_prefill, theme.background, theme.background, theme.ink, theme.ink]
    words = [t(PURPOSE_WORDS[name]) for name in PURPOSES]
    room = [round((_wide(word) + 36) / BAR_PX, 3) for word in words]
    bars = (
        alt.Chart(data("bars"))
        .transform_calculate(
            top=f"datum.r * {ROW_HEIGHT} + 3", low=f"(datum.r + 1) * {ROW_HEIGHT} - 3",
            mid=f"(datum.r + 0.5) * {ROW_HEIGHT}",
            f=f"{json.dumps(fills)}[datum.k]", o=f"{json.dumps(opacity)}[datum.k]", s=f"{json.dumps(edges)}[datum.k]",
            c=f"{json.dumps(on)}[datum.k]", w=f"{json.dumps(words, ensure_ascii=False)}[datum.k]",
            z="(datum.e - datum.x) / data('frame')[0].hi",
            q="format(datum.p, '.0%')",
            l=f"datum.z >= {json.dumps(room)}[datum.k] ? datum.w + ' ' + datum.q : datum.z >= 0.075 ? datum.q : ''",
        )
    )  # fmt: skip
    pixels = {"type": "quantitative", "scale": None, "axis": None}
    rects = bars.mark_rect(strokeWidth=1).encode(
        x=_quantitative("x"), x2="e", y={"field": "top", **pixels}, y2="low", fill=raw("f"), fillOpacity=number("o"),
        stroke=raw("s"),
        tooltip=[
            alt.Tooltip("w:N", title=t("what for")),
            alt.Tooltip("n:N", title=t("tokens")),
            alt.Tooltip("p:Q", title=t("share"), format=".1%"),
        ],
    )  # fmt: skip
    text = (
        bars.transform_filter("datum.l != ''")
        .mark_text(align="left", dx=5, fontSize=11, baseline="middle")
        .encode(x=_quantitative("x"), y={"field": "mid", **pixels}, text="l:N", color=raw("c"))
    )
    base = alt.Chart(data("names")).transform_calculate(mid=f"(datum.r + 0.5) * {ROW_HEIGHT}")
    names = base.mark_text(align="right", fontSize=12, color=theme.ink, baseline="middle")
    totals = base.mark_text(align="right", fontSize=12, color=theme.muted, baseline="middle")
    layers = [
        _frame(NAME_PX, TOTAL_PX), rects, text,
        names.encode(x={"value": NAME_PX - 8}, y={"field": "mid", **pixels}, text="t:N"),
        totals.encode(x={"value": {"expr": "width-4"}}, y={"field": "mid", **pixels}, text="s:N"),
    ]  # fmt: skip
    top = alt.layer(*layers).properties(height=ROW_HEIGHT * SHOWN_EPOCHS)
    key = _key(theme, words, list(zip(fills, opacity, edges, strict=True)))
    below = alt.layer(*_axis_layers(theme, NAME_PX, TOTAL_PX), *key).properties(height=AXIS_HEIGHT + KEY_HEIGHT)
    spec: dict[str, Any] = alt.vconcat(top, below, spacing=2).resolve_scale(x="shared").to_dict(validate=False)
    return spec


def _wide(word: str) -> float:
    """Pixels of a word in 11 pixel letters, about."""
    return sum(11 if c > "\u1100" else 6.5 for c in word)


def _key(theme: Theme, words: list[str], looks: list[tuple[str, float, str]]) -> list[Any]:
    """What each colour stands for, within the picture: a narrow part of a bar has no room for its word."""
    layers, at, down = [], float(NAME_PX), {"value": AXIS_HEIGHT + KEY_HEIGHT / 2}
    base = alt.Chart(data("frame"))
    for word, (fill, opacity, edge) in zip(words, looks, strict=True):
        square = base.mark_square(size=90, strokeWidth=1, fill=fill, fillOpacity=opacity, stroke=edge, opacity=1)
        name = base.mark_text(align="left", fontSize=11, baseline="middle", color=theme.muted, text=word)
        layers += [
            square.encode(x={"value": at + 5}, y=down),
            name.encode(x={"value": at + 14}, y=down),
        ]
        at += 14 + _wide(word) + 14
    return layers
