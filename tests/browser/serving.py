"""Starts the dashboard as a user does, and ends it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
START_S = 90
"""Generous: a loaded machine with two cores."""


@dataclass(frozen=True)
class Server:
    """A running dashboard."""

    url: str
    process: subprocess.Popen

    def worker(self) -> psutil.Process | None:
        """Its engine process; None while there is none."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if {"model_runner", "worker"} <= set(child.cmdline()):
                    return child
            except psutil.NoSuchProcess:
                continue
        return None


def chromium() -> str:
    """The browser to drive: CHROMIUM, or the system's."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    assert found, "no Chromium found: install it, or set CHROMIUM to its path"
    return found


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_until(condition, seconds: float, what: str) -> None:
    """Poll until ``condition()`` holds; fails with ``what`` after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def _answers(url: str, process: subprocess.Popen) -> bool:
    assert process.poll() is None, "the server ended by itself"
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@contextmanager
def dashboard(log: Path, **environment: str) -> Iterator[Server]:
    """``streamlit run app.py`` with the toy model and the svg renderer."""
    port = free_port()
    variables = {
        "BATCHSCOPE_MODEL": "toy", "BATCHSCOPE_THREADS": "1", "BATCHSCOPE_RENDERER": "svg", "OMP_NUM_THREADS": "1",
        **environment,
    }  # fmt: skip
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **variables}, stdout=out, stderr=subprocess.STDOUT
        )
        server = Server(f"http://127.0.0.1:{port}", process)
        try:
            wait_until(lambda: _answers(server.url, process), START_S, f"a server at {server.url}")
            wait_until(lambda: server.worker() is not None, START_S, "a worker")
            yield server
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
