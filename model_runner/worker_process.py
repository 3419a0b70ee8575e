"""One worker process as its parent sees it: started, listened to, ended. Leaves neither process nor files behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from model_runner.config import RunnerConfig
from model_runner.messages import EngineInfo, Hello, LoadProgress, WorkerSpec
from model_runner.transport import make_socket_dir, remove_socket_dir
from scheduler import SchedulerPolicy

STDERR_LINES = 40
STDERR_LINE_CHARS = 500
DEFAULT_COMMAND = (sys.executable, "-m", "model_runner", "worker")


class WorkerProcess:
    """A child process in a session of its own, so that a terminal's Ctrl-C reaches the parent only.

    command: how a worker is started; its spec is added as the last argument. wake: called from other threads when
    the worker said something or ended.
    """

    def __init__(
        self,
        run_id: str,
        config: RunnerConfig,
        policy: SchedulerPolicy,
        wake: Callable[[], None],
        command: Sequence[str] = DEFAULT_COMMAND,
        before: EngineInfo | None = None,
    ) -> None:
        """before: the engine whose requests go on in this one; the same model is not measured anew, so that it computes
        in the same number type and the requests get the tokens they would have had."""
        self.run_id = run_id
        self.started = time.monotonic()
        self.last_beat = self.started
        self.hello: Hello | None = None
        self.progress: LoadProgress | None = None
        self._wake = wake
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._socket_dir = make_socket_dir()
        spec = WorkerSpec(run_id, str(self._socket_dir), config, policy)
        if before is not None:
            spec = msgspec.structs.replace(spec, timed_model=before.model, start_timings=before.start_timings)
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
        try:
            self._process = subprocess.Popen(
                [*command, msgspec.json.encode(spec).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        except OSError:
            remove_socket_dir(self._socket_dir)
            raise
        self._threads = [
            threading.Thread(target=self._read_stdout, name=f"worker-out-{run_id}", daemon=True),
            threading.Thread(target=self._read_stderr, name=f"worker-err-{run_id}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative = killed by that signal, None = still there."""
        return self._process.poll()

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines it wrote to standard error."""
        return tuple(self._stderr)

    def describe_end(self) -> str:
        """How it ended, in words."""
        code = self.returncode
        if code is None:
            return "the worker is still running"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"the worker was killed by {signal.Signals(-code).name}"
        return f"the worker ended with exit code {code}"

    def end(self, timeout_s: float = 2.0) -> None:
        """End it: by closing its pipe and SIGTERM, after ``timeout_s`` by SIGKILL. Waits, then removes its files."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        if self.returncode is None and timeout_s > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        if self.returncode is None:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        remove_socket_dir(self._socket_dir)

    def _lines(self, stream: IO[bytes] | None) -> Sequence[bytes] | IO[bytes]:
        return stream if stream is not None else ()

    def _read_stdout(self) -> None:
        for line in self._lines(self._process.stdout):
            self.last_beat = time.monotonic()
            if not line.startswith(b"{"):
                continue
            if self.hello is None:
                self.hello = msgspec.json.decode(line, type=Hello)
            else:
                self.progress = msgspec.json.decode(line, type=LoadProgress)
            self._wake()
        self._wake()

    def _read_stderr(self) -> None:
        for line in self._lines(self._process.stderr):
            self._stderr.append(line.decode("utf-8", "replace").rstrip()[:STDERR_LINE_CHARS])
