"""How often a worker may be started again: at once after an accident, never in a storm."""

from __future__ import annotations

from collections import deque

MAX_START_FAILURES = 3
"""Workers in a row that died before they ran a step."""
STORM_DEATHS, STORM_WINDOW_S, STORM_PAUSE_S = 10, 60.0, 2.0
"""So many deaths within the window, and each further start waits a while."""


class StartLuck:
    """Counts deaths. Times are seconds on one monotonic clock."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._deaths: deque[float] = deque(maxlen=STORM_DEATHS)

    def works(self) -> None:
        """A worker runs steps, or somebody changed what is started."""
        self._in_a_row = 0

    def died(self, now: float) -> None:
        """One more is gone."""
        self._in_a_row += 1
        self._deaths.append(now)

    @property
    def is_out(self) -> bool:
        """True when another start would end like the last ones."""
        return self._in_a_row >= MAX_START_FAILURES

    def pause_s(self, now: float) -> float:
        """How long to wait before the next start."""
        in_storm = len(self._deaths) == STORM_DEATHS and now - self._deaths[0] < STORM_WINDOW_S
        return STORM_PAUSE_S if in_storm else 0.0
