"""Keeps one worker alive and follows it: the client's only thread that touches process and sockets.

Life of a worker: started (phase "starting"; "down" when it replaces a dead one) -> it says where it listens ("loading",
"restarting") -> its first snapshot (live: the engine's own phase). It is dead when its process ended or has not shown a
beat for ``vital_signs.SILENCE_S``. What is unfinished then goes to the next worker, from the tokens it has.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

import zmq

from model_runner.config import RunnerConfig
from model_runner.conversation import Conversation
from model_runner.follower import Follower
from model_runner.history import History
from model_runner.inbox import Inbox
from model_runner.journal import Journal
from model_runner.link import SchemaError
from model_runner.messages import EXIT_CANNOT_START, Command, EngineSnapshot, Reply, SetPolicy, Shutdown
from model_runner.restarts import MAX_START_FAILURES, StartLuck
from model_runner.situation import Situation
from model_runner.traffic import TrafficClock, TrafficSource
from model_runner.views import ClientState
from model_runner.vital_signs import VitalSigns
from model_runner.waker import Waker
from model_runner.worker_process import DEFAULT_COMMAND, WorkerProcess
from scheduler import SchedulerPolicy

POLL_S = 0.05
END_TIMEOUT_S = 2.0
SUBMITS_A_TURN = 64

_log = logging.getLogger(__name__)


class Supervisor:
    """Worker process, its link, and what follows from both. Public methods may be called from any thread."""

    def __init__(
        self,
        config: RunnerConfig,
        policy: SchedulerPolicy,
        history: History,
        journal: Journal,
        command: Sequence[str] = DEFAULT_COMMAND,
    ) -> None:
        self._config = config
        self._next_policy: SchedulerPolicy | None = None
        self._history = history
        self._journal = journal
        self._command = command
        self._waker = Waker()
        self._inbox = Inbox(self._waker.wake)
        self._closing = False
        self._worker: WorkerProcess | None = None
        self._talk: Conversation | None = None
        self._follower = Follower(history, journal, policy)
        self._run_numbers = itertools.count(1)
        self._situation = Situation()
        self._start_at: float | None = None
        self._luck = StartLuck()
        self._vital_signs = VitalSigns(time.monotonic())
        self._thread = threading.Thread(target=self._run, name="runner-client", daemon=True)

    # Any thread

    def start(self, traffic: TrafficSource) -> None:
        """Start the thread, which starts the worker and lets the traffic flow while one is live."""
        self._follower.traffic = TrafficClock(traffic)
        self._start_at = time.monotonic()
        self._thread.start()

    def close(self, timeout_s: float = 8.0) -> None:
        """End worker and thread, remove the worker's files."""
        self._closing = True
        self._waker.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        worker = self._worker
        if worker is not None and worker.returncode is None:
            worker.end(0.0)

    @property
    def state(self) -> ClientState:
        """How things are now."""
        heard_at = self._follower.heard_at
        return replace(self._situation.state, age_s=None if heard_at is None else max(0.0, time.monotonic() - heard_at))

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force, or that of the next start."""
        return self._next_policy or self._follower.policy

    @property
    def is_live(self) -> bool:
        """True when commands reach an engine."""
        return self._follower.is_live

    def ask(self, command: Command) -> Future[Reply]:
        """Send a command; its ``command_id`` is set here. A worker that dies first answers with ok=False."""
        return self._inbox.ask(command)

    def set_next_policy(self, policy: SchedulerPolicy) -> SchedulerPolicy:
        """The policy for the next worker, or for this one as soon as it is live; its version follows the present."""
        policy = replace(policy, version=self._follower.policy.version + 1)
        self._next_policy = policy
        self._waker.wake()
        return policy

    def _take_next_policy(self) -> SchedulerPolicy | None:
        policy, self._next_policy = self._next_policy, None
        return policy

    def restart(self, config: RunnerConfig) -> None:
        """End this worker, start one with another configuration, go on with what is unfinished."""
        self._inbox.restart(config)

    def observe(self, observer: Callable[[EngineSnapshot], None]) -> None:
        """Show every snapshot from now on to this function, on the supervisor's thread."""
        self._follower.observers = (*self._follower.observers, observer)

    def wake(self) -> None:
        """Look at the journal now."""
        self._waker.wake()

    # The supervisor's thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
            self._situation.stopped()
        except Exception as error:
            _log.exception("the runner's client failed")
            self._situation.failed(f"client error: {type(error).__name__}: {error}")
        finally:
            self._drop_worker(END_TIMEOUT_S)
            self._refuse_inbox("the client is closed")
            self._refresh_state(time.monotonic())
            self._waker.close()

    def _turn(self) -> None:
        now = time.monotonic()
        self._vital_signs.look(now)
        self._take_inbox()
        if self._worker is None and self._start_at is not None and now >= self._start_at:
            self._start_worker()
        if self._worker is not None and self._talk is None and self._worker.hello is not None:
            self._talk = Conversation(self._worker.hello)
            self._situation.listens()
        self._wait()
        if self._talk is not None:
            self._read(self._talk)
        if self._worker is not None:
            self._check_health(self._worker, time.monotonic())
        if self._talk is not None and self.is_live:
            self._send_requests(self._talk)
            self._follower.advance_traffic()
        self._refresh_state(time.monotonic())

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._waker.poll_socket, zmq.POLLIN)
        if self._talk is not None:
            self._talk.register(poller)
        poller.poll(round(POLL_S * 1000))
        self._waker.clear()

    def _take_inbox(self) -> None:
        for item in self._inbox.take():
            if isinstance(item, RunnerConfig):
                self._restart_worker(item)
            else:
                self._answer(*item)

    def _answer(self, command: Command, future: Future[Reply]) -> None:
        reason = f"the engine is {self._situation.state.phase}"
        if self._talk is not None and self.is_live:
            if self._talk.send(command, future):
                return
            reason = "the engine has not read the commands before this one"
        future.set_result(Reply(0, False, 0, (reason,), self._follower.policy.version))

    def _start_worker(self) -> None:
        run_id = f"run-{next(self._run_numbers)}-{int(time.time() * 1000):x}"
        self._start_at = None
        self._follower.begin_run(self._situation.restart_text)
        self._follower.policy = policy = self._take_next_policy() or self._follower.policy
        try:
            latest = self._history.latest
            before = latest.info if latest else None
            self._worker = WorkerProcess(run_id, self._config, policy, self._waker.wake, self._command, before)
        except OSError as error:
            self._give_up(f"no worker can be started: {error}")

    def _read(self, talk: Conversation) -> None:
        try:
            heard = talk.read()
        except SchemaError as error:
            self._give_up(str(error))
            return
        self._follower.take(heard)
        if self._follower.works:
            self._luck.works()
        if self.is_live:
            self._situation.became_live()
            talk.ask_again()

    def _check_health(self, worker: WorkerProcess, now: float) -> None:
        if worker.returncode is not None:
            if self._talk is not None:
                self._read(self._talk)  # what it said before it died
            self._on_death(worker, worker.describe_end(), now)
            return
        cause = self._vital_signs.cause_of_death(worker, self._follower.heard_at if self.is_live else None, now)
        if cause:
            self._on_death(worker, cause, now)

    def _on_death(self, worker: WorkerProcess, reason: str, now: float) -> None:
        hopeless = not self.is_live and worker.returncode == EXIT_CANNOT_START
        self._luck.died(now)
        self._drop_worker(0.0)
        last = self._situation.keep(worker.stderr_tail)
        if hopeless:
            self._give_up(last or reason)
            return
        if self._luck.is_out:
            self._give_up(f"{reason}, {MAX_START_FAILURES} times in a row: {last}")
            return
        _log.warning("the worker is started anew: %s", reason)
        self._situation.died(reason, self._journal.num_unfinished)
        self._start_at = now + self._luck.pause_s(now)

    def _give_up(self, message: str) -> None:
        self._drop_worker(0.0)
        self._situation.failed(message)
        self._start_at = None

    def _restart_worker(self, config: RunnerConfig) -> None:
        had_one = self._worker is not None or self._follower.heard_at is not None
        if self._talk is not None and self.is_live:
            self._talk.send(Shutdown(0))
            self._follow_to_the_end(self._talk)
        self._drop_worker(END_TIMEOUT_S)
        self._config = config
        self._luck.works()
        self._situation.restart_wanted(had_one=had_one)
        self._start_at = time.monotonic()
        self._refresh_state(self._start_at)

    def _follow_to_the_end(self, talk: Conversation) -> None:
        """Read until the engine has published its last snapshot, so that no token is computed twice."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while time.monotonic() < deadline and self._worker is not None and self._talk is talk:
            self._wait()
            self._read(talk)
            latest = self._history.latest
            if self._worker is None or self._worker.returncode is not None:
                return
            if latest is not None and latest.run_id == self._worker.run_id and latest.phase == "stopping":
                return

    def _drop_worker(self, timeout_s: float) -> None:
        """End the worker and put everything it had back into the journal."""
        worker, talk = self._worker, self._talk
        self._worker = self._talk = None
        if talk is not None:
            talk.close("the worker went down before it answered", self._follower.policy.version)
        if worker is not None:
            worker.end(timeout_s)
        self._follower.end_run()

    def _refuse_inbox(self, reason: str) -> None:
        for item in self._inbox.take():
            if not isinstance(item, RunnerConfig):
                item[1].set_result(Reply(0, False, 0, (reason,), self._follower.policy.version))

    def _send_requests(self, talk: Conversation) -> None:
        latest = self._history.latest
        if latest is None or latest.phase in ("failed", "stopping"):
            return
        policy = self._take_next_policy()
        if policy is not None:
            talk.send(SetPolicy(0, policy))
        for submit in self._journal.unsent(latest.info.model, SUBMITS_A_TURN):
            if not talk.send(submit):
                return
            self._journal.sent(submit.request_id)

    def _refresh_state(self, now: float) -> None:
        self._situation.refresh(self._follower.phase(now), None if self._worker is None else self._worker.progress)
