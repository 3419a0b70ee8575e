"""Expressions and layers that several charts share."""

from __future__ import annotations

import json
import re
from itertools import groupby, takewhile
from typing import Any

import altair as alt

from dashboard.charts.theme import Theme


def data(name: str) -> Any:
    """A data set that the tick supplies under this name."""
    return alt.NamedData(name)


def params(theme: Theme, spec: Any) -> list[dict[str, Any]]:
    """Palette as Vega parameters: H hues, K ink upon them, O other, B background, I ink; those that ``spec`` names.

    A specification travels with every tick, so its expressions are kept short.
    """
    named = set(re.findall(r"\b[A-Z]\b", json.dumps(spec)))
    values = {"H": theme.hues, "K": theme.on_hue, "O": theme.other, "B": theme.background, "I": theme.ink}
    return [
        {"name": name, "value": list(v) if isinstance(v, tuple) else v} for name, v in values.items() if name in named
    ]


HUE = "datum.m<0?O:H[datum.m%8]"
"""Vega expression: the colour of a mark."""
INK_ON = "datum.m>7?I:datum.m<0?B:K[datum.m]"
"""Vega expression: the ink that is legible upon a mark's square; hollow squares carry plain ink."""


def raw(field: str, **extra: Any) -> dict[str, Any]:
    """Channel whose values are used as they are (colours and opacities computed in the transform)."""
    return {"field": field, "type": "nominal", "scale": None, **extra}


def number(field: str) -> dict[str, Any]:
    """``raw`` for opacities, widths and sizes, which Vega-Lite wants as numbers."""
    return {"field": field, "type": "quantitative", "scale": None}


def slim(spec: Any) -> Any:
    """The same chart in fewer bytes: no hidden x axes, which config hides already; a scale is stated by the first layer
    that uses it, and neighbours share transforms."""
    if isinstance(spec, list):
        return [slim(v) for v in spec]
    if not isinstance(spec, dict):
        return spec
    if "layer" in spec:
        spec = {**spec, "layer": _stated_once(spec["layer"], {})}
    out = {k: slim(v) for k, v in spec.items()}
    if isinstance(out.get("x"), dict) and "axis" in out["x"] and out["x"]["axis"] is None:
        out["x"] = {k: v for k, v in out["x"].items() if k != "axis"}
    if "layer" in out:
        out["layer"] = _grouped(out["layer"])
    return out


def _stated_once(layers: list[dict[str, Any]], stated: dict[str, Any]) -> list[dict[str, Any]]:
    """The layers of one panel, which share their scales; ``stated``: scale by channel of the layers so far."""
    out = []
    for layer in layers:
        change: dict[str, Any] = {}
        if "layer" in layer:
            change["layer"] = _stated_once(layer["layer"], stated)
        if "encoding" in layer:
            encoding = dict(layer["encoding"])
            for channel in ("x", "y"):
                scale = encoding.get(channel, {}).get("scale")
                if scale and stated.setdefault(channel, scale) == scale and stated[channel] is not scale:
                    encoding[channel] = {k: v for k, v in encoding[channel].items() if k != "scale"}
            change["encoding"] = encoding
        out.append({**layer, **change})
    return out


def _grouped(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours with the same data and first transform become one nested layer that states both once."""
    out = []
    for _, group in groupby(layers, key=lambda v: json.dumps([v.get("data"), v.get("transform", [None])[:1]])):
        members = list(group)
        shared = members[0].get("transform", [])
        for member in members[1:]:
            same = zip(shared, member.get("transform", []), strict=False)
            shared = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], same)]
        if len(members) == 1 or not shared:
            out.extend(members)
            continue
        inner = []
        for member in members:
            rest = member["transform"][len(shared) :]
            slimmer = {k: v for k, v in member.items() if k not in ("data", "transform")}
            inner.append({**slimmer, "transform": rest} if rest else slimmer)
        common = {"data": members[0]["data"]} if "data" in members[0] else {}
        out.append({**common, "transform": shared, "layer": inner})
    return out


def from_row(name: str, field: str, default: float) -> dict[str, str]:
    """A value of the only row of a data set, as the end of a scale's domain; ``default`` before the data are there."""
    return {"expr": f"(data('{name}')[0]||{{}}).{field}||{default:g}"}


def veil(theme: Theme) -> Any:
    """Dims all that lies below it while a request is singled out (data set "veil": one row, or none)."""
    mark = alt.Chart(data("veil")).mark_rect(color=theme.background, opacity=0.72)
    return mark.encode(x={"value": 0}, x2={"value": "width"}, y={"value": 0}, y2={"value": "height"})
