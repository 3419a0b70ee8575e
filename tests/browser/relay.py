"""A plain TCP relay to a server: it counts what the server sends, and can be pulled out like a cable."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

CHUNK = 1 << 16


class Relay:
    """url: the address to open instead of the server's. sent: bytes that the server has sent through it so far;
    compressed frames show their true size only here."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._there = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._is_out = False
        self.sent = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def pull(self) -> None:
        """End all connections, and refuse new ones."""
        self._is_out = True
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def plug_in(self) -> None:
        """Let connections through again."""
        self._is_out = False

    def close(self) -> None:
        """End it for good."""
        self._listener.close()
        self.pull()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_out:
                    client.close()
                    continue
                server = socket.create_connection(self._there)
                self._open += [client, server]
                for ends in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if is_counted:
                    self.sent += len(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
