"""Every specification of the page, built at most once per theme, language and map geometry."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from dashboard.block_squares import MapGeometry
from dashboard.charts.epochs import spread, tokens
from dashboard.charts.flow import queue, running
from dashboard.charts.life import life
from dashboard.charts.memory import block_map
from dashboard.charts.parts import params, slim
from dashboard.charts.strip import strip
from dashboard.charts.theme import THEMES, Theme, config
from dashboard.charts.timeline import timeline
from dashboard.charts.window import SHARES, grown
from dashboard.i18n import translator

altair_lock = threading.Lock()
"""Held while a chart is built: Altair is not made for several threads."""


def renderer() -> str:
    """ "canvas", or "svg" where BATCHSCOPE_RENDERER asks for it (tests look at the drawn marks)."""
    return "svg" if os.environ.get("BATCHSCOPE_RENDERER") == "svg" else "canvas"


def specs(theme: str, language: str, geometry: MapGeometry) -> Mapping[str, dict[str, Any]]:
    """Chart name (queue, running, map, time, strip) to specification. Do not change what is returned: it is shared."""
    with altair_lock:
        return _specs(theme, language, geometry, renderer())


def live_specs(theme: str, language: str, geometry: MapGeometry) -> Mapping[str, dict[str, Any]]:
    """``specs`` for a page that they fill: higher in a high window."""
    with altair_lock:
        return _in_window(theme, language, geometry, renderer())


@cache
def _in_window(theme: str, language: str, geometry: MapGeometry, drawn_by: str) -> Mapping[str, dict[str, Any]]:
    plain = _specs(theme, language, geometry, drawn_by)
    return {name: grown(spec, SHARES[name]) if name in SHARES else spec for name, spec in plain.items()}


@cache
def _specs(theme_name: str, language: str, geometry: MapGeometry, drawn_by: str) -> Mapping[str, dict[str, Any]]:
    theme, t = THEMES[theme_name], translator(language)
    built = {
        "queue": queue(theme, t),
        "running": running(theme, t),
        "map": block_map(theme, geometry, t),
        "time": timeline(theme, t),
        "strip": strip(theme, t),
    }
    return {name: finish(spec, theme, drawn_by) for name, spec in built.items()}


def life_spec(theme: str, language: str) -> dict[str, Any]:
    """The chart of one request's life. Do not change what is returned: it is shared."""
    with altair_lock:
        return _life_spec(theme, language, renderer())


@cache
def _life_spec(theme_name: str, language: str, drawn_by: str) -> dict[str, Any]:
    theme = THEMES[theme_name]
    return finish(life(theme, translator(language)), theme, drawn_by)


def epoch_specs(theme: str, language: str) -> Mapping[str, dict[str, Any]]:
    """The charts that compare epochs: spread, tokens. Do not change what is returned: it is shared."""
    with altair_lock:
        return _epoch_specs(theme, language, renderer())


@cache
def _epoch_specs(theme_name: str, language: str, drawn_by: str) -> Mapping[str, dict[str, Any]]:
    theme, t = THEMES[theme_name], translator(language)
    built = {"spread": spread(theme, t), "tokens": tokens(theme, t)}
    return {name: finish(spec, theme, drawn_by) for name, spec in built.items()}


def finish(spec: dict[str, Any], theme: Theme, drawn_by: str) -> dict[str, Any]:
    """As sent: palette, config and a pinned renderer (a switch between canvas and svg would rebuild the chart)."""
    options = {"renderer": drawn_by, "actions": False}
    margins = {"left": 1, "right": 1, "top": 1, "bottom": 1}
    extra = {
        "padding": margins,
        "params": params(theme, spec),
        "config": config(theme),
        "usermeta": {"embedOptions": options},
    }
    merged: dict[str, Any] = slim({**spec, **extra})
    merged.pop("$schema", None)
    return merged
