"""Lanes, token budget and time lines on one iteration axis, with policy marks across all of them."""

from __future__ import annotations

from typing import Any

import altair as alt

from dashboard.charts.axis import frame, x_at
from dashboard.charts.lanes import lanes
from dashboard.charts.panels import budget, load, memory, rate
from dashboard.charts.parts import data
from dashboard.charts.theme import Theme
from dashboard.i18n import Translate


def _axis(theme: Theme) -> Any:
    text = (
        alt.Chart(data("ticks"))
        .mark_text(fontSize=11, color=theme.muted, baseline="middle")
        .encode(x=x_at(), y={"value": 7}, text="t:N")
    )
    return alt.layer(frame(theme), text).properties(height=14)


def timeline(theme: Theme, t: Translate) -> dict[str, Any]:
    """Data sets: frame, runs, points, labels, series, ticks, marks, chosen, veil (see ``dashboard.lanes``)."""
    panels = [lanes(theme, t), budget(theme, t), load(theme, t), memory(theme, t), rate(theme, t), _axis(theme)]
    spec: dict[str, Any] = alt.vconcat(*panels, spacing=5).resolve_scale(x="shared").to_dict(validate=False)
    return spec
