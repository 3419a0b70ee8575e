"""One scene on the live engine: clear it, hold it, let the burst in, let go, and keep what its iterations say.

A script is a generator that yields whenever there is nothing to do but wait; who drives it sleeps, the engine never.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from dashboard.i18n import N_
from dashboard.lesson.facts import Measured, measure
from dashboard.lesson.lives import Own, Seen, trimmed
from dashboard.lesson.scene import Scene, SceneError, Side, check, policy_of, prompts
from dashboard.lesson.verdict import Conditions, Result
from dashboard.values import policy_diff
from model_runner.messages import EngineInfo, EngineSnapshot
from scheduler import SamplingParams, SchedulerPolicy

if TYPE_CHECKING:
    from dashboard.desk import Desk
    from model_runner.client import RunnerClient

Stage = Literal["clearing", "a", "b"]
ORIGIN: Final = "lesson"
PACE: Final = ("step_delay_ms", "paused", "single_step")
"""Fields the presenter may move while a scene runs: they change no decision."""
MAX_STEPS: Final = 4000
MADE_UP: Final = 256
"""So many of the newest requests are looked through for arrivals that were made up; more do not wait at once."""
STILL_S: Final = 30.0
"""So long without an iteration, though nobody holds the engine, and the scene gives up."""
NOT_FOLLOWED: Final = N_("Iterations of this run were missed, so nothing can be said of it. Start the scene again.")


@dataclass
class Script:
    """Drives one scene. stage, waiting_for and ended tell how far it is. clock: seconds that never go back.

    Raises SceneError out of ``moves`` when the scene cannot be measured.
    """

    client: RunnerClient
    desk: Desk
    scene: Scene
    clock: Callable[[], float] = time.monotonic
    stage: Stage = "clearing"
    waiting_for: int = 0
    ended: int = 0
    ids: list[str] = field(default_factory=list)
    result: Result | None = None

    def moves(self) -> Iterator[None]:
        """The whole scene, one wait at a time; afterwards ``result`` is there."""
        info = self._info()
        check(self.scene, info)
        a, b = self.scene.a, self.scene.b
        assert a is not None
        assert b is not None
        self._quiet()
        yield from self._empty()
        self.stage = "a"
        first = yield from self._run(a, info)
        yield from self._empty()
        self.stage = "b"
        second = yield from self._run(b, info)
        self.result = Result(self.scene.name, first, second, self._conditions(info))

    def _info(self) -> EngineInfo:
        latest = self.client.latest
        if latest is None:
            raise SceneError(N_("The engine is not there yet."))
        return latest.info

    def _quiet(self) -> None:
        traffic = self.client.traffic
        traffic.set(replace(traffic.spec, enabled=False))
        self._change(
            lambda now: replace(now, paused=False, single_step=False, admission_paused=False, step_delay_ms=0.0)
        )

    def _change(self, edit: Callable[[SchedulerPolicy], SchedulerPolicy]) -> int:
        """Put a policy in force; the first iteration it governs."""
        reply = self.desk.change(edit).reply
        if not reply.accepted:
            raise SceneError(N_("The engine refused: {reason}"), reason="; ".join(reply.reasons))
        return reply.step_id

    def _empty(self) -> Iterator[None]:
        """Until nobody runs and nobody waits. Arrivals that were made up are ended, for nobody waits for their answers;
        what a person or a program asked for is let end, however long that takes."""
        while True:
            for view in self.client.requests(MADE_UP):
                if view.origin == "traffic" and not view.outcome:
                    self.client.abandon(view.request_id)
            latest = self._latest("")
            self.waiting_for = len(latest.step.running) + latest.step.num_waiting
            if not self.waiting_for and not self._unsent():
                return
            yield

    def _unsent(self) -> bool:
        return any(view.state == "queued" for view in self.client.requests(64) if not view.outcome)

    def _latest(self, run_id: str) -> EngineSnapshot:
        latest = self.client.latest
        if latest is None or (run_id and latest.run_id != run_id):
            raise SceneError(N_("The engine was started again during the run. Start the scene again."))
        return latest

    def _run(self, side: Side, info: EngineInfo) -> Generator[None, None, Measured]:
        """One side: held while the burst comes in, so that every run begins alike, and let go afterwards."""
        policy = policy_of(side, info, pace_ms=self.scene.pace_ms)
        first = self._change(lambda _: replace(policy, paused=True))
        self._latest(info.run_id)
        follow = _Follower(self.client, info.run_id, first, policy)
        own: dict[str, Own] = {}
        self.ended = 0
        for at in sorted({r.at for r in self.scene.burst}):
            yield from self._hold_until(follow, at)
            own |= self._submit(at, len(follow.seen))
            yield from self._arrived(info.run_id, list(own))
        self._change(lambda now: replace(now, paused=False))
        since = self.clock()
        while not follow.all_ended(own):
            moved = follow.take()
            self.ended = follow.num_ended(own)
            latest = self._latest(info.run_id)
            if moved or latest.phase == "paused":
                since = self.clock()
            if self.clock() - since > STILL_S:
                raise SceneError(N_("No iteration within {n} s: the engine does not go on."), n=round(STILL_S))
            yield
        return measure(trimmed(follow.seen, own))

    def _submit(self, at: int, seen: int) -> dict[str, Own]:
        own = {}
        for index, (asked, prompt) in enumerate(zip(self.scene.burst, prompts(self.scene), strict=True)):
            if asked.at != at:
                continue
            sampling = SamplingParams(max_tokens=asked.output, ignore_eos=True, seed=self.scene.seed + index)
            outcome = self.client.submit(prompt, sampling, priority=asked.priority, origin=ORIGIN)
            if not outcome.accepted:
                raise SceneError(N_("The engine refused: {reason}"), reason="; ".join(outcome.reasons))
            own[outcome.request_id] = Own(asked.role, seen)
            self.ids.append(outcome.request_id)
        return own

    def _arrived(self, run_id: str, ids: list[str]) -> Iterator[None]:
        """Until the engine has all of them; one it rejects ends the scene."""
        since = self.clock()
        while True:
            step = self._latest(run_id).step
            here = {*step.running.request_id, *step.waiting.request_id}
            views = [view for r in ids if r not in here and (view := self.client.request(r)) is not None]
            rejected = next((v for v in views if v.outcome == "rejected"), None)
            if rejected:
                raise SceneError(N_("The engine refused: {reason}"), reason=rejected.reason)
            if all(r in here or any(v.request_id == r and v.outcome for v in views) for r in ids):
                return
            if self.clock() - since > STILL_S:
                raise SceneError(N_("No iteration within {n} s: the engine does not go on."), n=round(STILL_S))
            yield

    def _hold_until(self, follow: _Follower, at: int) -> Iterator[None]:
        """Let exactly so many iterations of this run pass."""
        missing = at - len(follow.seen)
        if missing <= 0:
            return
        reply = self.client.step(missing)
        if not reply.accepted:
            raise SceneError(N_("The engine refused: {reason}"), reason="; ".join(reply.reasons))
        since = self.clock()
        while len(follow.seen) < at:
            since = self.clock() if follow.take() else since
            if self.clock() - since > STILL_S:
                raise SceneError(N_("No iteration within {n} s: the engine does not go on."), n=round(STILL_S))
            yield

    def _conditions(self, info: EngineInfo) -> Conditions:
        def told(side: Side | None) -> tuple[tuple[str, Any], ...]:
            assert side is not None
            changed = policy_diff(SchedulerPolicy(), policy_of(side, info))
            return tuple((name, value) for name, _, value in changed)

        return Conditions(
            model=info.model,
            is_toy=info.is_toy,
            device=info.device,
            dtype=info.dtype,
            attention=info.attention,
            threads=info.threads,
            torch_version=info.torch_version,
            num_blocks=info.num_blocks,
            block_size=info.block_size,
            max_model_len=info.max_model_len,
            policy_a=told(self.scene.a),
            policy_b=told(self.scene.b),
            seed=self.scene.seed,
            pace_ms=self.scene.pace_ms,
            run_id=info.run_id,
            measured_at=time.time(),
        )


class _Follower:
    """Takes each iteration of one engine run from the client's history once, beginning with the step ``first``."""

    def __init__(self, client: RunnerClient, run_id: str, first: int, policy: SchedulerPolicy) -> None:
        self._client = client
        self._run_id = run_id
        self._last = first - 1
        self._policy = policy
        self.seen: list[Seen] = []
        self._ended: set[str] = set()

    def take(self) -> int:
        """How many iterations were new. Raises SceneError for a hole, a restart, and a policy changed by hand."""
        fresh = self._fresh()
        for snapshot in fresh:
            if snapshot.step.step_id != self._last + 1:
                raise SceneError(NOT_FOLLOWED)
            changed = [n for n, _, _ in policy_diff(self._policy, snapshot.step.policy) if n not in PACE]
            if changed:
                raise SceneError(
                    N_("{fields} was changed during the run, so A and B cannot be compared. Start the scene again."),
                    fields=", ".join(changed),
                )
            self._last = snapshot.step.step_id
            self.seen.append(Seen(snapshot.step, snapshot.step_s))
            self._ended.update(snapshot.step.finished)
        if len(self.seen) > MAX_STEPS:
            raise SceneError(N_("More than {n} iterations: this is not the scene that was meant."), n=MAX_STEPS)
        return len(fresh)

    def _fresh(self) -> list[EngineSnapshot]:
        count = 64
        while True:
            steps = self._client.history(count)
            fresh = [s for s in steps if s.run_id == self._run_id and s.step.step_id > self._last]
            if len(fresh) < len(steps) or len(steps) < count:
                return fresh
            count *= 4

    def num_ended(self, own: dict[str, Own]) -> int:
        """How many of them have ended."""
        return len(self._ended & own.keys())

    def all_ended(self, own: dict[str, Own]) -> bool:
        """Whether all of them have. Raises SceneError when one was aborted."""
        done = self.num_ended(own) == len(own)
        if done and any(r.outcome != "finished" for s in self.seen for r in s.step.records if r.request_id in own):
            raise SceneError(N_("A request of the scene was aborted. Start the scene again."))
        return done
