"""When the next step may start: policy, pace, step commands and work decide; the loop only asks."""

from __future__ import annotations

import enum
from collections.abc import Callable

from model_runner.messages import EnginePhase, Step
from model_runner.ports import EngineScheduler

MAX_STEP_COUNT = 10_000
EMPTY_STEPS_BEFORE_WAIT = 2
"""After so many steps that planned nothing the loop waits for a command or a heartbeat before it asks again."""


class Gate(enum.Enum):
    """What the loop may do now: run a step, or wait for work, for the one who holds the engine, or for the pace."""

    RUN = "run"
    IDLE = "idle"
    HELD = "held"
    PACED = "paced"


class StepGate:
    """Reads the scheduler and its policy; keeps only the steps granted, the last step's end and the empty steps."""

    def __init__(self, scheduler: EngineScheduler, monotonic: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._credits = 0
        self._empty_steps = 0
        self._stepped_at = 0.0

    def ask(self) -> Gate:
        """Whether a step may start now; RUN uses up a granted step."""
        policy, has_work = self._scheduler.policy, self._scheduler.has_work
        if not has_work:
            self._credits = 0
        elif self._monotonic() < self.paced_until:
            return Gate.PACED
        if policy.paused or policy.single_step:
            if self._credits > 0:
                self._credits -= 1
                return Gate.RUN
            # With nothing to step through, single step lets the clock run, or no traffic would ever arrive.
            return Gate.IDLE if policy.single_step and not policy.paused and not has_work else Gate.HELD
        self._credits = 0
        if has_work and self._empty_steps < EMPTY_STEPS_BEFORE_WAIT:
            return Gate.RUN
        return Gate.IDLE

    @property
    def paced_until(self) -> float:
        """When the pace of the policy in force allows the next step; 0 when it sets none."""
        delay_ms = self._scheduler.policy.step_delay_ms
        return self._stepped_at + delay_ms / 1000.0 if delay_ms > 0 and self._stepped_at else 0.0

    def phase(self, gate: Gate) -> EnginePhase:
        """The engine's phase, as long as nothing has failed."""
        if self._scheduler.policy.paused or (self._scheduler.policy.single_step and gate is not Gate.IDLE):
            return "paused"
        return "idle" if gate is Gate.IDLE else "running"

    def grant(self, command: Step) -> str:
        """Allow so many steps while the engine is held; the reason when that cannot be, else ""."""
        if not 1 <= command.count <= MAX_STEP_COUNT:
            return f"count: {command.count}, 1 to {MAX_STEP_COUNT} are allowed"
        if not (self._scheduler.policy.paused or self._scheduler.policy.single_step):
            return "step: the engine is not held, set paused or single_step first"
        if not self._scheduler.has_work:
            return "step: no request is there to be computed"
        self._credits = min(MAX_STEP_COUNT, self._credits + command.count)
        return ""

    def stepped(self, *, progressed: bool) -> None:
        """A step has ended; progressed: it planned something."""
        self._stepped_at = self._monotonic()
        self._empty_steps = 0 if progressed else self._empty_steps + 1

    def look_again(self) -> None:
        """Something may have changed since the last empty step."""
        self._empty_steps = 0
