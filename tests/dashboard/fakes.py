"""A client without a worker: the real scheduler, stepped by the test, behind the surface the page uses."""

from __future__ import annotations

import time
from dataclasses import replace

from msgspec import structs

from dashboard.desk import Desk
from dashboard.engine import Engine
from dashboard.hub import Hub
from model_runner.config import RunnerConfig
from model_runner.messages import SCHEMA_VERSION, EngineInfo, EngineSnapshot
from model_runner.traffic import TrafficSpec
from model_runner.views import ClientState, Mark, PolicyReply, RequestView, StepReply, SubmitOutcome
from scheduler import (
    AbortOutcome,
    PreemptOutcome,
    Request,
    SamplingParams,
    Scheduler,
    SchedulerPolicy,
    StepResult,
    StepSnapshot,
)


class Clock:
    """Seconds, moved by the test."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeTraffic:
    def __init__(self) -> None:
        self.spec = TrafficSpec()
        self.bursts: list[int] = []

    def set(self, spec: TrafficSpec) -> tuple[str, ...]:
        self.spec = spec
        return ()

    def burst(self, n: int) -> int:
        self.bursts.append(n)
        return n


class FakeClient:
    """The calls of ``RunnerClient`` that the page makes. ``run(n)`` computes n steps of the real scheduler."""

    def __init__(self, policy: SchedulerPolicy | None = None, *, num_blocks: int = 32, block_size: int = 4) -> None:
        self.config = RunnerConfig(model="toy", num_blocks=num_blocks, block_size=block_size)
        self.traffic = FakeTraffic()
        self.state = ClientState("running", time.time(), 0.1, "", None, 0)
        self.restarts: list[RunnerConfig] = []
        self.steps_asked = 0
        self.views: dict[str, RequestView] = {}
        self._marks: list[Mark] = []
        self._history: list[EngineSnapshot] = []
        self._clock = Clock()
        self._seq = 0
        self._beat: EngineSnapshot | None = None
        self.start_run("run-1", policy or SchedulerPolicy())

    def start_run(self, run_id: str, policy: SchedulerPolicy) -> None:
        """As after a start of a worker: an empty scheduler whose steps begin again."""
        self.run_id = run_id
        config = self.config
        self.scheduler = Scheduler(
            policy, num_blocks=config.num_blocks, block_size=config.block_size, max_model_len=256, clock=self._clock
        )

    @property
    def policy(self) -> SchedulerPolicy:
        return self.scheduler.policy

    @property
    def latest(self) -> EngineSnapshot | None:
        return self._beat or (self._history[-1] if self._history else None)

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._marks)

    def history(self, last: int | None = None) -> tuple[EngineSnapshot, ...]:
        return tuple(self._history if last is None else self._history[-last:])

    def add(self, request_id: str, prompt: int, output: int, priority: int = 0, origin: str = "traffic") -> None:
        """A request of so many prompt and output tokens."""
        sampling = SamplingParams(max_tokens=output, ignore_eos=True)
        outcome = self.scheduler.add(Request(request_id, tuple(range(1, prompt + 1)), sampling, priority))
        assert outcome.accepted, outcome.reason
        self.views[request_id] = RequestView(
            request_id=request_id, origin=origin, prompt_text="a prompt", num_prompt_tokens=prompt, text="", tokens=(),
            max_tokens=output, seed=1, priority=priority, state="waiting", outcome="", reason="", submitted_at=0.0,
            num_restarts=0,
        )  # fmt: skip

    def run(self, steps: int = 1) -> StepSnapshot:
        """Compute steps; every sampled token is 7."""
        for _ in range(steps):
            step = self.scheduler.schedule()
            self._clock.now += 0.1
            snapshot = self.scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 7)))
            self._publish(snapshot)
        return self._history[-1].step

    def beat(self) -> None:
        """As while the engine is held: a message between two steps, which is no part of the history."""
        newest = self._history[-1]
        self._seq += 1
        self._beat = structs.replace(newest, seq=self._seq, step=self.scheduler.peek(), heartbeat=True, step_s=0.0)

    def show(self, step: StepSnapshot) -> None:
        """Publish a hand-made snapshot as the newest."""
        self._publish(step)

    def _publish(self, step: StepSnapshot) -> None:
        self._seq += 1
        self._beat = None
        for event in step.events:
            if event.kind == "policy_changed":
                text = "; ".join(f"{k} {v}" for k, v in event.numbers.items() if k != "version")
                version = step.policy.version
                self._marks.append(Mark("policy", self.run_id, event.step_id, time.time(), version, text))
        self._history.append(
            EngineSnapshot(
                schema=SCHEMA_VERSION, seq=self._seq, run_id=self.run_id, phase="running", heartbeat=False,
                wall_time=time.time(), monotonic_time=self._clock.now, engine_time=self._clock.now,
                step_s=0.1, step=step,
                text_deltas={}, info=info(self.config, self.run_id),
            )
        )  # fmt: skip

    def request(self, request_id: str) -> RequestView | None:
        return self.views.get(request_id)

    def requests(self, last: int = 500) -> tuple[RequestView, ...]:
        return tuple(self.views.values())[-last:]

    def submit(
        self, prompt: str, sampling: SamplingParams, *, priority: int = 0, chat: bool = True, origin: str = "user"
    ) -> SubmitOutcome:
        request_id = f"u{len(self.views)}"
        self.add(request_id, len(prompt.split()), sampling.max_tokens or 8, priority, origin)
        self.views[request_id] = replace(self.views[request_id], prompt_text=prompt)
        return SubmitOutcome(True, request_id)

    def abort(self, request_id: str | None = None) -> AbortOutcome:
        return self.scheduler.abort(request_id or "")

    def preempt(self, request_id: str) -> PreemptOutcome:
        return self.scheduler.preempt(request_id)

    def set_policy(self, policy: SchedulerPolicy) -> PolicyReply:
        outcome = self.scheduler.set_policy(policy)
        step_id = self._history[-1].step.step_id + 1 if self._history else 1
        return PolicyReply(outcome.accepted, outcome.version, step_id, outcome.reasons)

    def step(self, n: int = 1) -> StepReply:
        self.steps_asked += n
        return StepReply(True, 1)

    def restart(self, config: RunnerConfig | None = None) -> None:
        self.restarts.append(config or self.config)


def info(config: RunnerConfig, run_id: str) -> EngineInfo:
    """What a worker with the toy model says of itself."""
    return EngineInfo(
        run_id=run_id, pid=1, model="toy", model_note="random weights", num_parameters=100_000, device="cpu",
        dtype="float32", threads=1, block_size=config.block_size, num_blocks=config.num_blocks, max_model_len=256,
        kv_bytes_per_token=64, weight_bytes=400_000, torch_version="2", is_toy=True,
    )  # fmt: skip


def engine_with(client: FakeClient) -> Engine:
    """What ``dashboard.engine.shared`` would give, with this client."""
    return Engine(client, Hub(client), Desk(client))  # type: ignore[arg-type]
