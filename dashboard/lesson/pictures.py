"""Charts of the lesson: panels of the live page in the choice of a scene, and A beside B."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import altair as alt

from dashboard.arrow import F32, I8, TEXT, rows
from dashboard.charts.parts import data, raw
from dashboard.charts.specs import altair_lock, finish, renderer
from dashboard.charts.theme import THEMES
from dashboard.charts.timeline import PANELS, timeline
from dashboard.i18n import Translate, translator
from dashboard.lesson.facts import FACTS
from dashboard.lesson.scene import Scene
from dashboard.lesson.verdict import Result
from dashboard.lesson.words import number_words

MAX_ROWS: Final = 6
ROW: Final = 48
"""Pixels of one fact: its name, and a bar for each side."""


def panels_spec(theme: str, language: str, charts: Sequence[str]) -> dict[str, Any] | None:
    """The panels over the iteration axis that a scene wants; None where it wants none. Do not change it: shared."""
    names = tuple(name for name in PANELS if name in charts)
    if not names:
        return None
    with altair_lock:
        return _panels(theme, language, names, renderer())


@cache
def _panels(theme: str, language: str, names: tuple[str, ...], drawn_by: str) -> dict[str, Any]:
    return finish(timeline(THEMES[theme], translator(language), names), THEMES[theme], drawn_by)


def sides_spec(theme: str) -> dict[str, Any]:
    """Bars of A and B for up to MAX_ROWS facts, each pair on its own scale. Data set: sides (``sides_table``)."""
    with altair_lock:
        return _sides(theme, renderer())


@cache
def _sides(theme_name: str, drawn_by: str) -> dict[str, Any]:
    theme = THEMES[theme_name]
    height = MAX_ROWS * ROW
    base = alt.Chart(data("sides")).transform_calculate(
        top=f"datum.i * {ROW} + (datum.s == 0 ? 18 : 32)",
        low="datum.top + 12",
        mid="datum.top + 6",
        head=f"datum.i * {ROW} + 9",
        zero="0",
        c=f"datum.s == 0 ? '{theme.line2}' : '{theme.accent}'",
        name="datum.s == 0 ? 'A' : 'B'",
    )

    def at(field: str) -> dict[str, Any]:
        scale = {"domain": [0, height], "range": [0, height], "nice": False}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": None}

    wide = {"field": "v", "type": "quantitative", "scale": {"domain": [-0.06, 1.3], "nice": False}, "axis": None}
    bars = base.mark_rect().encode(x={**wide, "field": "zero"}, x2="v", y=at("top"), y2="low", color=raw("c"))
    told = base.mark_text(align="left", dx=5, fontSize=13, color=theme.ink)
    names = base.mark_text(align="left", fontSize=13, fontWeight="bold", color=theme.ink)
    titles = base.transform_filter("datum.s == 0").mark_text(align="left", fontSize=13, color=theme.muted)
    layers = (
        bars,
        told.encode(x=wide, y=at("mid"), text="t:N"),
        names.encode(x={"value": 0}, y=at("mid"), text="name:N"),
        titles.encode(x={"value": 0}, y=at("head"), text="l:N"),
    )
    spec: dict[str, Any] = alt.layer(*layers).properties(height=height).to_dict(validate=False)
    return finish(spec, theme, drawn_by)


def sides_table(scene: Scene, result: Result, t: Translate) -> bytes:
    """i: row, s: 0 = A, 1 = B, v: share of the larger of the two, t: the number in words, l: the fact in words."""
    out = []
    for i, name in enumerate(scene.facts[:MAX_ROWS]):
        pair = (result.a.values[name], result.b.values[name])
        largest = max([abs(v.number) for v in pair if v.number is not None], default=0.0)
        for side, value in enumerate(pair):
            share = abs(value.number) / largest if value.number is not None and largest else 0.0
            out.append((i, side, share, number_words(name, value, t), t(FACTS[name].label)))
    return rows({"i": I8, "s": I8, "v": F32, "t": TEXT, "l": TEXT}, out)
