"""What all panels over the iteration axis share: its scale, rules across it, text upon it.

Every scale has a stated domain, taken from the "frame" data set: a scale that asked its layers for their extent would
warn of each layer that has nothing to show.
"""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.charts.parts import data, from_row, raw
from dashboard.charts.theme import Theme

TITLE_HEIGHT: Final = 14
"""Head of each panel, kept free of data for its title."""
WIDTH: Final = "containerSize()[0]"
"""Vega expression: pixels the chart is wide. Vega-Lite has no name for it in charts on top of each other."""
LABEL_X: Final = 34
"""Right end of the labels in the left margin, in pixels; the axis begins some iterations left of the data."""


def framed(field: str, default: float = 1) -> dict[str, str]:
    """A value of the frame as the end of a domain."""
    return from_row("frame", field, default)


def x_at(field: str = "x") -> dict[str, Any]:
    """The iteration axis. Its scale is stated once, by the invisible frame of each panel."""
    return {"field": field, "type": "quantitative"}


def frame(theme: Theme) -> Any:
    """Invisible: spans the axis from the first to the last iteration in view."""
    scale = {"domain": [framed("left", 0), framed("e")], "nice": False, "zero": False}
    return alt.Chart(data("frame")).mark_rule(opacity=0).encode(x={**x_at("left"), "scale": scale}, x2="e")


def now(theme: Theme) -> Any:
    """The rule after the newest iteration."""
    return alt.Chart(data("now")).mark_rule(color=theme.accent, opacity=0.8).encode(x=x_at("now"))


def grid(theme: Theme) -> Any:
    """A rule at each labelled iteration."""
    return alt.Chart(data("ticks")).mark_rule(color=theme.grid).encode(x=x_at())


def mark_rules(theme: Theme) -> Any:
    """Changes of policy and traffic, and restarts."""
    return (
        alt.Chart(data("marks"))
        .transform_calculate(c=f"datum.k == 'restart' ? {json.dumps(theme.red)} : {json.dumps(theme.accent)}")
        .mark_rule(strokeWidth=1.5, strokeDash=[2, 2])
        .encode(x=x_at(), color=raw("c"))
    )


def columns(theme: Theme) -> Any:
    """Hairlines between the iterations, so that a run of decodes reads as single tokens."""
    return (
        alt.Chart(data("frame"))
        .transform_calculate(i="sequence(datum.x, datum.e)")
        .transform_flatten(["i"])
        .mark_rule(color=theme.background, strokeWidth=1, opacity=0.75)
        .encode(x=x_at("i"))
    )


def haloed(theme: Theme, base: Any, **mark: Any) -> list[Any]:
    """Text that stays legible upon bars and rules: first its outline in the colour of the background."""
    outline = base.mark_text(stroke=theme.background, strokeWidth=3, strokeJoin="round", **mark)
    return [outline, base.mark_text(**mark)]


def title_of(theme: Theme, text: str) -> Any:
    """The title of a panel, in its head; cut where the panel is narrow, for a chart grows with a text that reaches out
    of it."""
    base = alt.Chart(data("frame")).transform_calculate(title=json.dumps(text))
    base = base.encode(x=x_at(), y={"value": 0}, text="title:N")
    mark: dict[str, Any] = {"align": "left", "baseline": "top", "dx": 1, "limit": {"expr": f"{WIDTH} - {LABEL_X}"}}
    return alt.layer(*haloed(theme, base, fontSize=11, color=theme.muted, **mark))


def scale_of(height: int, top: Any) -> dict[str, Any]:
    """A vertical scale from 0 to ``top`` (a number or ``framed``) that leaves the head of its panel to the title."""
    return {"range": [height - 1, TITLE_HEIGHT], "domain": [0, top], "nice": False}


def y_at(field: str, scale: dict[str, Any]) -> dict[str, Any]:
    """A vertical position on that scale."""
    return {"field": field, "type": "quantitative", "scale": scale, "axis": None}


def margin_labels(theme: Theme, height: int, top: str, bottom: str = "'0'") -> list[Any]:
    """The ends of a panel's scale in the left margin. top, bottom: Vega expressions over the frame."""
    mark: dict[str, Any] = {"align": "right", "baseline": "middle", "fontSize": 11, "color": theme.muted}
    base = alt.Chart(data("frame"))
    ends = ((top, TITLE_HEIGHT), (bottom, height - 1))
    return [
        base.transform_calculate(t=text).mark_text(**mark).encode(x={"value": LABEL_X}, y={"value": y}, text="t:N")
        for text, y in ends
    ]
