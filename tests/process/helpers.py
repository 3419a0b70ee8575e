"""Waiting for real processes, with a generous end: a test fails by what happened, not by how fast it happened."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from fakes import next_letter

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.traffic import TrafficSpec
from scheduler import SamplingParams, SchedulerPolicy

FAKE_WORKER = (sys.executable, str(Path(__file__).parent / "fake_worker.py"))
QUIET = TrafficSpec(enabled=False)
TOY = RunnerConfig(model="toy", dtype="float32", threads=1, num_blocks=96)


def wait_until(true: Callable[[], object], timeout_s: float = 30.0, what: str = "") -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or true}"
        time.sleep(0.005)


@contextlib.contextmanager
def fake_client(*flags: str, policy: SchedulerPolicy | None = None, **config) -> Iterator[RunnerClient]:
    values = {"model": "toy", "block_size": 4, "num_blocks": 64} | config
    command = (*FAKE_WORKER, *flags)
    with RunnerClient(RunnerConfig(**values), policy, traffic=QUIET, worker_command=command) as client:
        yield client


def live(client: RunnerClient) -> None:
    wait_until(lambda: client.state.phase in ("idle", "running", "paused"), what=f"live, is {client.state}")


def ended(client: RunnerClient, ids: list[str], timeout_s: float = 60.0) -> None:
    wait_until(lambda: all(client.request(i).outcome for i in ids), timeout_s, f"ended, {client.state}")


def letters(prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
    """What the fake model writes alone: each token from the position and the one before it."""
    known = list(prompt)
    for _ in range(count):
        known.append(next_letter(len(known), known[-1]))
    return tuple(known[len(prompt) :])


def length(count: int, **more) -> SamplingParams:
    return SamplingParams(max_tokens=count, ignore_eos=True, **more)


def worker_pids() -> set[int]:
    """Worker processes of this test process."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
