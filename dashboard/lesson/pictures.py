"""Charts of the lesson: panels of the live page in the choice of a scene, and A beside B."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final

import altair as alt

from dashboard import lanes
from dashboard.arrow import F32, I8, TEXT, decode, rows
from dashboard.block_squares import MapGeometry
from dashboard.charts.axis import LABEL_X
from dashboard.charts.large import SMALLEST_FONT, large_specs, scaled
from dashboard.charts.panels import TITLES
from dashboard.charts.parts import data, raw
from dashboard.charts.specs import altair_lock, finish, renderer, specs
from dashboard.charts.theme import THEMES
from dashboard.charts.timeline import PANELS, timeline
from dashboard.hub import Frame
from dashboard.i18n import N_, Translate, translator
from dashboard.lesson.facts import FACTS
from dashboard.lesson.scene import Scene
from dashboard.lesson.verdict import Result
from dashboard.lesson.words import number_words
from dashboard.policy_marks import marks_table
from dashboard.projector import recent_lanes, recent_window
from model_runner.views import Mark

MAX_ROWS: Final = 6
ROW: Final = 52
"""Pixels of one fact: its name, and a bar for each side."""
FONT: Final = 15
"""Pixels of the smallest text in a chart: a room looks at it. Projector mode has its own (``charts.large``)."""
FONT_ROOM: Final = 24
LARGE_BUDGET: Final = 4
"""A budget of more than so many times the most tokens of an iteration is above the panel."""
ROOM_CHARTS: Final = 2
"""Of those a scene wants, the first: a screen that is read from 5 metres holds no more."""
TITLES_HERE: Final = {
    TITLES["memory"]: N_("KV blocks that may be used: dark = tokens, light = unfilled · red = preemption"),
}
TITLES_ROOM: Final = {
    TITLES["memory"]: N_("usable KV blocks in use · red = preemption"),
    TITLES["budget"]: N_("tokens per iteration · dashed = budget"),
}
"""What the panels are called here where their titles on the live page do not fit."""


def shown_charts(scene: Scene, *, is_room: bool) -> tuple[str, ...]:
    """Panels and pictures to draw. is_room: for projector mode."""
    return scene.charts[:ROOM_CHARTS] if is_room else scene.charts


@dataclass(frozen=True, slots=True)
class Panels:
    """A specification (do not change it: shared), and the names of the data sets it draws; one more stops it."""

    spec: Mapping[str, Any]
    sets: frozenset[str]


def panels(theme: str, language: str, charts: Sequence[str], *, is_room: bool = False) -> Panels | None:
    """The panels over the iteration axis that a scene wants; None where it wants none.

    is_room: for projector mode.
    """
    names = tuple(name for name in PANELS if name in charts)
    if not names:
        return None
    with altair_lock:
        return _panels(theme, language, names, FONT_ROOM if is_room else FONT, "svg" if is_room else renderer())


@cache
def _panels(theme: str, language: str, names: tuple[str, ...], font: int, drawn_by: str) -> Panels:
    here = translator(language)
    titles = TITLES_ROOM if font == FONT_ROOM else TITLES_HERE

    def t(message: str, **values: object) -> str:
        return here(titles.get(message, message), **values)

    spec = finish(timeline(THEMES[theme], t, names), THEMES[theme], drawn_by)
    times = font / SMALLEST_FONT
    spec = _budget_clipped(spec)
    if font == FONT:  # the margin is as wide as so many iterations, and holds no label that stands further right
        spec = _labels_at(spec, LABEL_X / times)
    return Panels(scaled(spec, times), frozenset(_named(spec)))


def _budget_clipped(node: Any) -> Any:
    """The specification with the line of a budget that is above its panel left out."""
    if isinstance(node, list):
        return [_budget_clipped(part) for part in node]
    if not isinstance(node, dict):
        return node
    out = {k: _budget_clipped(part) for k, part in node.items()}
    y = out["encoding"].get("y") if isinstance(out.get("encoding"), dict) else None
    if isinstance(y, dict) and y.get("field") == "u":
        out["mark"] = {**out["mark"], "clip": True}
    return out


def _labels_at(node: Any, x: float) -> Any:
    """The specification with the labels of its left margin ending at ``x``."""
    if isinstance(node, list):
        return [_labels_at(part, x) for part in node]
    if not isinstance(node, dict):
        return node
    place = {"value": LABEL_X}
    return {k: {"value": x} if k == "x" and part == place else _labels_at(part, x) for k, part in node.items()}


def _named(node: Any) -> Iterator[str]:
    """The data sets that a specification draws."""
    if isinstance(node, list):
        for part in node:
            yield from _named(part)
    elif isinstance(node, dict):
        if isinstance(node.get("data"), dict) and "name" in node["data"]:
            yield node["data"]["name"]
        for part in node.values():
            yield from _named(part)


def map_spec(theme: str, language: str, geometry: MapGeometry, *, is_room: bool = False) -> dict[str, Any]:
    """The block map. Do not change it: shared."""
    return large_specs(theme, language, geometry)["map"] if is_room else specs(theme, language, geometry)["map"]


def panels_data(
    drawn: Panels, frame: Frame, shown: Mapping[str, bytes], marks: Sequence[Mark], *, is_room: bool = False
) -> Mapping[str, bytes]:
    """Data sets of the panels. shown: those of the live page; marks: of policy changes. 100 % of memory are the
    blocks that may be used here.

    A scene that runs short of blocks does so by a limit far below the pool: as shares of the pool its memory would be a
    flat line. Whole prompts need a budget as large as the longest sequence: beside it a long prompt would look like a
    decode, so the axis of the tokens ends far below such a budget.
    """
    if is_room:
        start, end = recent_window(frame)
        near = marks_table(marks, [f for f in frame.facts if f.x >= start], start, end)
        every = {**shown, **recent_lanes(frame), "marks": near, "series": _usable_series(frame, start)}
    else:
        start, end = frame.x0, frame.x1
        every = {**shown, "series": _usable_series(frame, start)}
    every["frame"] = _lower_frame(frame, start, end, decode(every["frame"])["n"][0])
    return {name: table for name, table in every.items() if name in drawn.sets}


@lru_cache(maxsize=4)
def _lower_frame(frame: Frame, start: int, end: int, num_lanes: int) -> bytes:
    most = max((sum(f.tokens.values()) for f in frame.facts if f.x >= start), default=1)
    top = round(lanes.round_top(most))
    facts = [replace(f, budget=top if f.budget > LARGE_BUDGET * most else f.budget) for f in frame.facts]
    return lanes.frame_table(facts, start, end, num_lanes)


@lru_cache(maxsize=4)
def _usable_series(frame: Frame, start: int) -> bytes:
    facts = [replace(f, num_blocks=min(f.num_blocks, f.block_limit), external=0) for f in frame.facts]
    return lanes.series_table(facts, start)


def sides_spec(theme: str) -> dict[str, Any]:
    """Bars of A and B for up to MAX_ROWS facts, each pair on its own scale. Data set: sides (``sides_table``)."""
    with altair_lock:
        return _sides(theme, renderer())


@cache
def _sides(theme_name: str, drawn_by: str) -> dict[str, Any]:
    theme = THEMES[theme_name]
    height = MAX_ROWS * ROW
    base = alt.Chart(data("sides")).transform_calculate(
        top=f"datum.i * {ROW} + (datum.s == 0 ? 19 : 35)",
        low="datum.top + 14",
        mid="datum.top + 7",
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
    told = base.mark_text(align="left", dx=5, fontSize=FONT, color=theme.ink)
    names = base.mark_text(align="left", fontSize=FONT, fontWeight="bold", color=theme.ink)
    titles = base.transform_filter("datum.s == 0").mark_text(align="left", fontSize=FONT, color=theme.muted)
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
