"""A reader's end of the wire: commands out, snapshots in, in order and each once.

``SnapshotFeed`` is the rule, without sockets: a snapshot whose ``seq`` is not the next one is kept aside until the
engine has sent again what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import zmq

from model_runner.messages import (
    SCHEMA_VERSION,
    TOPIC_SNAPSHOT,
    Command,
    EngineSnapshot,
    Reply,
    RequestState,
)
from model_runner.transport import COMMAND_HWM, SNAPSHOT_HWM

MAX_ASIDE = 512
MAX_MESSAGES_A_TURN = 256


@dataclass(frozen=True, slots=True)
class Received:
    """A snapshot and its size on the wire in bytes."""

    snapshot: EngineSnapshot
    num_bytes: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What a resync brought.

    snapshots: to be applied in this order. states: whole tokens and texts as of the newest of ``missed``, to replace
    what is known after those are applied; ``snapshots`` from index ``states_after`` on come on top of them.
    gap: True when the engine no longer had everything, so steps are missing in the history, though no token is.
    """

    snapshots: tuple[Received, ...]
    states_after: int
    states: tuple[RequestState, ...]
    gap: bool


class SnapshotFeed:
    """Puts the snapshots of one run in order. Not thread-safe: one reader, one thread."""

    def __init__(self) -> None:
        self._last_seq = 0
        self._aside: dict[int, Received] = {}
        self._waiting = False

    @property
    def last_seq(self) -> int:
        """Sequence number of the last snapshot handed on."""
        return self._last_seq

    @property
    def needs_resync(self) -> bool:
        """True when something is missing and has not been asked for yet."""
        return bool(self._aside) and not self._waiting

    def asked(self) -> None:
        """A resync after ``last_seq`` is on its way."""
        self._waiting = True

    def unanswered(self) -> None:
        """No answer came: ask again."""
        self._waiting = False

    def take(self, received: Received) -> Received | None:
        """The snapshot itself when it is the next one; None when it is old or has to wait."""
        seq = received.snapshot.seq
        if seq <= self._last_seq:
            return None
        if seq == self._last_seq + 1 and not self._aside:
            self._last_seq = seq
            return received
        self._aside[seq] = received
        while len(self._aside) > MAX_ASIDE:
            del self._aside[min(self._aside)]
        return None

    def catch_up(self, snapshots: Iterable[EngineSnapshot], states: tuple[RequestState, ...]) -> CaughtUp:
        """Take the answer to a resync: what it brought, then what was kept aside meanwhile, without doubles."""
        start = self._last_seq
        # The engine encodes them itself, so their size is not seen here; it is that of any other, and only bounds.
        missed = [Received(snapshot, 0) for snapshot in snapshots if snapshot.seq > start]
        gap = bool(missed) and missed[0].snapshot.seq != start + 1
        last = missed[-1].snapshot.seq if missed else start
        aside = sorted((item for seq, item in self._aside.items() if seq > last), key=lambda item: item.snapshot.seq)
        self._aside = {}
        self._waiting = False
        following: list[Received] = []
        for item in aside:
            if item.snapshot.seq == last + 1 + len(following):
                following.append(item)
            else:
                self._aside[item.snapshot.seq] = item
        self._last_seq = last + len(following)
        return CaughtUp((*missed, *following), len(missed), states, gap)


class ReaderLink:
    """The sockets of one reader. Used by one thread only."""

    def __init__(self, commands: str, snapshots: str) -> None:
        self._context = zmq.Context()
        self.dealer = self._context.socket(zmq.DEALER)
        self.sub = self._context.socket(zmq.SUB)
        for sock, hwm in ((self.dealer, COMMAND_HWM), (self.sub, SNAPSHOT_HWM)):
            sock.setsockopt(zmq.LINGER, 0)
            sock.setsockopt(zmq.SNDHWM, hwm)
            sock.setsockopt(zmq.RCVHWM, hwm)
        self.sub.setsockopt(zmq.SUBSCRIBE, TOPIC_SNAPSHOT)
        self.dealer.connect(commands)
        self.sub.connect(snapshots)
        self.unreadable = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
        self._decoder: msgspec.msgpack.Decoder[EngineSnapshot] = msgspec.msgpack.Decoder(EngineSnapshot)

    def send(self, command: Command) -> bool:
        """Send a command; False when the engine has not read so many that no more fit, try later."""
        try:
            self.dealer.send(self._encoder.encode(command), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def replies(self) -> list[Reply]:
        """The answers that are there now."""
        found: list[Reply] = []
        for frames in _receive(self.dealer):
            try:
                found.append(self._replies.decode(frames[-1]))
            except msgspec.MsgspecError:
                self.unreadable += 1
        return found

    def snapshots(self) -> list[Received]:
        """The snapshots that are there now. What is not whole and valid is counted and left out.

        Raises SchemaError when the engine speaks another version of the messages.
        """
        found: list[Received] = []
        for frames in _receive(self.sub):
            payload = frames[1] if len(frames) == 2 else b""
            try:
                snapshot = self._decoder.decode(payload)
            except msgspec.MsgspecError:
                self.unreadable += 1
                continue
            if snapshot.schema != SCHEMA_VERSION:
                raise SchemaError(snapshot.schema)
            found.append(Received(snapshot, len(payload)))
        return found

    def close(self) -> None:
        """Close both sockets."""
        self.dealer.close(linger=0)
        self.sub.close(linger=0)
        self._context.term()


def sending_problem(command: Command) -> str:
    """Why a command cannot travel, "" when it can. Types are checked by a round trip: what leaves here arrives."""
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(command), type=type(command))
    except msgspec.ValidationError as error:
        return str(error)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        return f"not sendable: {error}"
    return ""


class SchemaError(Exception):
    """Worker and client are of different versions."""

    def __init__(self, schema: int) -> None:
        super().__init__(f"schema: the worker sends version {schema}, this client reads {SCHEMA_VERSION}")


def _receive(sock: zmq.Socket[bytes]) -> list[list[bytes]]:
    found: list[list[bytes]] = []
    while len(found) < MAX_MESSAGES_A_TURN:
        try:
            found.append(sock.recv_multipart(zmq.NOBLOCK))
        except zmq.Again:
            break
    return found
