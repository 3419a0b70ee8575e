"""One run's dialogue with its engine: each command gets one answer, each snapshot is handed on once and in order."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec
import zmq

from model_runner.link import CaughtUp, ReaderLink, Received, SnapshotFeed
from model_runner.messages import Command, Hello, Reply, Resync

RESYNC_TIMEOUT_S = 2.0


@dataclass(slots=True)
class _Pending:
    """A command on its way: to whom its answer goes, and since when."""

    command: Command
    sent_at: float
    future: Future[Reply] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A command and its reply."""

    command: Command
    reply: Reply


@dataclass(frozen=True, slots=True)
class Heard:
    """What came in since the last look. To be taken in this order: answers, caught_up, snapshots."""

    answers: tuple[Answer, ...]
    caught_up: tuple[CaughtUp, ...]
    snapshots: tuple[Received, ...]


class Conversation:
    """Sends commands and reads what comes back. One thread."""

    def __init__(self, hello: Hello) -> None:
        self._link = ReaderLink(hello.commands, hello.snapshots)
        self._feed = SnapshotFeed()
        self._pending: dict[int, _Pending] = {}
        self._numbers = itertools.count(1)
        # A subscription takes a moment to reach the engine: what is published before comes by this answer.
        self._resync()

    def register(self, poller: zmq.Poller) -> None:
        """Let a poller wake when something has come in."""
        poller.register(self._link.dealer, zmq.POLLIN)
        poller.register(self._link.sub, zmq.POLLIN)

    def send(self, command: Command, future: Future[Reply] | None = None) -> bool:
        """Send a command; its ``command_id`` is set here. False = no more fit in, nothing was sent."""
        command = msgspec.structs.replace(command, command_id=next(self._numbers))
        if not self._link.send(command):
            return False
        self._pending[command.command_id] = _Pending(command, time.monotonic(), future)
        return True

    def read(self) -> Heard:
        """What has come in, without waiting. Raises SchemaError."""
        answers: list[Answer] = []
        caught_up: list[CaughtUp] = []
        for reply in self._link.replies():
            pending = self._pending.pop(reply.command_id, None)
            if pending is None:
                continue
            if isinstance(pending.command, Resync):
                caught_up.append(self._feed.catch_up(reply.snapshots, reply.states))
                continue
            answers.append(Answer(pending.command, reply))
            if pending.future is not None:
                pending.future.set_result(reply)
        taken = (self._feed.take(received) for received in self._link.snapshots())
        snapshots = tuple(received for received in taken if received is not None)
        if self._feed.needs_resync:
            self._resync()
        return Heard(tuple(answers), tuple(caught_up), snapshots)

    def ask_again(self) -> None:
        """Give up a resync that was not answered in time. Not while the worker loads: no engine is there to answer."""
        now = time.monotonic()
        for number, item in list(self._pending.items()):
            if isinstance(item.command, Resync) and now - item.sent_at > RESYNC_TIMEOUT_S:
                del self._pending[number]
                self._feed.unanswered()

    def _resync(self) -> None:
        if self.send(Resync(0, self._feed.last_seq)):
            self._feed.asked()

    def close(self, reason: str, version: int) -> None:
        """End it; whoever still waits for an answer gets ok=False with this reason and policy version."""
        self._link.close()
        for number, item in self._pending.items():
            if item.future is not None:
                item.future.set_result(Reply(number, False, 0, (reason,), version))
        self._pending.clear()
