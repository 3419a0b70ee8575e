"""The worker's ties to life: it ends with its parent, on a signal, and shows four times a second that it is alive.

Standard input is the parent's pipe: its end means the parent is gone, however it died. Standard output carries one
``Hello``, the load's progress, and a beat a line from a thread of its own, so that a long step is not mistaken for a
dead process.
All that is installed before anything slow is imported, so it holds during a model's load too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from model_runner.messages import Hello, LoadProgress
from model_runner.transport import remove_socket_dir

BEAT_S = 0.25
GRACE_S = 3.0
"""How long a step in flight may take to end after a signal, before the process ends without it."""

_SIGNALS = {signal.SIGTERM, signal.SIGINT} | ({signal.SIGHUP} if hasattr(signal, "SIGHUP") else set())


class Lifeline:
    """Watches parent and signals of this process, and owns its standard input and output.

    socket_dir: removed whenever the process ends from here.
    """

    def __init__(self, socket_dir: Path) -> None:
        self._socket_dir = socket_dir
        self._stop: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._parent_pid = os.getppid()
        faulthandler.enable()
        # Nothing that prints may speak on the parent's channel.
        self._out = os.dup(sys.stdout.fileno())
        os.set_blocking(self._out, False)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def start(self) -> None:
        """Install the watchers. Call it on the main thread before other threads exist: they inherit the mask."""
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            self._thread("signals", self._watch_signals)
        else:
            for number in _SIGNALS:
                signal.signal(number, lambda *_: self._end_soon())
        self._thread("parent", self._watch_parent)

    def hello(self, hello: Hello) -> None:
        """Tell the parent where this worker listens, and beat from now on."""
        self._write(msgspec.json.encode(hello) + b"\n")
        self._thread("beat", self._beat)

    def progress(self, progress: LoadProgress) -> None:
        """Tell the parent how far the start has come."""
        self._write(msgspec.json.encode(progress) + b"\n")

    def stop_with(self, stop: Callable[[], None]) -> None:
        """From now on a signal calls ``stop`` and lets the step in flight end; before, it ends the process at once."""
        with self._lock:
            self._stop = stop

    @staticmethod
    def _thread(name: str, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name=f"lifeline-{name}", daemon=True).start()

    def _watch_signals(self) -> None:
        signal.sigwait(_SIGNALS)
        self._end_soon()

    def _end_soon(self) -> None:
        with self._lock:
            stop = self._stop
        if stop is None:
            self._end_now(0)
            return
        stop()
        timer = threading.Timer(GRACE_S, self._end_now, (0,))
        timer.daemon = True
        timer.start()

    def _watch_parent(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        self._end_now(0)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT_S):
            self._write(b".\n")
            if os.getppid() != self._parent_pid:
                self._end_now(0)  # the pipe may live on in a fork of the parent

    def _write(self, line: bytes) -> None:
        try:
            os.write(self._out, line)
        except BlockingIOError:
            return  # a parent that does not read has no use for one more beat
        except OSError:
            self._end_now(0)

    def _end_now(self, code: int) -> None:
        remove_socket_dir(self._socket_dir)
        os._exit(code)
