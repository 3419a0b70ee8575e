"""The same charts for a room: every length in a specification times one factor, and fewer panels in a picture.

Arithmetic: on an image 2 m wide seen from 5 m, an x-height of 12 minutes of arc is a 24 px font where 1,440 px span the
image, and 32 px where 1,920 do. The smallest text of the charts has 11 px. They are made for 1,440 px; the style sheet
zooms them on a wider page, so they are drawn as SVG, which stays sharp.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from dashboard.block_squares import MapGeometry
from dashboard.charts.specs import renderer, specs
from dashboard.charts.window import grown

SMALLEST_FONT: Final = 11
FONT_FLOOR: Final = 24
"""Pixels, where the image is up to 1,440 px wide."""
STROKE: Final = 1.5
"""Strokes grow less than text: a hairline stays one."""

ZOOMS: Final = {width: round(width / 1440, 4) for width in (1520, 1600, 1680, 1760, 1840, 1920, 2240, 2560, 3200, 3840)}
"""From which width of the window on the charts are shown how much larger."""
PLAIN_PX: Final = 830
"""Height of the window, where it is 1,440 px wide, from which on pictures are higher. Most rooms have 16:9, so 810."""
MORE: Final = {"queue": 60, "running": 60, "map": 130, "time": 0}
"""Pixels that are left below a picture there."""

_LENGTHS: Final = frozenset(
    {"fontSize", "labelFontSize", "titleFontSize", "dx", "dy", "height", "cornerRadius", "spacing"}
)
_PLACES: Final = frozenset({"x", "y", "x2", "y2"})
_PANELS: Final = (0, 1, 5)
"""Of the time lines: lanes, token budget, axis."""


def large_specs(theme: str, language: str, geometry: MapGeometry) -> Mapping[str, dict[str, Any]]:
    """Chart name (queue, running, map, time) to specification. Do not change what is returned: it is shared."""
    specs(theme, language, geometry)  # under its own lock
    return _large(theme, language, geometry, renderer())


@cache
def _large(theme: str, language: str, geometry: MapGeometry, drawn_by: str) -> Mapping[str, Any]:
    built = {}
    for name, spec in specs(theme, language, geometry).items():
        chosen = copy.deepcopy(dict(spec))
        if "vconcat" in chosen:
            chosen["vconcat"] = [chosen["vconcat"][i] for i in _PANELS]
        chosen["usermeta"] = {"embedOptions": {"renderer": "svg", "actions": False}}
        larger = scaled(chosen, FONT_FLOOR / SMALLEST_FONT)
        built[name] = grown(larger, 1, f"({MORE[name]} + {_spare()})") if name in MORE else larger
    return built


def _spare() -> str:
    """Vega expression: pixels, before the zoom, that the window is higher than it needs to be."""
    zoom = "1"
    for width, times in sorted(ZOOMS.items()):
        zoom = f"windowSize()[0] >= {width} ? {times} : ({zoom})"
    return f"clamp((windowSize()[1] || 0) / ({zoom}) - {PLAIN_PX}, 0, 500)"


def scaled(node: Any, times: float, key: str = "") -> Any:
    """A specification with its lengths times ``times``. Positions by data and widths of the page stay."""
    if isinstance(node, list):
        if key == "range" and all(isinstance(v, int | float) for v in node):
            return [v * times for v in node]
        if key == "strokeDash":
            return [v * STROKE for v in node]
        return [scaled(v, times) for v in node]
    if isinstance(node, dict):
        if key in _PLACES and isinstance(node.get("value"), int | float):
            return {**node, "value": node["value"] * times}
        out = {k: scaled(v, times, k) for k, v in node.items()}
        if isinstance(out.get("calculate"), str):
            out["calculate"] = _calculated(out["calculate"], str(out.get("as")), times)
        return out
    if isinstance(node, bool) or not isinstance(node, int | float):
        return node
    if key in _LENGTHS:
        return node * times
    return node * STROKE if key == "strokeWidth" else node


def _calculated(expression: str, name: str, times: float) -> str:
    """Lengths that a transform works out: rows of words above the lanes, areas of signs."""
    if expression.startswith("datum.l * 14"):
        return f"({expression}) * {times:g}"
    return f"({expression}) * {times * times:g}" if name == "z" else expression
