"""Charts of the page take the room of a tall window. How much is known when a chart is put up, and stays.

Vega asks the window itself, once, when it builds a chart: no server needs to know the window, nothing is drawn anew in
a tick, and a chart that is drawn without a window (to be saved) has its plain height.
"""

from __future__ import annotations

import copy
from typing import Any, Final

PLAIN_PX: Final = 900
"""Height of the window for which the page is laid out; what is more is shared out."""
MOST_PX: Final = 600
SHARES: Final = {"queue": 1 / 3, "running": 1 / 3, "map": 1 / 3, "time": 2 / 3}
"""Of the room to spare: the upper row of charts, and the lanes in the row below it."""
SPARE: Final = f"clamp((windowSize()[1] || 0) - {PLAIN_PX}, 0, {MOST_PX})"

HEIGHT: Final = {"expr": "L"}
"""Name of the height of the first of several charts."""


def grown(spec: dict[str, Any], share: float, spare: str = SPARE) -> dict[str, Any]:
    """The same chart, higher by ``share`` of what there is to spare (a Vega expression, in pixels).

    Of charts on top of each other only the first grows. Its height is a number to Vega-Lite and becomes an expression
    in what Vega-Lite makes of it; a single chart's height is a signal of its own, which a parameter may take over.
    """
    if "vconcat" not in spec:
        height = {"name": "height", "expr": f"{spec['height']} + {share:.4g} * {spare}"}
        return {**spec, "params": [*spec.get("params", []), height]}
    first = copy.deepcopy(spec["vconcat"][0])
    plain = first["height"]
    _stretch(first, plain)
    options = spec["usermeta"]["embedOptions"]
    patch = [{"op": "replace", "path": "/marks/0/encode/update/height", "value": {"signal": HEIGHT["expr"]}}]
    return {
        **spec,
        "vconcat": [first, *spec["vconcat"][1:]],
        "params": [*spec["params"], {"name": HEIGHT["expr"], "expr": f"{plain:g} + {share:.4g} * {spare}"}],
        "usermeta": {"embedOptions": {**options, "patch": patch}},
    }


def _stretch(node: Any, plain: float) -> None:
    """Let all that ends at the plain height end at the height there is: scales, rules and areas from top to bottom."""
    if isinstance(node, list):
        for part in node:
            _stretch(part, plain)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "range" and isinstance(value, list):
                node[key] = [HEIGHT if end == plain else end for end in value]
            else:
                _stretch(value, plain)
        mark, places = node.get("mark"), node.get("encoding", {})
        is_upright = isinstance(mark, dict) and mark["type"] == "rule" and not places.keys() & {"y", "x2"}
        if is_upright or places.get("y2") == {"value": "height"}:
            places.update(y={"value": 0}, y2={"value": HEIGHT})
