"""Keeps one worker alive and follows it: the client's only thread that touches process and sockets.

Life of a worker: started (phase "starting"; "down" when it replaces a dead one) -> it says where it listens ("loading",
"restarting") -> its first snapshot (live: the engine's own phase). It is dead when its process ended or has not shown a
beat for ``SILENCE_S``. What is unfinished then goes to the next worker, from the tokens it has.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import msgspec
import zmq

from model_runner.config import RunnerConfig
from model_runner.health import StallWatch
from model_runner.history import History
from model_runner.journal import Journal
from model_runner.link import CaughtUp, ReaderLink, Received, SchemaError, SnapshotFeed
from model_runner.messages import Command, Reply, Resync, SetPolicy, Shutdown, Submit
from model_runner.traffic import TrafficSource
from model_runner.views import ClientPhase, ClientState
from model_runner.waker import Waker
from model_runner.worker_process import DEFAULT_COMMAND, WorkerProcess
from scheduler import SchedulerPolicy

SILENCE_S = 2.0
"""Without a beat for so long a live worker counts as dead. Beats come from a thread of its own, four a second."""
LOADING_SILENCE_S = 60.0
"""The same while it loads: libraries hold the interpreter for seconds there."""
HUNG_STEP_S = 120.0
"""A step that takes longer is given up with its worker."""
MAX_START_FAILURES = 3
EXIT_CANNOT_START = 2
STORM_DEATHS, STORM_WINDOW_S, STORM_PAUSE_S = 10, 60.0, 2.0
"""So many deaths in the window, and each further start waits a while."""
RESYNC_TIMEOUT_S = 2.0
POLL_S = 0.05
END_TIMEOUT_S = 2.0
EXTRAPOLATE_S = 0.5
SUBMITS_A_TURN = 64

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A command on its way: to whom its answer goes, and since when."""

    command: Command
    sent_at: float
    future: Future[Reply] | None = None


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
        self.traffic: TrafficSource | None = None
        self._config = config
        self._policy = policy
        self._next_policy: SchedulerPolicy | None = None
        self._history = history
        self._journal = journal
        self._command = command
        self._waker = Waker()
        self._inbox: queue.SimpleQueue[tuple[Command, Future[Reply]] | RunnerConfig] = queue.SimpleQueue()
        self._closing = False
        self._worker: WorkerProcess | None = None
        self._link: ReaderLink | None = None
        self._feed = SnapshotFeed()
        self._stall = StallWatch()
        self._pending: dict[int, _Pending] = {}
        self._command_ids = itertools.count(1)
        self._run_numbers = itertools.count(1)
        self._base: ClientPhase = "starting"
        self._message = ""
        self._detail: tuple[str, ...] = ()
        self._restarts = 0
        self._restart_text = ""
        self._start_at: float | None = None
        self._start_failures = 0
        self._deaths: deque[float] = deque(maxlen=STORM_DEATHS)
        self._live_since: float | None = None
        self._heard_at: float | None = None
        self._turned_at = time.monotonic()
        self._grace_until = 0.0
        self._traffic_time = 0.0
        self._state = ClientState("starting", time.time(), None, "", None, 0)
        self._thread = threading.Thread(target=self._run, name="runner-client", daemon=True)

    # Any thread

    def start(self) -> None:
        """Start the thread, which starts the worker."""
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
        heard_at = self._heard_at
        return replace(self._state, age_s=None if heard_at is None else max(0.0, time.monotonic() - heard_at))

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force, or that of the next start."""
        return self._next_policy or self._policy

    @property
    def is_live(self) -> bool:
        """True when commands reach an engine."""
        return self._live_since is not None

    def ask(self, command: Command) -> Future[Reply]:
        """Send a command; its ``command_id`` is set here. A worker that dies first answers with ok=False."""
        future: Future[Reply] = Future()
        self._inbox.put((command, future))
        self._waker.wake()
        return future

    def set_next_policy(self, policy: SchedulerPolicy) -> SchedulerPolicy:
        """The policy for the next worker, or for this one as soon as it is live; its version follows the present."""
        policy = replace(policy, version=self._policy.version + 1)
        self._next_policy = policy
        self._waker.wake()
        return policy

    def _take_next_policy(self) -> SchedulerPolicy | None:
        policy, self._next_policy = self._next_policy, None
        return policy

    def restart(self, config: RunnerConfig) -> None:
        """End this worker, start one with another configuration, go on with what is unfinished."""
        self._inbox.put(config)
        self._waker.wake()

    def wake(self) -> None:
        """Look at the journal now."""
        self._waker.wake()

    # The supervisor's thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
            self._base, self._message = "stopped", ""
        except Exception as error:
            _log.exception("the runner's client failed")
            self._base, self._message = "failed", f"client error: {type(error).__name__}: {error}"
        finally:
            self._drop_worker(END_TIMEOUT_S)
            self._refuse_pending("the client is closed")
            self._refresh_state(time.monotonic())
            self._waker.close()

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._turned_at > 4 * POLL_S:
            self._grace_until = now + SILENCE_S  # this process itself stood still: others had no chance to be heard
        self._turned_at = now
        self._take_inbox()
        if self._worker is None and self._start_at is not None and now >= self._start_at:
            self._start_worker()
        if self._worker is not None and self._link is None and self._worker.hello is not None:
            self._connect(self._worker)
        self._wait()
        if self._link is not None:
            self._read(self._link)
        if self._worker is not None:
            self._check_health(self._worker, time.monotonic())
        if self._link is not None and self.is_live:
            self._send_requests(self._link)
            self._advance_traffic(time.monotonic())
        self._refresh_state(time.monotonic())

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._waker.poll_socket, zmq.POLLIN)
        if self._link is not None:
            poller.register(self._link.dealer, zmq.POLLIN)
            poller.register(self._link.sub, zmq.POLLIN)
        poller.poll(round(POLL_S * 1000))
        self._waker.clear()

    def _take_inbox(self) -> None:
        while True:
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(item, RunnerConfig):
                self._restart_worker(item)
            else:
                self._send(item[0], item[1])

    def _send(self, command: Command, future: Future[Reply] | None = None) -> bool:
        number = next(self._command_ids)
        command = msgspec.structs.replace(command, command_id=number)
        reason = "" if self._link is not None and self.is_live else f"the engine is {self._state.phase}"
        if not reason and self._link is not None and not self._link.send(command):
            reason = "the engine has not read the commands before this one"
        if reason:
            if future is not None:
                future.set_result(Reply(number, False, 0, (reason,), self._policy.version))
            return False
        self._pending[number] = _Pending(command, time.monotonic(), future)
        return True

    def _start_worker(self) -> None:
        run_id = f"run-{next(self._run_numbers)}-{int(time.time() * 1000):x}"
        self._start_at = None
        self._feed, self._stall = SnapshotFeed(), StallWatch()
        self._policy = self._take_next_policy() or self._policy
        self._worker = WorkerProcess(run_id, self._config, self._policy, self._waker.wake, self._command)

    def _connect(self, worker: WorkerProcess) -> None:
        assert worker.hello is not None
        self._link = ReaderLink(worker.hello.commands, worker.hello.snapshots)
        self._base = "restarting" if self._restart_text else "loading"
        self._resync(time.monotonic())  # a subscription takes a moment: the first snapshots come by this answer

    def _read(self, link: ReaderLink) -> None:
        for reply in link.replies():
            self._on_reply(reply)
        try:
            snapshots = link.snapshots()
        except SchemaError as error:
            self._give_up(str(error))
            return
        for snapshot in snapshots:
            received = self._feed.take(snapshot)
            if received is not None:
                self._journal.apply(received.snapshot)
                self._show(received)
        self._ask_for_missing()

    def _ask_for_missing(self) -> None:
        now = time.monotonic()
        if self.is_live:  # while it loads, no engine is there to answer
            for number in [key for key, item in self._pending.items() if isinstance(item.command, Resync)]:
                if now - self._pending[number].sent_at > RESYNC_TIMEOUT_S:
                    del self._pending[number]
                    self._feed.unanswered()
        if self._feed.needs_resync:
            self._resync(now)

    def _resync(self, now: float) -> None:
        command = Resync(next(self._command_ids), self._feed.last_seq)
        if self._link is not None and self._link.send(command):
            self._pending[command.command_id] = _Pending(command, now)
            self._feed.asked()

    def _on_reply(self, reply: Reply) -> None:
        pending = self._pending.pop(reply.command_id, None)
        if pending is None:
            return
        command = pending.command
        if isinstance(command, Resync):
            self._catch_up(self._feed.catch_up(reply.snapshots, reply.states))
        elif isinstance(command, SetPolicy) and reply.ok:
            self._policy = replace(command.policy, version=reply.version)
        elif isinstance(command, Submit):
            self._journal.answered(command.request_id, reply)
        if pending.future is not None:
            pending.future.set_result(reply)

    def _catch_up(self, caught: CaughtUp) -> None:
        missed = caught.snapshots[: caught.states_after]
        if caught.gap:
            records = {r.request_id: r for received in missed for r in received.snapshot.step.records}
            self._journal.replace(caught.states, records)
        for index, received in enumerate(caught.snapshots):
            if not caught.gap or index >= caught.states_after:
                self._journal.apply(received.snapshot)
            self._show(received)
        if caught.gap and len(caught.snapshots) and self._heard_at is not None:
            self._history.mark("gap", "this reader was too slow; some steps are not shown, no token is missing")

    def _show(self, received: Received) -> None:
        now = time.monotonic()
        snapshot = received.snapshot
        self._heard_at = now
        self._history.add(snapshot, received.num_bytes)
        self._stall.observe(snapshot, now)
        if snapshot.step.policy.version >= self._policy.version:
            self._policy = snapshot.step.policy
        if self._live_since is None:
            self._live_since = now
            self._traffic_time = snapshot.engine_time
            if self._restart_text:
                self._history.mark("restart", self._restart_text)
            self._restart_text = self._message = ""
            self._detail = ()
        if not snapshot.heartbeat or now - self._live_since > 5.0:
            self._start_failures = 0

    def _check_health(self, worker: WorkerProcess, now: float) -> None:
        if worker.returncode is not None:
            if self._link is not None:
                self._read(self._link)  # what it said before it died
            self._on_death(worker, worker.describe_end(), now)
            return
        if now < self._grace_until:
            return
        limit_s = SILENCE_S if self.is_live else LOADING_SILENCE_S
        silent_s = now - worker.last_beat
        if silent_s > limit_s:
            self._on_death(worker, f"the worker was silent for {silent_s:.1f} s", now)
        elif self.is_live and self._heard_at is not None and now - self._heard_at > HUNG_STEP_S:
            self._on_death(worker, f"a step of the worker took longer than {HUNG_STEP_S:.0f} s", now)

    def _on_death(self, worker: WorkerProcess, reason: str, now: float) -> None:
        hopeless = not self.is_live and worker.returncode == EXIT_CANNOT_START
        self._start_failures += 1
        self._deaths.append(now)
        self._drop_worker(0.0)
        self._detail = worker.stderr_tail
        if hopeless or self._start_failures >= MAX_START_FAILURES:
            last = self._detail[-1] if self._detail else ""
            self._give_up(
                f"{last or reason}" if hopeless else f"{reason}, {self._start_failures} times in a row: {last}"
            )
            return
        self._restarts += 1
        self._base = "down"
        self._restart_text = self._message = f"{reason}; {self._journal.num_unfinished} requests go on with the next"
        in_storm = len(self._deaths) == STORM_DEATHS and now - self._deaths[0] < STORM_WINDOW_S
        self._start_at = now + (STORM_PAUSE_S if in_storm else 0.0)

    def _give_up(self, message: str) -> None:
        self._drop_worker(0.0)
        self._base, self._message, self._start_at = "failed", message, None

    def _restart_worker(self, config: RunnerConfig) -> None:
        had_one = self._worker is not None or self._heard_at is not None
        if self._link is not None and self.is_live:
            self._send(Shutdown(0))
            self._follow_to_the_end(self._link)
        self._drop_worker(END_TIMEOUT_S)
        self._config = config
        self._start_failures = 0
        self._detail = ()
        self._restart_text = "restarted with another configuration" if had_one else ""
        self._base, self._message = ("restarting" if had_one else "starting"), self._restart_text
        self._start_at = time.monotonic()
        self._refresh_state(self._start_at)

    def _follow_to_the_end(self, link: ReaderLink) -> None:
        """Read until the engine has published its last snapshot, so that no token is computed twice."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while time.monotonic() < deadline and self._worker is not None and self._link is link:
            self._read(link)
            latest = self._history.latest
            if self._worker is None or self._worker.returncode is not None:
                return
            if latest is not None and latest.run_id == self._worker.run_id and latest.phase == "stopping":
                return
            link.sub.poll(20)

    def _drop_worker(self, timeout_s: float) -> None:
        """End the worker and put everything it had back into the journal."""
        worker, link = self._worker, self._link
        self._worker = self._link = self._live_since = None
        if link is not None:
            link.close()
        if worker is not None:
            worker.end(timeout_s)
        self._journal.worker_lost()
        self._refuse_pending("the worker went down before it answered")

    def _refuse_pending(self, reason: str) -> None:
        pending, self._pending = self._pending, {}
        for number, item in pending.items():
            if item.future is not None:
                item.future.set_result(Reply(number, False, 0, (reason,), self._policy.version))
        while self._closing:
            try:
                item_left = self._inbox.get_nowait()
            except queue.Empty:
                return
            if not isinstance(item_left, RunnerConfig):
                item_left[1].set_result(Reply(0, False, 0, (reason,), self._policy.version))

    def _send_requests(self, link: ReaderLink) -> None:
        latest = self._history.latest
        if latest is None or latest.phase in ("failed", "stopping"):
            return
        policy = self._take_next_policy()
        if policy is not None:
            self._send(SetPolicy(0, policy))
        for submit in self._journal.unsent(latest.info.model, SUBMITS_A_TURN):
            if not self._send(submit):
                return
            self._journal.sent(submit.request_id)

    def _advance_traffic(self, now: float) -> None:
        """Let the traffic's clock follow the engine's. Between two snapshots it runs on only if the engine's does."""
        latest, heard_at = self._history.latest, self._heard_at
        if self.traffic is None or latest is None or heard_at is None or latest.phase not in ("running", "idle"):
            if latest is not None and latest.phase == "paused" and self.traffic is not None:
                self._advance_to(latest.engine_time)
            return
        ahead = 0.0 if latest.step.policy.step_delay_ms > 0 else min(now - heard_at, EXTRAPOLATE_S)
        self._advance_to(latest.engine_time + ahead)

    def _advance_to(self, engine_time: float) -> None:
        latest = self._history.latest
        if self.traffic is None or latest is None or engine_time <= self._traffic_time:
            return
        passed, self._traffic_time = engine_time - self._traffic_time, engine_time
        waiting = max(0, self._journal.num_unfinished - len(latest.step.running))
        self.traffic.advance(passed, waiting)

    def _refresh_state(self, now: float) -> None:
        phase, message = self._phase_now(now)
        old = self._state
        since = old.since if old.phase == phase else time.time()
        told = self._worker.progress if self._worker is not None and not self.is_live else None
        if told is not None and phase == "loading":
            message = told.message
        progress = None if told is None else told.fraction
        self._state = ClientState(phase, since, None, message, progress, self._restarts, self._detail)

    def _phase_now(self, now: float) -> tuple[ClientPhase, str]:
        latest = self._history.latest
        if not self.is_live or latest is None:
            return self._base, self._message
        if latest.phase == "failed":
            return "failed", latest.error
        stalled = self._stall.verdict(now)
        if stalled and latest.step.policy.admission_paused and not len(latest.step.running):
            return "paused", f"the policy admits nobody (admission_paused). {stalled}"
        if stalled:
            return "stalled", stalled
        if latest.phase in ("running", "idle", "paused"):
            return latest.phase, ""
        return "restarting", self._message
