"""Lanes, token budget and time lines on one iteration axis, with policy marks across all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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


PANELS: Final = {"lanes": lanes, "budget": budget, "load": load, "memory": memory, "rate": rate}
"""From the top, above the axis."""


def timeline(theme: Theme, t: Translate, names: Sequence[str] = tuple(PANELS)) -> dict[str, Any]:
    """Data sets: frame, now, runs, points, labels, series, ticks, marks, chosen, veil (see ``dashboard.lanes``).

    names: the panels wanted, of PANELS.
    """
    panels = [*(PANELS[name](theme, t) for name in names), _axis(theme)]
    spec: dict[str, Any] = alt.vconcat(*panels, spacing=5).resolve_scale(x="shared").to_dict(validate=False)
    return spec
