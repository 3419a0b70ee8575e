"""A race from a live step: forecasts made in a thread, the real run followed beside them, and checked."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import streamlit as st

from experiments.virtual.forecast import Series
from experiments.virtual.future import future_of
from experiments.virtual.race import Check, Race, check, live_series, race, run_of
from scheduler import SchedulerPolicy

if TYPE_CHECKING:
    from dashboard.desk import Desk
    from model_runner.messages import EngineSnapshot

HORIZON_S: Final = 60.0
"""Seconds of traffic to come that both forecasts get."""
MAX_STEPS: Final = 500
"""Steps of each forecast."""
LOOK_S: Final = 0.5
FOLLOW_S: Final = 180.0
"""How long the real run is followed, at most."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows of a race. number: of races so far. stage: "none", "making", "following", "over", "failed".

    name: of the rival. is_real: the rival was put in force at the fork. seconds: making it took. live: the real run
    since the fork. checked: the rival's forecast, or where that was never in force the other one, against the real run.
    """

    number: int = 0
    stage: str = "none"
    name: str = ""
    is_real: bool = False
    race: Race | None = None
    live: Series = field(default_factory=Series)
    checked: Check | None = None
    seconds: float = 0.0
    problem: str = ""


class Racer:
    """The one race of a server. May be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown = Shown()

    @property
    def shown(self) -> Shown:
        """The present one."""
        return self._shown

    def start(self, desk: Desk, rival: SchedulerPolicy, name: str, *, is_real: bool) -> None:
        """Fork the newest step. is_real: also put the rival in force, right after the step that was forked.

        What comes later is taken from a copy of the traffic before that, so no forecast knows what then happened.
        """
        with self._lock:
            number = self._shown.number + 1
            self._shown = Shown(number, "making", name, is_real)
        thread = threading.Thread(target=self._go, args=(number, desk, rival, is_real), name="race", daemon=True)
        thread.start()

    def _go(self, number: int, desk: Desk, rival: SchedulerPolicy, is_real: bool) -> None:
        began = time.monotonic()
        client = desk.client
        try:
            history = run_of(client.history())
            future = future_of(client, history, history[-1].step.step_id, HORIZON_S)
            if is_real:
                reply = desk.change(lambda now: with_pace(rival, now)).reply
                if not reply.accepted:
                    raise ValueError("; ".join(reply.reasons))
            longest = history[-1].info.max_model_len
            made = race(history, rival, future, max_model_len=longest, max_steps=MAX_STEPS)
        except ValueError as error:
            self._tell(number, stage="failed", problem=str(error))
            return
        self._tell(number, stage="following", race=made, seconds=time.monotonic() - began)
        self._follow(number, desk, made)

    def _follow(self, number: int, desk: Desk, made: Race) -> None:
        """Until the real run has gone as far as the forecasts, another race begins, or too much time has passed."""
        until = time.monotonic() + FOLLOW_S
        fork, ghosts = made.control.from_step, (made.control, made.rival)
        ends = max((ghost.series.times_s[-1] for ghost in ghosts if ghost.series.times_s), default=made.control.from_s)
        while time.monotonic() < until and self._shown.number == number:
            history = desk.client.history()
            if not _reaches(history, made.run_id, fork):
                break
            run = [snapshot for snapshot in history if snapshot.run_id == made.run_id]
            checked = check(made, run, made.rival) or check(made, run, made.control)
            self._tell(number, live=live_series(run, fork), checked=checked)
            if run[-1].step.time >= ends:
                break
            time.sleep(LOOK_S)
        self._tell(number, stage="over")

    def _tell(self, number: int, **changes: object) -> None:
        with self._lock:
            if self._shown.number == number:
                self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]


def with_pace(policy: SchedulerPolicy, now: SchedulerPolicy) -> SchedulerPolicy:
    """The policy at the pace in force, which is for the eye and no decision."""
    return replace(
        policy, step_delay_ms=now.step_delay_ms, paused=now.paused, single_step=now.single_step, version=now.version
    )


def _reaches(history: Sequence[EngineSnapshot], run_id: str, step_id: int) -> bool:
    """Whether the history still goes back to the step; otherwise the real line would begin in the air."""
    first = next((each.step.step_id for each in history if each.run_id == run_id), None)
    return first is not None and first <= step_id + 1 and history[-1].run_id == run_id


# An edit of this body would make Streamlit call it again while the first goes on: keep it one line.
@st.cache_resource(show_spinner=False)
def shared() -> Racer:
    """The racer of this process."""
    return Racer()
