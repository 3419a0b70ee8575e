"""Wakes a thread that sleeps in a ZeroMQ poll from any other thread."""

from __future__ import annotations

import contextlib
import socket


class Waker:
    """A pair of connected sockets: one end is polled, the other written to."""

    def __init__(self) -> None:
        self.poll_socket, self._writer = socket.socketpair()
        self.poll_socket.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """End the sleep, or the next one. Never blocks, never fails; harmless after ``close``."""
        with contextlib.suppress(OSError):
            self._writer.send(b"\0")

    def clear(self) -> None:
        """Forget the wakes so far."""
        with contextlib.suppress(OSError):
            while self.poll_socket.recv(4096):
                pass

    def close(self) -> None:
        """Close both ends."""
        self.poll_socket.close()
        self._writer.close()
