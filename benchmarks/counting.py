"""A plain TCP relay that counts what a server sends: compressed frames show their true size only on the wire."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

CHUNK = 1 << 16


def _pump(source: socket.socket, target: socket.socket, counted: list[int] | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            if counted is not None:
                counted[0] += len(data)
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def counting(url: str) -> Iterator[tuple[str, list[int]]]:
    """(address to open instead of ``url``, [bytes the server has sent through it so far])."""
    parts = urlsplit(url)
    counted = [0]
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((parts.hostname, parts.port))
                threading.Thread(target=_pump, args=(client, server, None), daemon=True).start()
                threading.Thread(target=_pump, args=(server, client, counted), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", counted
    finally:
        listener.close()
