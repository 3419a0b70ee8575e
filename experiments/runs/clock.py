"""The clock a run is driven by: seconds since the run began, on the wall or virtual."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

SLICE_S: Final = 0.2
"""A wait looks up so often, so that whoever cancels need not wait for the next arrival."""


class Clock(Protocol):
    """What ``drive`` asks of a clock. It never goes back."""

    def now(self) -> float:
        """Seconds since the run began."""

    def wait_until(self, due_s: float) -> None:
        """Return when ``now() >= due_s``; a clock that can be interrupted may return earlier."""


class WallClock:
    """Real seconds from the moment it is made. Waiting is waiting.

    interrupted: looked at during waits; True ends the wait early.
    """

    def __init__(self, interrupted: Callable[[], bool] = lambda: False) -> None:
        self._interrupted = interrupted
        self._began = time.perf_counter()

    def now(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self._began

    def wait_until(self, due_s: float) -> None:
        """Wait, or return early when interrupted."""
        while (left := due_s - self.now()) > 0 and not self._interrupted():
            time.sleep(min(left, SLICE_S))


class VirtualClock:
    """Seconds that move only when told to: by an executor that says how long its step took, or by a wait."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now = start_s

    def now(self) -> float:
        """Virtual seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass, >= 0."""
        self._now += seconds

    def wait_until(self, due_s: float) -> None:
        """Be there at once."""
        self._now = max(self._now, due_s)
