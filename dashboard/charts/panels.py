"""The panels below the lanes: token budget, load, memory, output rate."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from dashboard.charts.axis import (
    TITLE_HEIGHT,
    columns,
    frame,
    framed,
    grid,
    margin_labels,
    mark_rules,
    now,
    scale_of,
    title_of,
    x_at,
    y_at,
)
from dashboard.charts.parts import data
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate

BUDGET_HEIGHT: Final = 54
LINE_HEIGHT: Final = 38
MEMORY_HEIGHT: Final = 49

TITLES: Final = {
    "budget": N_("tokens per iteration: light = prefill, dark = decode · dashed = budget"),
    "load": N_("requests: solid = running, dotted = waiting"),
    "memory": N_(
        "KV: dark = tokens, light = unfilled, stripes = reserved, dots = unusable · dashed = limit · red = preemption"
    ),
    "rate": N_("output tokens per second (mean of 8 iterations)"),
}


def _series() -> Any:
    return alt.Chart(data("series"))


def _line(field: str, scale: dict[str, Any], **mark: Any) -> Any:
    return _series().mark_line(interpolate="step-after", **mark).encode(x=x_at(), y=y_at(field, scale))


def _panel(theme: Theme, height: int, title: str, *layers: Any) -> Any:
    above = [mark_rules(theme), now(theme), title_of(theme, title)]
    return alt.layer(frame(theme), grid(theme), *layers, *above).properties(height=height)


def budget(theme: Theme, t: Translate) -> Any:
    """What the tokens of each iteration were for, against the budget."""
    scale = scale_of(BUDGET_HEIGHT, framed("mu"))
    series = _series().transform_filter("datum.u !== null").transform_calculate(e="datum.x + 1")
    parts = [
        ("0", "datum.d", theme.decode, 1.0, theme.decode),
        ("datum.d", "datum.d + datum.f", theme.prefill, 1.0, None),
        ("datum.d + datum.f", "datum.d + datum.f + datum.c", theme.red, 0.55, theme.red),
        ("datum.d + datum.f + datum.c", "datum.d + datum.f + datum.c + datum.g", theme.padding, 0.5, theme.ink),
    ]
    layers = []
    for low, high, color, opacity, stroke in parts:
        layers.append(
            series.transform_calculate(lo=low, hi=high)
            .transform_filter("datum.hi > datum.lo")
            .mark_rect(color=color, fillOpacity=opacity, stroke=stroke or "transparent")
            .encode(x=x_at(), x2="e", y=y_at("lo", scale), y2="hi")
        )
    rule = series.mark_line(color=theme.amber, strokeDash=[4, 3], interpolate="step-after")
    layers.append(rule.encode(x=x_at(), y=y_at("u", scale)))
    layers += [*margin_labels(theme, BUDGET_HEIGHT, "format(datum.mu, ',')"), columns(theme)]
    return _panel(theme, BUDGET_HEIGHT, t(TITLES["budget"]), *layers)


def load(theme: Theme, t: Translate) -> Any:
    """How many run and how many wait."""
    scale = scale_of(LINE_HEIGHT, framed("ml"))
    running = _line("run", scale, color=theme.line, strokeWidth=2)
    waiting = _line("wait", scale, color=theme.line2, strokeWidth=2, strokeDash=[1, 2])
    labels = margin_labels(theme, LINE_HEIGHT, "format(datum.ml, ',')")
    return _panel(theme, LINE_HEIGHT, t(TITLES["load"]), running, waiting, *labels)


def memory(theme: Theme, t: Translate) -> Any:
    """The slots of the KV pool from the bottom: those with a token, then what is wasted, each in a texture of its own.

    Shares of the pool. Internal fragmentation, reservation and external fragmentation are told apart without colour:
    a light area, stripes, and dots above what is in use.
    """
    scale = scale_of(MEMORY_HEIGHT, 1)
    series = _series().transform_calculate(
        h="datum.x + 0.5",
        fill="datum.kv - (datum.i + datum.r) / datum.s",
        part="datum.kv - datum.r / datum.s",
        out="datum.kv + datum.o / datum.s",
    )
    area = {"interpolate": "step-after", "opacity": 0.8}
    tokens = series.mark_area(color=theme.decode, **area).encode(x=x_at(), y=y_at("fill", scale))
    unfilled = series.mark_area(color=theme.prefill, **area).encode(x=x_at(), y=y_at("fill", scale), y2="part")

    def rules(test: str, low: str, high: str, **mark: Any) -> Any:
        shown = series.transform_filter(test).mark_rule(strokeWidth=2, **mark)
        return shown.encode(x=x_at("h"), y=y_at(low, scale), y2=high)

    layers = [
        tokens,
        unfilled,
        rules("datum.r > 0", "part", "kv", color=theme.line, opacity=0.75),
        rules("datum.o > 0", "kv", "out", color=theme.ink, opacity=0.7, strokeDash=[2, 4]),
        _line("kv", scale, color=theme.line),
        _line("lim", scale, color=theme.amber, strokeDash=[4, 3]),
        _evictions(theme),
        _told(t),
        *margin_labels(theme, MEMORY_HEIGHT, "'100%'", "'0%'"),
    ]
    return _panel(theme, MEMORY_HEIGHT, t(TITLES["memory"]), *layers)


def _evictions(theme: Theme) -> Any:
    shown = _series().transform_filter("datum.pre > 0").transform_calculate(h="datum.x + 0.5")
    rule = shown.mark_rule(color=theme.red, strokeWidth=3)
    return rule.encode(x=x_at("h"), y={"value": MEMORY_HEIGHT}, y2={"value": TITLE_HEIGHT})


def _told(t: Translate) -> Any:
    """Invisible, for the pointer: the numbers of an iteration, in tokens and as shares of the pool."""
    words = {"w1": ("r", t("reserved")), "w2": ("i", t("unfilled")), "w3": ("o", t("unusable"))}
    told = {
        name: f"datum.{field} + ' · ' + round(1000 * datum.{field} / datum.s) / 10 + '%'"
        for name, (field, _) in words.items()
    }
    shown = _series().transform_filter("datum.s !== null").transform_calculate(e="datum.x + 1", **told)
    tips = [alt.Tooltip(f"{name}:N", title=word) for name, (_, word) in words.items()]
    return shown.mark_rect(opacity=0).encode(x=x_at(), x2="e", y={"value": 0}, y2={"value": "height"}, tooltip=tips)


def rate(theme: Theme, t: Translate) -> Any:
    """Output tokens a second."""
    line = _line("tps", scale_of(LINE_HEIGHT, framed("mt")), color=theme.line, strokeWidth=2)
    labels = margin_labels(theme, LINE_HEIGHT, "format(datum.mt, ',.0f')")
    return _panel(theme, LINE_HEIGHT, t(TITLES["rate"]), line, *labels)
