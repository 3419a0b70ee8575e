"""Who runs scenes: one per server, at most one scene at a time, the results kept for the check questions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from dashboard.i18n import N_
from dashboard.lesson.run import Script
from dashboard.lesson.scene import Scene, SceneError
from dashboard.lesson.scenes import BY_NAME
from dashboard.lesson.verdict import Result
from dashboard.room import Said, say
from model_runner.traffic import TrafficSpec
from scheduler import SchedulerPolicy

if TYPE_CHECKING:
    from dashboard.desk import Desk
    from model_runner.client import RunnerClient

TICK_S: Final = 0.05
_log = logging.getLogger(__name__)

Phase = Literal["ready", "clearing", "a", "b", "measured", "failed"]
RUNNING: Final[tuple[Phase, ...]] = ("clearing", "a", "b")


@dataclass(frozen=True, slots=True)
class Lesson:
    """One moment. scene: the one that runs or ran last, "" = none yet. waiting_for: requests that must end first.
    ended of total: requests of the present run. fault: why it failed. results: the last of each scene. keeps_settings:
    there is something to give back."""

    phase: Phase = "ready"
    scene: str = ""
    waiting_for: int = 0
    ended: int = 0
    total: int = 0
    fault: Said | None = None
    results: Mapping[str, Result] = field(default_factory=lambda: MappingProxyType({}))
    keeps_settings: bool = False

    @property
    def is_running(self) -> bool:
        """Whether the engine belongs to a scene now."""
        return self.phase in RUNNING


@dataclass(frozen=True, slots=True)
class _Settings:
    policy: SchedulerPolicy
    traffic: TrafficSpec


class Teacher:
    """``start``, ``cancel``, ``give_back`` and ``state`` may be called from any thread; a scene moves on a thread of
    its own, which ends with it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, tick_s: float = TICK_S) -> None:
        self._clock = clock
        self._tick_s = tick_s
        self._lock = threading.RLock()
        self._state = Lesson()
        self._kept: _Settings | None = None
        self._script: Script | None = None
        self._moves: Iterator[None] | None = None
        self._cancelled = threading.Event()

    @property
    def state(self) -> Lesson:
        """The present moment; never waits."""
        return self._state

    def start(self, name: str, client: RunnerClient, desk: Desk) -> bool:
        """Run a scene; False while one runs, or when there is nothing to run."""
        if not self.begin(name, client, desk):
            return False
        threading.Thread(target=self._drive, name="lesson", daemon=True).start()
        return True

    def begin(self, name: str, client: RunnerClient, desk: Desk) -> bool:
        """As ``start``, but the caller moves it on with ``advance``."""
        scene = BY_NAME[name]
        with self._lock:
            if self._state.is_running or not scene.runs:
                return False
            if self._kept is None:
                self._kept = _Settings(desk.policy, client.traffic.spec)
            self._cancelled.clear()
            self._script = Script(client, desk, scene, self._clock)
            self._moves = self._script.moves()
            self._tell(phase="clearing", scene=name, fault=None, ended=0, total=len(scene.burst), waiting_for=0)
            return True

    def _drive(self) -> None:
        while self.advance():
            self._cancelled.wait(self._tick_s)

    def advance(self) -> bool:
        """One move of the scene that runs; False when it has ended."""
        with self._lock:
            script, moves = self._script, self._moves
            if script is None or moves is None:
                return False
            if self._cancelled.is_set():
                self._stop(script, "ready", None)
                return False
            try:
                next(moves)
            except StopIteration:
                self._keep(script)
                return False
            except SceneError as error:
                self._stop(script, "failed", Said(error.message, tuple(error.values.items())))
                return False
            except Exception as error:
                _log.exception("scene %s", script.scene.name)
                self._stop(script, "failed", say(N_("The scene broke off: {error}"), error=str(error)[:300]))
                return False
            self._tell(phase=script.stage, waiting_for=script.waiting_for, ended=script.ended)
            return True

    def _keep(self, script: Script) -> None:
        assert script.result is not None
        self._script = self._moves = None
        results = {**self._state.results, script.scene.name: script.result}
        self._tell(phase="measured", results=MappingProxyType(results), ended=len(script.scene.burst))

    def _stop(self, script: Script, phase: Phase, fault: Said | None) -> None:
        """End a scene before its end: its requests go, and the presenter's settings come back."""
        self._script = self._moves = None
        for request_id in script.ids:
            script.client.abandon(request_id)
        self._tell(phase=phase, fault=fault)
        self._restore(script.client, script.desk)

    def cancel(self) -> None:
        """Break off the scene that runs; acts within a tick."""
        self._cancelled.set()

    def give_back(self, client: RunnerClient, desk: Desk) -> bool:
        """Put back the policy and the arrivals from before the first scene; False when there is nothing to put back, a
        scene runs, or the engine refuses."""
        with self._lock:
            return not self._state.is_running and self._restore(client, desk)

    def _restore(self, client: RunnerClient, desk: Desk) -> bool:
        kept = self._kept
        if kept is None:
            return False
        if not desk.change(lambda now: replace(kept.policy, version=now.version)).reply.accepted:
            return False
        client.traffic.set(kept.traffic)
        self._kept = None
        self._tell()
        return True

    def _tell(self, **changes: object) -> None:
        self._state = replace(self._state, keeps_settings=self._kept is not None, **changes)  # type: ignore[arg-type]


def scene_of(name: str) -> Scene:
    """The scene with this name; the first where there is none."""
    return BY_NAME.get(name) or next(iter(BY_NAME.values()))
