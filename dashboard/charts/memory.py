"""The KV block map: one square a block, colour and letter of its owner, filled as far as tokens are computed.

What a square looks like, by state; no two differ by colour alone:
    owned, tokens in it    edge, tint and letter of the owner, filled from below; a line below = written just now
    owned, still empty     dashed edge, pale letter: reserved
    shared                 filled with ink, the number of its owners instead of a letter
    free                   a faint outline; cached: a small square within; unusable by the allocator: a cross;
                           locked by ``kv_block_limit``: a stroke on grey
"""

from __future__ import annotations

import json
from typing import Any, Final

import altair as alt

from dashboard.block_squares import ASPECT, CACHED, LOCKED, UNUSABLE, MapGeometry
from dashboard.charts.parts import HUE, INK_ON, data, number, raw, veil
from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate
from dashboard.identity import LETTERS

BLOCK: Final = N_("block")
"""Name of the block's number where the pointer tells of a square; a click takes the block from there."""
HEIGHT: Final = 188
LETTER_MAX_CELLS: Final = 520
"""Above this many squares a letter no longer fits into one."""


class _Squares:
    """Places the squares of one geometry and draws them in their states."""

    def __init__(self, theme: Theme, geometry: MapGeometry, t: Translate) -> None:
        self._theme = theme
        self._cells = geometry.cells
        self._t = t
        columns, rows = geometry.columns, geometry.rows
        self._x = self._channel("x", max(columns, rows * ASPECT))
        self._y = self._channel("y", max(rows, columns / ASPECT), reverse=True)
        self._place = {
            "x": f"datum.c % {columns} + 0.05",
            "x2": f"datum.c % {columns} + 0.95",
            "y": f"floor(datum.c / {columns}) + 0.06",
            "y2": f"floor(datum.c / {columns}) + 0.94",
        }

    @staticmethod
    def _channel(field: str, top: float, reverse: bool = False) -> dict[str, Any]:
        scale = {"domain": [0, top], "nice": False, "reverse": reverse}
        return {"field": field, "type": "quantitative", "axis": None, "scale": scale}

    def _box(self, low: str = "y", high: str = "y2") -> dict[str, Any]:
        return {"x": self._x, "x2": "x2", "y": {**self._y, "field": low}, "y2": high}

    def grid(self) -> Any:
        """The outline of every block."""
        told = {"b": "datum.c + 1", "s": json.dumps(self._t("free"))}
        base = alt.Chart(alt.sequence(0, self._cells, as_="c")).transform_calculate(**self._place, **told)
        mark = base.mark_rect(fillOpacity=0, stroke=self._theme.empty, strokeWidth=1)
        return mark.encode(**self._box(), tooltip=self._tips()[:2])

    def free(self) -> list[Any]:
        """Blocks nobody owns that are not simply free: cached, unusable, locked."""
        theme = self._theme
        inner = f"(datum.m == {CACHED} ? 0.25 : 0)"
        place = {k: f"{v} {'-' if k.endswith('2') else '+'} {inner}" for k, v in self._place.items()}
        base = alt.Chart(data("blocks")).transform_filter("datum.m < -1").transform_calculate(
            **place, col=f"datum.m == {CACHED} ? {json.dumps(theme.padding)} : {json.dumps(theme.locked)}"
        )  # fmt: skip
        boxes = base.transform_filter(f"datum.m != {UNUSABLE}").mark_rect()
        up = base.transform_filter(f"datum.m != {CACHED}").mark_rule(strokeWidth=1.2, opacity=0.7)
        down = base.transform_filter(f"datum.m == {UNUSABLE}").mark_rule(
            strokeWidth=1.2, opacity=0.7, color=theme.muted
        )
        stroke = {
            "condition": {"test": f"datum.m == {LOCKED}", "value": theme.empty},
            "value": theme.muted,
        }
        return [
            boxes.encode(**self._box(), fill=raw("col")),
            up.encode(**self._box("y2", "y"), color=stroke),
            down.encode(**self._box()),
        ]

    def owned(self, name: str) -> list[Any]:
        """Blocks of running requests, from the data set ``name``."""
        theme = self._theme
        base = alt.Chart(data(name)).transform_filter("datum.m > -2").transform_calculate(
            **self._place,
            top=f"{self._place['y2']} - 0.88 * datum.f / 16",
            col=f"datum.n > 1 ? I : ({HUE})",
            ink=f"datum.n > 1 ? B : datum.f < 14 ? I : ({INK_ON})",
            halo="datum.f < 14 ? 3 : 0",
            tint="datum.m > 7 ? 0 : 0.25",
            fo="datum.m > 7 && datum.n < 2 ? 0.22 : 1",
            lo="datum.f == 0 ? 0.6 : 1",
            l=f"datum.n > 1 ? '' + datum.n : datum.m < 0 ? '' : {json.dumps(LETTERS)}[datum.m]",
            line="datum.t ? 2.5 : 0",
        )  # fmt: skip
        fill = base.mark_rect().encode(**self._box("top"), fill=raw("col"), fillOpacity=number("fo"))
        edge = base.transform_filter("datum.f > 0").mark_rect(strokeWidth=1.5)
        edge = edge.encode(**self._box(), fill=raw("col"), fillOpacity=number("tint"), stroke=raw("col"))
        reserved = base.transform_filter("datum.f == 0").mark_rect(fillOpacity=0, strokeWidth=1.5, strokeDash=[3, 2])
        reserved = reserved.encode(**self._box(), stroke=raw("col"))
        written = base.mark_rule(color=theme.ink).encode(**self._box("y2"), strokeWidth=number("line"))
        return [edge, reserved, fill, written, *self._letters(base)]

    def pointed(self) -> Any:
        """Unseen, over all else: what the pointer is told of a square that is not free."""
        states = {CACHED: self._t("cached"), UNUSABLE: self._t("unusable"), LOCKED: self._t("locked")}
        words = [states[mark] for mark in range(min(states), -1)]
        owner = f"datum.n > 1 ? {json.dumps(self._t('shared'))} : {json.dumps(LETTERS)}[datum.m] || '–'"
        base = alt.Chart(data("blocks")).transform_calculate(
            **self._place,
            b="datum.c + 1",
            s=f"datum.m < -1 ? {json.dumps(words, ensure_ascii=False)}[datum.m + {-min(states)}] : {owner}",
            f="datum.m < -1 ? 0 : datum.f",
        )
        return base.mark_rect(opacity=0).encode(**self._box(), tooltip=self._tips())

    def _tips(self) -> list[Any]:
        titles = {"b:Q": BLOCK, "s:N": N_("state"), "f:Q": N_("filled / 16"), "n:Q": N_("owners")}
        return [alt.Tooltip(field, title=self._t(title)) for field, title in titles.items()]

    def _letters(self, base: Any) -> list[Any]:
        if self._cells > LETTER_MAX_CELLS:
            return []
        size = 13 if self._cells <= 300 else 11
        middle = base.transform_calculate(xm="datum.x + 0.45", ym="datum.y + 0.47")
        letters = middle.mark_text(fontSize=size, fontWeight=700, baseline="middle").encode(
            x={**self._x, "field": "xm"}, y={**self._y, "field": "ym"}, text="l:N", color=raw("ink"),
            opacity=number("lo"),
        )  # fmt: skip
        outline = letters.encode(stroke={"value": self._theme.background}, strokeWidth=number("halo"))
        return [outline, letters]


def block_map(theme: Theme, geometry: MapGeometry, t: Translate) -> dict[str, Any]:
    """Data sets: blocks, chosen, veil. Block ids run along the rows, in physical order."""
    squares = _Squares(theme, geometry, t)
    layers = [squares.grid(), *squares.free(), *squares.owned("blocks"), veil(theme), *squares.owned("chosen")]
    layers.append(squares.pointed())
    spec: dict[str, Any] = alt.layer(*layers).properties(height=HEIGHT).to_dict(validate=False)
    return spec
