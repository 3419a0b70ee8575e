"""``RunnerClient``: the one object through which a page or an HTTP route sees and steers the runner."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType

from model_runner.commands import MAX_PROMPT_CHARS
from model_runner.config import RunnerConfig
from model_runner.history import History
from model_runner.journal import Journal
from model_runner.link import sending_problem
from model_runner.messages import Abort, Command, EngineSnapshot, Preempt, Reply, SetPolicy, Step, Submit, Turn
from model_runner.supervisor import Supervisor
from model_runner.traffic import Arrival, TrafficSource, TrafficSpec
from model_runner.views import ClientState, Mark, PolicyReply, RequestView, StepReply, SubmitOutcome
from model_runner.watch import Watch
from model_runner.worker_process import DEFAULT_COMMAND
from scheduler import AbortOutcome, PreemptOutcome, SamplingParams, SchedulerPolicy, problems

ANSWER_TIMEOUT_S = 5.0
NEWEST_REQUESTS = 500


class RunnerClient:
    """Starts a worker, follows it, replaces it when it dies, and loses no request over it. Thread-safe.

    config, policy: of the first start. traffic: what arrives by itself; None = the default spec.
    worker_command: how a worker is started; tests put another in its place.
    """

    def __init__(
        self,
        config: RunnerConfig | None = None,
        policy: SchedulerPolicy | None = None,
        *,
        traffic: TrafficSpec | None = None,
        worker_command: Sequence[str] = DEFAULT_COMMAND,
    ) -> None:
        self._config = config or RunnerConfig()
        self._history = History()
        self._journal = Journal()
        self._supervisor = Supervisor(
            self._config, policy or SchedulerPolicy(), self._history, self._journal, worker_command
        )
        self._traffic = TrafficSource(self._arrive, self._traffic_changed, traffic)
        self._lifetime = threading.Lock()
        self._started = False
        self._closed = False

    def start(self) -> None:
        """Start thread and worker; returns at once. A second call does nothing."""
        with self._lifetime:
            if self._started or self._closed:
                return
            self._started = True
            atexit.register(self.close)
            self._supervisor.start(self._traffic)

    def close(self) -> None:
        """End worker, thread and files, within a few seconds. A second call does nothing."""
        with self._lifetime:
            if self._closed:
                return
            self._closed = True
            atexit.unregister(self.close)
            if self._started:
                self._supervisor.close()

    def __enter__(self) -> RunnerClient:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def config(self) -> RunnerConfig:
        """What the present or next worker is started with."""
        return self._config

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force."""
        return self._supervisor.policy

    @property
    def state(self) -> ClientState:
        """How the engine is."""
        return self._supervisor.state

    @property
    def latest(self) -> EngineSnapshot | None:
        """The newest snapshot, heartbeats included; None before the first."""
        return self._history.latest

    def history(self, last: int | None = None) -> tuple[EngineSnapshot, ...]:
        """Snapshots of the newest steps (2,000 at most, of all runs), oldest first."""
        return self._history.steps(last)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Changes of policy and traffic, restarts and gaps, oldest first."""
        return self._history.marks

    def request(self, request_id: str) -> RequestView | None:
        """One request with its text so far; None when it is unknown or long gone."""
        return self._journal.view(request_id, self._row_states())

    def requests(self, last: int = NEWEST_REQUESTS) -> tuple[RequestView, ...]:
        """The newest requests, oldest first."""
        return self._journal.views(last, self._row_states())

    @property
    def num_unfinished(self) -> int:
        """Requests that were accepted and have not ended, with or without a worker."""
        return self._journal.num_unfinished

    def submit(
        self,
        prompt: str | Sequence[int] | Sequence[Turn],
        sampling: SamplingParams | None = None,
        *,
        priority: int = 0,
        chat: bool = True,
        origin: str = "user",
    ) -> SubmitOutcome:
        """Take a request in; returns at once.

        prompt: text, or token ids, or the turns of a conversation (chat has a meaning for text only). Accepted means
        that it will end exactly once: as finished, aborted or rejected (what only the engine can judge, as a prompt
        longer than the pool, shows as ``outcome`` "rejected" with its reason). It is accepted while the worker is down
        too, and runs afterwards.
        """
        reason = self._unavailable
        if reason:
            return SubmitOutcome(False, reasons=(reason,), refusal="unavailable")
        sampling = SamplingParams() if sampling is None else sampling
        kept = _submit(prompt, sampling, chat, priority)
        reason = _prompt_problem(kept) or sending_problem(kept)
        if reason:
            return SubmitOutcome(False, reasons=(reason,), refusal="invalid")
        outcome = self._journal.add(kept, origin)
        self._supervisor.wake()
        return outcome

    @property
    def _unavailable(self) -> str:
        state = self._supervisor.state
        if self._closed:
            return "the client is closed"
        return f"the runner has failed and must be restarted: {state.message}" if state.phase == "failed" else ""

    def watch(self, request_id: str, wake: Callable[[], None]) -> Watch | None:
        """Hear of a request from its beginning; None when it is unknown or long gone.

        wake: called from the client's thread when there is news; it must neither block nor call back. After the news
        with an ``outcome`` there is none. ``unwatch`` ends it earlier.
        """
        watch = Watch(request_id, wake)
        return watch if self._journal.watch(watch) else None

    def unwatch(self, watch: Watch) -> None:
        """No more news are wanted."""
        self._journal.unwatch(watch)

    def observe(self, observer: Callable[[EngineSnapshot], None]) -> None:
        """Show every snapshot from now on to this function, on the client's thread, in order and each once.

        It must be quick. One that raises goes on being called; the log has its first error.
        """
        self._supervisor.observe(observer)

    def abandon(self, request_id: str, *, is_complete: bool = False) -> None:
        """As ``abort``, without waiting for the engine's answer: nobody reads it any more.

        is_complete: its reader has found a stop string; then it counts as finished by "stop", not as aborted.
        """
        if self._journal.status(request_id) != "unfinished":
            return
        if not self._journal.abort_asked(request_id, is_complete=is_complete):
            self._supervisor.ask(Abort(0, request_id))

    def abort(self, request_id: str | None = None) -> AbortOutcome:
        """End one request, or all unfinished ones with None."""
        status = "unfinished" if request_id is None else self._journal.status(request_id)
        if status != "unfinished":
            return AbortOutcome("unknown" if status == "unknown" else "already_finished")
        had_any = self._journal.num_unfinished > 0
        ended_here = self._journal.abort_asked(request_id)
        if request_id is not None and ended_here:
            return AbortOutcome("aborted")
        reply = self._ask(Abort(0, request_id))
        if reply is not None and reply.kind in ("aborted", "already_finished"):
            return AbortOutcome("aborted" if ended_here or reply.kind == "aborted" else "already_finished")
        # Without an answer the journal ends it: no other worker gets a request that was to be aborted.
        return AbortOutcome("aborted" if had_any else "unknown")

    def preempt(self, request_id: str) -> PreemptOutcome:
        """Evict a running request in the next step, by the preemption mode in force; it keeps its tokens and resumes.

        "not_running" also when no engine is there, or none answers.
        """
        if self._journal.status(request_id) != "unfinished":
            return PreemptOutcome("unknown")
        reply = self._ask(Preempt(0, request_id))
        if reply is not None and reply.kind == "preempted":
            return PreemptOutcome("preempted")
        return PreemptOutcome("unknown" if reply is not None and reply.kind == "unknown" else "not_running")

    def set_policy(self, policy: SchedulerPolicy) -> PolicyReply:
        """Put a policy in force from the next step; while no engine is there, from the next start."""
        found = tuple(problems(policy)) or tuple(filter(None, (sending_problem(SetPolicy(0, policy)),)))
        if found:
            return PolicyReply(False, self.policy.version, 0, found)
        if not self._supervisor.is_live:
            return PolicyReply(True, self._supervisor.set_next_policy(policy).version, 0)
        reply = self._ask(SetPolicy(0, policy))
        if reply is None:
            return PolicyReply(False, self.policy.version, 0, (_NO_ANSWER,))
        return PolicyReply(reply.ok, reply.version, reply.step_id, reply.reasons)

    def step(self, n: int = 1) -> StepReply:
        """While the engine is held (``paused`` or ``single_step``), run n iterations."""
        reason = sending_problem(Step(0, n))
        if reason:
            return StepReply(False, 0, (reason,))
        reply = self._ask(Step(0, n))
        if reply is None:
            return StepReply(False, 0, (_NO_ANSWER,))
        return StepReply(reply.ok, reply.step_id, reply.reasons)

    def restart(self, config: RunnerConfig | None = None) -> None:
        """Start another worker with this configuration (None = the same); returns at once.

        Unfinished requests go on from the tokens they have; with another model they begin again from their prompt.
        """
        self._config = config or self._config
        self._supervisor.restart(self._config)

    @property
    def traffic(self) -> TrafficSource:
        """What arrives by itself."""
        return self._traffic

    def _ask(self, command: Command) -> Reply | None:
        try:
            return self._supervisor.ask(command).result(ANSWER_TIMEOUT_S)
        except FutureTimeoutError:
            return None

    def _arrive(self, arrival: Arrival) -> bool:
        return self.submit(arrival.prompt, arrival.sampling, priority=arrival.priority, origin="traffic").accepted

    def _traffic_changed(self, text: str) -> None:
        self._history.mark("traffic", text)

    def _row_states(self) -> dict[str, str]:
        latest = self._history.latest
        if latest is None:
            return {}
        states = dict.fromkeys(latest.step.running.request_id, "running")
        states.update(zip(latest.step.waiting.request_id, latest.step.waiting.status, strict=True))
        return states


def _submit(
    prompt: str | Sequence[int] | Sequence[Turn], sampling: SamplingParams, chat: bool, priority: int
) -> Submit:
    if isinstance(prompt, str):
        return Submit(0, "", sampling, prompt, None, chat, priority)
    turns = tuple(item for item in prompt if isinstance(item, Turn))
    if turns:
        return Submit(0, "", sampling, None, None, True, priority, turns=turns)
    return Submit(0, "", sampling, None, tuple(item for item in prompt if not isinstance(item, Turn)), chat, priority)


def _prompt_problem(kept: Submit) -> str:
    size = len(kept.prompt_text or kept.prompt_token_ids or ()) + sum(len(turn.content) for turn in kept.turns)
    if size == 0 and not kept.turns:
        return "prompt: empty, at least one character or token is needed"
    if size > MAX_PROMPT_CHARS:
        return f"prompt: {size} characters or tokens, at most {MAX_PROMPT_CHARS} are allowed"
    return ""


_NO_ANSWER = f"the engine has not answered within {ANSWER_TIMEOUT_S:g} s; what it does next shows in the snapshots"
