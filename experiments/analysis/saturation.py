"""Was an arm asked for more than it could do? From when requests were due and when they were first scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from experiments.analysis.samples import Floats, Table

BURST_SHARE: Final = 0.05
GROWTH: Final = 2.0
DRAIN_SHARE: Final = 0.05

RULE: Final = (
    "saturated: through the arrival window the queue grows from third to third, its mean in the last third is at "
    "least 1 request and twice that of the first, and after the last arrival it takes at least 5 % of the window to "
    "empty, or never does; burst: the arrival window is under 5 % of the run, so requests wait whatever the policy does"
)
"""``saturation`` in words."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """state: "no", "yes", "burst", or "unknown" for fewer than 6 requests (two a third).

    window_s: first to last due time. waiting: requests due and not yet first scheduled, mean over time in each third
    of the window. drain_s: last due time to the last first schedule; None = some were never scheduled.
    """

    state: Literal["no", "yes", "burst", "unknown"]
    window_s: float
    waiting: tuple[float, float, float]
    drain_s: float | None


def saturation(rows: Table) -> Saturation:
    """By ``RULE``. Rejected requests never wait, so they do not count."""
    asked = ~rows.rejected
    due, scheduled = rows.due[asked], rows.first_scheduled[asked]
    if len(due) < 6:
        return Saturation("unknown", float(np.ptp(due)) if len(due) else 0.0, (0.0, 0.0, 0.0), None)
    begin, end = float(due.min()), float(due.max())
    never = bool(np.isnan(scheduled).any())
    drain = None if never else max(0.0, float(scheduled.max()) - end)
    window = end - begin
    if window <= 0 or window < BURST_SHARE * rows.wall_s:
        return Saturation("burst", window, (0.0, 0.0, 0.0), drain)
    until = np.nan_to_num(scheduled, nan=np.inf)
    first, second, third = (
        _mean_waiting(due, until, begin + window * part / 3, begin + window * (part + 1) / 3) for part in range(3)
    )
    grows = first < second < third and third >= max(1.0, GROWTH * first)
    stays = drain is None or drain >= DRAIN_SHARE * window
    return Saturation("yes" if grows and stays else "no", window, (first, second, third), drain)


def _mean_waiting(due: Floats, until: Floats, begin: float, end: float) -> float:
    """Mean length of the queue between two times."""
    overlap = np.minimum(until, end) - np.maximum(due, begin)
    return float(np.maximum(overlap, 0.0).sum() / (end - begin))
