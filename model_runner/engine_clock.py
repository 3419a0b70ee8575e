"""The engine's own clock: it stands still while the engine is held."""

from __future__ import annotations

import time
from collections.abc import Callable


class EngineClock:
    """Seconds the engine was not held, from 0 at its making. One thread.

    Held time is what a person asked for (pause, single step, pacing); it is no engine time, so no latency and no
    arrival of the traffic is counted on it.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._elapsed = 0.0
        self._running_since: float | None = monotonic()

    def __call__(self) -> float:
        """Engine time now, in seconds."""
        if self._running_since is None:
            return self._elapsed
        return self._elapsed + self._monotonic() - self._running_since

    @property
    def is_held(self) -> bool:
        """True while the clock stands still."""
        return self._running_since is None

    def hold(self) -> None:
        """Stand still from now on; no effect when held already."""
        if self._running_since is not None:
            self._elapsed += self._monotonic() - self._running_since
            self._running_since = None

    def release(self) -> None:
        """Go on; no effect when not held."""
        if self._running_since is None:
            self._running_since = self._monotonic()
