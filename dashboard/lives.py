"""The lives of requests, followed from the engine's snapshots: over restarts, and for a while after they end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from model_runner.messages import EngineSnapshot
from scheduler.blame import Blame
from scheduler.blame_life import Life

FROZEN_LIVES: Final = 32


class LifeBook:
    """Fed by the hub, read by any page. Thread-safe; what it hands out is frozen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blame = Blame()
        self._ahead: tuple[str, float] = ("", 0.0)
        self._frozen: OrderedDict[str, Life] = OrderedDict()

    def add(self, snapshot: EngineSnapshot) -> None:
        """Take one step's snapshot; each is seen once, in order."""
        run_id, ahead = self._ahead
        self._ahead = snapshot.run_id, snapshot.monotonic_time - snapshot.engine_time
        # The two clocks are read one after the other: summed with their signs these slips cancel out.
        held = self._ahead[1] - ahead if run_id == snapshot.run_id else 0.0
        with self._lock:
            self._frozen.clear()
            self._blame.add(snapshot.step, run_id=snapshot.run_id, held_s=held)

    def life(self, request_id: str) -> Life | None:
        """The life of a request as of the newest step; None when it was never seen, or is not kept any more."""
        with self._lock:
            life = self._frozen.get(request_id) or self._blame.life(request_id)
            if life is not None:
                self._frozen[request_id] = life
                while len(self._frozen) > FROZEN_LIVES:
                    self._frozen.popitem(last=False)
            return life

    def ids(self) -> list[str]:
        """Requests whose life is known, those that arrived last first."""
        with self._lock:
            return self._blame.ids()
