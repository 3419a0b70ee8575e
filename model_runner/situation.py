"""What is said about the runner: while no worker is live the story of its start, else what the engine shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from model_runner.messages import LoadProgress
from model_runner.views import ClientPhase, ClientState

_NO_EXPLANATION = ("WARNING ", "INFO ", "DEBUG ")
"""How lines of a worker's log begin that do not say why it ended."""


class Situation:
    """Written by the client's thread; ``state`` may be read by any.

    restart_text: why the next worker replaces one, "" = it is the first, or replaces none. wall: seconds since the
    epoch.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._base: ClientPhase = "starting"
        self._message = ""
        self._detail: tuple[str, ...] = ()
        self._restarts = 0
        self.restart_text = ""
        self.state = ClientState("starting", wall(), None, "", None, 0)

    def listens(self) -> None:
        """The worker has said where it listens, and loads now."""
        self._base = "restarting" if self.restart_text else "loading"

    def became_live(self) -> None:
        """What was to be said about its start is over."""
        self._message, self.restart_text, self._detail = "", "", ()

    def died(self, reason: str, num_unfinished: int) -> None:
        """A worker is gone and is replaced."""
        self._restarts += 1
        self._base = "down"
        self.restart_text = self._message = f"{reason}; {num_unfinished} requests go on with the next"

    def keep(self, stderr: Iterable[str]) -> str:
        """Keep those of a dead worker's last lines that may explain its end; the last of them, "" = none does."""
        self._detail = tuple(line for line in stderr if not line.startswith(_NO_EXPLANATION))
        return self._detail[-1] if self._detail else ""

    def restart_wanted(self, *, had_one: bool) -> None:
        """Somebody wants another worker. had_one: it replaces one."""
        self._detail = ()
        self.restart_text = self._message = "restarted with another configuration" if had_one else ""
        self._base = "restarting" if had_one else "starting"

    def failed(self, message: str) -> None:
        """Nothing is started any more."""
        self._base, self._message = "failed", message

    def stopped(self) -> None:
        """The client is closed."""
        self._base, self._message = "stopped", ""

    def refresh(self, shown: tuple[ClientPhase, str] | None, told: LoadProgress | None) -> None:
        """Put the state together. shown: what a live engine shows. told: how far a worker that loads has come."""
        phase, message = shown or (self._base, self._message)
        since = self.state.since if self.state.phase == phase else self._wall()
        if shown is not None:
            told = None
        if told is not None and phase == "loading":
            message = told.message
        progress = None if told is None else told.fraction
        self.state = ClientState(phase, since, None, message, progress, self._restarts, self._detail)
