"""A scene without an engine: on the real scheduler with a step-time model, or step by step behind the page's client."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import msgspec

from dashboard.lesson.facts import Measured, measure
from dashboard.lesson.lives import Own, Seen, trimmed
from dashboard.lesson.scene import Scene, Side, policy_of, prompts
from dashboard.lesson.verdict import Conditions
from model_runner.config import RunnerConfig
from model_runner.messages import EngineInfo, EngineSnapshot
from model_runner.traffic import TrafficSpec
from model_runner.views import StepReply, SubmitOutcome
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy
from scheduler.simulate import Simulation, StalledError
from scheduler.workload import WorkloadRequest
from tests.dashboard.fakes import FakeClient, info

FIXED_S, TOKEN_S = 0.01, 0.001
"""The step-time model: so many seconds an iteration, and so many more a token."""
ENGINE: EngineInfo = msgspec.structs.replace(
    info(RunnerConfig(model="toy"), "simulated"), max_model_len=512, num_blocks=192, block_size=16, num_host_blocks=64
)


def simulated(scene: Scene, side: Side, steps: int = 2000, engine: EngineInfo = ENGINE) -> Measured:
    """One side of a scene on the virtual clock; at most so many steps, and not beyond a standstill."""
    burst = [
        WorkloadRequest(f"q{i}", asked.at, asked.prompt, asked.output, asked.priority, prompt)
        for i, (asked, prompt) in enumerate(zip(scene.burst, prompts(scene), strict=True))
    ]
    run = Simulation(
        policy_of(side, engine),
        burst,
        num_blocks=engine.num_blocks,
        block_size=engine.block_size,
        max_model_len=engine.max_model_len,
    )
    seen = []
    with contextlib.suppress(StalledError):
        for _, step in islice(run.run(), steps):
            tokens = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
            seen.append(Seen(step, FIXED_S + TOKEN_S * tokens))
    return measure(trimmed(seen, {f"q{i}": Own(asked.role, asked.at) for i, asked in enumerate(scene.burst)}))


class LessonClient(FakeClient):
    """Holds and steps like an engine, and tells what waits while it is held. ``pump`` is its loop."""

    def __init__(self, policy: SchedulerPolicy | None = None) -> None:
        super().__init__(policy, num_blocks=192, block_size=16)
        self.credits = 0
        self.abandoned: list[str] = []
        self.traffic.spec = TrafficSpec(rate=2.0)
        self._beat: EngineSnapshot | None = None
        self._taken = 0

    def start_run(self, run_id: str, policy: SchedulerPolicy) -> None:
        self.run_id = run_id
        self.scheduler = Scheduler(
            policy, num_blocks=192, block_size=16, max_model_len=256, clock=self._clock, num_host_blocks=64
        )
        self.scheduler.add(Request("first", (1, 2), SamplingParams(max_tokens=1, ignore_eos=True)))
        self.run(2)
        self._beat = None

    @property
    def latest(self) -> EngineSnapshot | None:
        newest = self._beat or super().latest
        if newest is None:
            return None
        return msgspec.structs.replace(newest, info=msgspec.structs.replace(newest.info, num_host_blocks=64))

    def submit(
        self,
        prompt: str | Sequence[int],
        sampling: SamplingParams,
        *,
        priority: int = 0,
        chat: bool = True,
        origin: str = "user",
    ) -> SubmitOutcome:
        self._taken += 1
        name = f"{origin}{self._taken}"
        assert not isinstance(prompt, str)
        outcome = self.scheduler.add(Request(name, tuple(prompt), sampling, priority))
        return SubmitOutcome(outcome.accepted, name)

    def step(self, n: int = 1) -> StepReply:
        self.credits += n
        return StepReply(True, 1)

    def abandon(self, request_id: str, *, is_complete: bool = False) -> None:
        self.abandoned.append(request_id)
        self.scheduler.abort(request_id)

    def pump(self) -> None:
        """One move of the engine's loop: a step where it may, else a heartbeat that shows the state."""
        if self.scheduler.has_work and (not self.policy.paused or self.credits):
            self.credits = max(0, self.credits - 1)
            self._beat = None
            self.run()
            return
        newest = self._history[-1]
        phase = "paused" if self.policy.paused else "idle"
        self._beat = msgspec.structs.replace(newest, step=self.scheduler.peek(), heartbeat=True, phase=phase)


def no_pace(policy: SchedulerPolicy) -> SchedulerPolicy:
    """What decides."""
    return replace(policy, version=0, step_delay_ms=0.0, paused=False, single_step=False)


def conditions() -> Conditions:
    """Conditions of a result that was made up for a test."""
    return Conditions(
        model="toy", is_toy=True, device="cpu", dtype="float32", attention="torch", threads=1, torch_version="2",
        num_blocks=192, block_size=16, max_model_len=256, policy_a=(("batching", "static"),), policy_b=(), seed=8,
        pace_ms=60.0, run_id="run-1", measured_at=0.0,
    )  # fmt: skip
