"""The worker's two sockets: commands in (ROUTER), snapshots out (PUB), and the ring that a late reader catches up from.

Invariants. Nothing here waits for a reader: PUB and ROUTER drop for a peer whose high-water mark is reached, and the
reader finds out by the gap in ``seq``. Everything kept is bounded by count and by bytes. Bytes that are no command are
answered with the reason and never reach the engine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import zmq

from model_runner.messages import TOPIC_SNAPSHOT, Command, EngineSnapshot, Reply
from model_runner.waker import Waker

SNAPSHOT_HWM = 256
"""Snapshots one slow reader may have in flight before PUB drops for it."""
COMMAND_HWM = 4096
MAX_COMMAND_BYTES = 8 * 1024 * 1024
RING_COUNT = 512
RING_BYTES = 16 * 1024 * 1024
MAX_IPC_PATH_BYTES = 100
"""A Unix socket's path holds 104 (macOS) to 108 (Linux) bytes."""
SOCKET_DIR_PREFIX = "batchscope-"


class EncodedReply(msgspec.Struct, frozen=True):
    """``Reply`` on the wire with its snapshots already encoded; same fields, same order."""

    command_id: int
    ok: bool
    step_id: int
    reasons: tuple[str, ...] = ()
    version: int = 0
    kind: str = ""
    prompt_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    snapshots: tuple[msgspec.Raw, ...] = ()
    states: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the engine listens: ZeroMQ endpoints of the command and the snapshot socket."""

    commands: str
    snapshots: str


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message from the command socket; ``command`` is None when the bytes were none, ``problem`` says why.

    command_id: what could still be read of it, so that the answer finds its asker; 0 = nothing.
    """

    sender: bytes
    command: Command | None
    problem: str = ""
    command_id: int = 0


def make_socket_dir() -> Path:
    """A new folder that only this user may enter (mode 0700), for the sockets of one worker."""
    return Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX))


def remove_socket_dir(socket_dir: Path) -> None:
    """Remove the folder and the sockets in it; nothing happens when it is gone already."""
    shutil.rmtree(socket_dir, ignore_errors=True)


class SnapshotRing:
    """The last encoded snapshots, oldest first, at most ``max_count`` of them and ``max_bytes`` together."""

    def __init__(self, max_count: int = RING_COUNT, max_bytes: int = RING_BYTES) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._items: deque[tuple[int, bytes]] = deque()
        self._bytes = 0

    def append(self, seq: int, encoded: bytes) -> None:
        """Keep one more; the newest always stays, whatever its size."""
        self._items.append((seq, encoded))
        self._bytes += len(encoded)
        while len(self._items) > 1 and (len(self._items) > self._max_count or self._bytes > self._max_bytes):
            self._bytes -= len(self._items.popleft()[1])

    def after(self, seq: int) -> tuple[bytes, ...]:
        """What is kept with a sequence number above ``seq``, oldest first."""
        return tuple(encoded for kept, encoded in self._items if kept > seq)

    def __len__(self) -> int:
        return len(self._items)


class EngineTransport:
    """Sockets of one engine. Used by one thread only, the engine's.

    socket_dir: folder for Unix sockets; loopback TCP on free ports is used where the platform has no Unix sockets or
    the folder's path is too long for one.
    """

    def __init__(self, socket_dir: Path) -> None:
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._pub = self._context.socket(zmq.PUB)
        for sock, hwm in ((self._router, COMMAND_HWM), (self._pub, SNAPSHOT_HWM)):
            sock.setsockopt(zmq.LINGER, 0)
            sock.setsockopt(zmq.SNDHWM, hwm)
            sock.setsockopt(zmq.RCVHWM, hwm)
        self._router.setsockopt(zmq.MAXMSGSIZE, MAX_COMMAND_BYTES)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=encode_mapping)
        self._decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
        self.ring = SnapshotRing()
        self._waker = Waker()
        self._poller = zmq.Poller()
        self._poller.register(self._router, zmq.POLLIN)
        self._poller.register(self._waker.poll_socket, zmq.POLLIN)
        self.addresses = Addresses(
            self._bind(self._router, socket_dir / "commands"), self._bind(self._pub, socket_dir / "snapshots")
        )

    @staticmethod
    def _bind(sock: zmq.Socket[bytes], path: Path) -> str:
        if zmq.has("ipc") and len(os.fsencode(path)) <= MAX_IPC_PATH_BYTES:
            endpoint = f"ipc://{path}"
            sock.bind(endpoint)
            return endpoint
        sock.bind("tcp://127.0.0.1:*")
        return sock.getsockopt_string(zmq.LAST_ENDPOINT)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until a command is there, ``wake`` was called or ``timeout_s`` has passed; True but for the last."""
        came = bool(self._poller.poll(max(0, round(timeout_s * 1000))))
        self._waker.clear()
        return came

    def wake(self) -> None:
        """End the present wait, or the next. May be called from any thread."""
        self._waker.wake()

    def receive(self, limit: int = 256) -> list[Incoming]:
        """The commands that are there now, at most ``limit``; never waits."""
        incoming: list[Incoming] = []
        while len(incoming) < limit:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            incoming.append(self._decode(frames))
        return incoming

    def _decode(self, frames: list[bytes]) -> Incoming:
        sender = frames[0]
        if len(frames) != 2:
            return Incoming(sender, None, f"command: {len(frames) - 1} frames, one MessagePack frame is expected")
        try:
            return Incoming(sender, self._decoder.decode(frames[1]))
        except (msgspec.MsgspecError, ValueError) as error:
            return Incoming(sender, None, f"command: not readable ({error})", _command_id(frames[1]))

    def reply(self, sender: bytes, reply: Reply, snapshots: tuple[bytes, ...] = ()) -> None:
        """Answer one command. A sender that is gone or does not read loses its answer; the engine goes on."""
        message: Reply | EncodedReply = reply
        if snapshots:
            fields = {name: getattr(reply, name) for name in Reply.__struct_fields__}
            fields["snapshots"] = tuple(msgspec.Raw(encoded) for encoded in snapshots)
            message = EncodedReply(**fields)
        try:
            self._router.send_multipart([sender, self._encoder.encode(message)], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise

    def publish(self, snapshot: EngineSnapshot) -> None:
        """Send a snapshot to whoever listens, and keep it for those who missed it."""
        encoded = self._encoder.encode(snapshot)
        self.ring.append(snapshot.seq, encoded)
        self._pub.send_multipart([TOPIC_SNAPSHOT, encoded], zmq.NOBLOCK)

    def missed(self, after_seq: int) -> tuple[bytes, ...]:
        """The encoded snapshots after a sequence number, oldest first, as far as they are kept."""
        return self.ring.after(after_seq)

    def close(self) -> None:
        """Close both sockets at once; what nobody has read by then is dropped."""
        self._waker.close()
        self._router.close(linger=0)
        self._pub.close(linger=200)
        self._context.term()


def _command_id(frame: bytes) -> int:
    try:
        return msgspec.msgpack.decode(frame, type=_AnyCommand).command_id
    except (msgspec.MsgspecError, ValueError):
        return 0


class _AnyCommand(msgspec.Struct):
    command_id: int


def encode_mapping(value: Any) -> Any:
    """Read-only mapping views travel as the plain maps they show."""
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return dict(value)
    raise NotImplementedError(f"cannot send a {type(value).__name__}")
