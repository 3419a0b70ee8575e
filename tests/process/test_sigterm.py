"""SIGTERM at any moment, start-up included: a clean end in ten seconds that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import msgspec
import psutil
import pytest
from helpers import TOY, wait_until

from model_runner.messages import WorkerSpec
from model_runner.worker_process import DEFAULT_COMMAND
from scheduler import SchedulerPolicy

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
END_S = 10.0
MARK = "BATCHSCOPE_TEST_MARK"
SHARED_MEMORY = Path("/dev/shm")
SPANS_S = {"worker": 4.0, "serve": 6.0, "app": 8.0}
"""From the first instruction to some seconds of work."""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def command(target: str, folder: Path) -> list[str]:
    port = str(free_port())
    if target == "worker":
        (folder / "sockets").mkdir()
        spec = WorkerSpec("run", str(folder / "sockets"), TOY, SchedulerPolicy())
        return [*DEFAULT_COMMAND, msgspec.json.encode(spec).decode()]
    if target == "serve":
        return [sys.executable, "-m", "model_runner", "serve", "--model", "toy", "--threads", "1", "--port", port]
    flags = ("--server.headless", "true", "--browser.gatherUsageStats", "false")
    return [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", port, *flags]


def marked(mark: str) -> list[psutil.Process]:
    """Every process on this machine that inherited the mark, whoever its parent is now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def shared_memory() -> set[str]:
    return {path.name for path in SHARED_MEMORY.iterdir()} if SHARED_MEMORY.is_dir() else set()


def end_with_sigterm(target: str, after_s: float, folder: Path) -> tuple[float, int]:
    """Start, wait, SIGTERM. Seconds to the end and the exit code; asserts that nothing is left."""
    mark, before = uuid.uuid4().hex, shared_memory()
    choices = {"BATCHSCOPE_MODEL": "toy", "BATCHSCOPE_RATE": "5", "BATCHSCOPE_THREADS": "1", "BATCHSCOPE_API_KEY": ""}
    environment = os.environ | choices | {MARK: mark, "TMPDIR": str(folder)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(target, folder), cwd=ROOT, env=environment, **pipes) as process:
        try:
            time.sleep(after_s)
            process.send_signal(signal.SIGTERM)
            sent = time.monotonic()
            _, said = process.communicate(timeout=END_S)
            took = time.monotonic() - sent
            wait_until(lambda: not marked(mark), END_S - min(took, 5.0), f"no orphan of {target}, {after_s:.2f} s")
        finally:
            for left in marked(mark):
                left.kill()
    text = said.decode(errors="replace")
    assert "Traceback" not in text, f"{target} after {after_s:.2f} s: {text}"
    assert process.returncode in (0, -signal.SIGTERM), f"{target} after {after_s:.2f} s: {process.returncode}, {text}"
    # A worker that had not begun leaves the folder to who made it, as it would that of its client.
    left = [path for path in folder.rglob("*") if path != folder / "sockets"]
    assert not left, f"{target} after {after_s:.2f} s leaves {left}"
    assert not shared_memory() - before, f"{target} after {after_s:.2f} s"
    return took, process.returncode


@pytest.mark.parametrize("after_s", [0.4, 1.2, 2.5])
def test_the_app_ends_cleanly_while_it_starts(after_s: float, tmp_path: Path) -> None:
    end_with_sigterm("app", after_s, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("target", SPANS_S)
def test_sigterm_at_a_hundred_random_moments_ends_cleanly_each_time(target: str, tmp_path: Path) -> None:
    rng = random.Random(4)
    times, codes = [], Counter()
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        took, code = end_with_sigterm(target, rng.uniform(0.0, SPANS_S[target]), folder)
        times.append(took)
        codes[code] += 1
    times.sort()
    print(f"{target}: {len(times)} of 100, median {times[50]:.2f}, at most {times[-1]:.2f} s, codes {dict(codes)}")
