"""The KV block map: one square a block, colour and letter of its owner, filled as far as tokens are computed.

The owner shows in every state: letter, edge and a tint of the hue; a line below marks what this step wrote.
"""

from __future__ import annotations

import json
from typing import Any

import altair as alt

from dashboard.charts.parts import HUE, INK_ON, data, number, raw
from dashboard.charts.theme import Theme
from dashboard.identity import LETTERS
from dashboard.state_tables import ASPECT, MapGeometry

HEIGHT = 188
LETTER_MAX_CELLS = 520
"""Above this many squares a letter no longer fits into one."""


def _channel(field: str, top: float, reverse: bool = False) -> dict[str, Any]:
    scale = {"domain": [0, top], "nice": False, "reverse": reverse}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def block_map(theme: Theme, geometry: MapGeometry) -> dict[str, Any]:
    """Data sets: blocks, chosen, veil. Block ids run along the rows, in physical order."""
    columns = geometry.columns
    x = _channel("x", max(columns, geometry.rows * ASPECT))
    y = _channel("y", max(geometry.rows, columns / ASPECT), reverse=True)
    place = {
        "x": f"datum.c % {columns} + 0.05",
        "x2": f"datum.c % {columns} + 0.95",
        "y": f"floor(datum.c / {columns}) + 0.06",
        "y2": f"floor(datum.c / {columns}) + 0.94",
        "top": f"floor(datum.c / {columns}) + 0.94 - 0.88 * datum.f / 16",
        "xm": f"datum.c % {columns} + 0.5",
        "ym": f"floor(datum.c / {columns}) + 0.53",
    }
    grid = (
        alt.Chart(alt.sequence(0, geometry.cells, as_="c"))
        .transform_calculate(**{k: v for k, v in place.items() if k != "top"})
        .mark_rect(fillOpacity=0, stroke=theme.empty, strokeWidth=1)
        .encode(x=x, x2="x2", y=y, y2="y2")
    )

    def squares(name: str) -> list[Any]:
        owned = alt.Chart(data(name)).transform_filter("datum.m > -2").transform_calculate(
            **place,
            col=HUE,
            ink=f"datum.f < 14 ? I : ({INK_ON})",
            halo="datum.f < 14 ? 3 : 0",
            tint="datum.m > 7 ? 0 : 0.25",
            fo="datum.m > 7 ? 0.22 : 1",
            l=f"datum.m < 0 ? '' : {json.dumps(LETTERS)}[datum.m]",
            line="datum.t ? 2.5 : 0",
        )  # fmt: skip
        tooltip = [alt.Tooltip("c:Q", title="block - 1"), alt.Tooltip("f:Q", title="filled / 16")]
        fill = owned.mark_rect().encode(
            x=x, x2="x2", y={**y, "field": "top"}, y2="y2", fill=raw("col"), fillOpacity=number("fo"), tooltip=tooltip
        )
        edge = owned.mark_rect(strokeWidth=1.5).encode(
            x=x, x2="x2", y=y, y2="y2", fill=raw("col"), fillOpacity=number("tint"), stroke=raw("col")
        )
        written = owned.mark_rule(color=theme.ink).encode(
            x=x, x2="x2", y={**y, "field": "y2"}, strokeWidth=number("line")
        )
        if geometry.cells > LETTER_MAX_CELLS:
            return [edge, fill, written]
        letters = owned.mark_text(fontSize=13 if geometry.cells <= 300 else 11, fontWeight=700, baseline="middle")
        at: dict[str, Any] = {"x": {**x, "field": "xm"}, "y": {**y, "field": "ym"}, "text": "l:N"}
        outline = letters.encode(**at, color=raw("ink"), stroke={"value": theme.background}, strokeWidth=number("halo"))
        return [edge, fill, written, outline, letters.encode(**at, color=raw("ink"))]

    locked = alt.Chart(data("blocks")).transform_filter("datum.m == -2").transform_calculate(**place)
    cross = locked.mark_rect(fill=theme.locked, stroke=theme.empty, strokeDash=[2, 2])
    slash = locked.mark_rule(color=theme.empty, strokeWidth=1)
    veil = (
        alt.Chart(data("veil"))
        .mark_rect(color=theme.background, opacity=0.72)
        .encode(x={"value": 0}, x2={"value": "width"}, y={"value": 0}, y2={"value": "height"})
    )
    layers = [
        grid,
        cross.encode(x=x, x2="x2", y=y, y2="y2"),
        slash.encode(x=x, x2="x2", y={**y, "field": "y2"}, y2="y"),
    ]
    spec: dict[str, Any] = (
        alt.layer(*layers, *squares("blocks"), veil, *squares("chosen"))
        .properties(height=HEIGHT)
        .to_dict(validate=False)
    )
    return spec
