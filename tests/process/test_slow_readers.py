"""Readers that stand still, on the wire and over HTTP: the engine pays for them neither in memory nor in time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
from helpers import FAKE_WORKER, TOY, length, wait_until

from model_runner.http.app import HttpApi
from model_runner.http.settings import ApiSettings
from model_runner.link import ReaderLink
from model_runner.messages import Resync, Submit
from model_runner.transport import RING_COUNT, SNAPSHOT_HWM
from model_runner.worker_process import WorkerProcess
from scheduler import SchedulerPolicy
from tests.http.serving import send_only, writing
from tests.http.serving import serving as serving_http

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
ANSWER_MB = 4.0
STEPS = 2 * (SNAPSHOT_HWM + RING_COUNT)
"""More than all that is kept for a reader, twice."""


@contextlib.contextmanager
def frozen_readers(count: int, commands: str, snapshots: str) -> Iterator[None]:
    """Processes that have heard the engine and then stand still."""
    script = str(Path(__file__).parent / "frozen_reader.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    readers = [
        subprocess.Popen([sys.executable, script, commands, snapshots], stdout=subprocess.PIPE, env=environment)
        for _ in range(count)
    ]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"hears\n"
            reader.send_signal(signal.SIGSTOP)
        yield
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


class Load:
    """Long requests straight to a worker, and how far it has come."""

    def __init__(self, process: WorkerProcess) -> None:
        wait_until(lambda: process.hello is not None)
        assert process.hello is not None
        self.hello = process.hello
        self.link = ReaderLink(self.hello.commands, self.hello.snapshots)
        self.worker = psutil.Process(process.pid)
        self.step = 0
        self._count = 0
        self.link.send(Resync(1, 0))
        self.run(1)

    def run(self, steps: int) -> None:
        """Until the worker has computed so many more."""
        due = self.step + steps
        wait_until(lambda: self._listen() >= due, 600.0, f"{steps} steps after step {self.step}")

    def _listen(self) -> int:
        self.link.sub.poll(20)
        self.link.replies()
        found = self.link.snapshots()
        if found:
            last = found[-1].snapshot.step
            self.step = last.step_id
            if len(last.running) + last.num_waiting < 4:
                self._submit()
        return self.step

    def _submit(self) -> None:
        for _ in range(4):
            self._count += 1
            self.link.send(Submit(self._count + 1, f"q{self._count}", length(400), prompt_token_ids=(5, 6, 7)))

    @property
    def mb(self) -> float:
        return self.worker.memory_info().rss / 1e6

    @property
    def cpu_s(self) -> float:
        times = self.worker.cpu_times()
        return times.user + times.system


def test_frozen_readers_make_the_worker_keep_no_more_than_its_bounds() -> None:
    process = WorkerProcess("run", TOY, SchedulerPolicy(), lambda: None, (*FAKE_WORKER, "--step-s", "0"))
    try:
        load = Load(process)
        load.run(STEPS)
        with frozen_readers(3, load.hello.commands, load.hello.snapshots):
            load.run(STEPS)
            full = load.mb
            load.run(2 * STEPS)
            assert load.mb - full < 2.0
        load.link.close()
    finally:
        process.end(1.0)


@pytest.mark.soak
def test_three_readers_frozen_for_a_minute_cost_the_engine_neither_memory_nor_time() -> None:
    process = WorkerProcess("run", TOY, SchedulerPolicy(max_num_seqs=4), lambda: None)
    try:
        load = Load(process)
        load.run(2_000)
        costs = {}
        for readers in (0, 3, 0, 3):
            with frozen_readers(readers, load.hello.commands, load.hello.snapshots):
                load.run(1_000)
                before, cpu_s, step, until = load.mb, load.cpu_s, load.step, time.monotonic() + 60
                while time.monotonic() < until:
                    load.run(100)
                cost_ms = 1000 * (load.cpu_s - cpu_s) / (load.step - step)
                grown = load.mb - before
                print(f"{readers} frozen: {load.step - step} steps, {grown:+.2f} MB, CPU {cost_ms:.3f} ms a step")
                assert grown < 2.0
                costs.setdefault(readers, []).append(cost_ms)
        assert min(costs[3]) < 1.05 * max(costs[0])
        load.link.close()
    finally:
        process.end(1.0)


def read_all(url: str, asked: dict[str, object]) -> None:
    with httpx.stream("POST", f"{url}/v1/completions", json=asked, timeout=None) as answer:
        for _ in answer.iter_raw():
            pass


@pytest.mark.soak
def test_http_clients_that_read_nothing_for_a_minute_cost_a_few_times_the_text_of_their_answers_at_most() -> None:
    """Answers larger than what the sockets between take in. The text of an answer is kept in either case."""
    here, clients = psutil.Process(), 10
    asked = {"prompt": "x", "max_tokens": 2_000, "stream": True, "ignore_eos": True}
    piece = b"x" * round(ANSWER_MB * 1e6 / 2_000)
    api, settings = HttpApi(), ApiSettings(send_timeout_s=60.0)
    pool = {"num_blocks": clients * 600, "max_model_len": 2_200, "policy": SchedulerPolicy(max_num_seqs=clients)}
    grown: dict[str, list[float]] = {"reading": [], "frozen": []}
    with writing([piece], step_s=0.001, **pool) as client, serving_http(client, settings, api) as url:
        (worker,) = here.children()
        for kind in ("reading", "reading", "frozen", "reading", "frozen"):
            before, highest = resident_mb(here, worker), 0.0
            with contextlib.ExitStack() as stack:
                if kind == "reading":
                    readers = stack.enter_context(ThreadPoolExecutor(clients))
                    for _ in range(clients):
                        readers.submit(read_all, url, asked)
                else:
                    for _ in range(clients):
                        stack.enter_context(send_only(url, asked))
                wait_until(lambda: api.num_open == clients, 60)
                started = time.monotonic()
                while api.num_open:
                    highest = max(highest, resident_mb(here, worker))
                    time.sleep(0.2)
            grown[kind].append(highest - before)
            print(f"{kind}: {highest - before:+.1f} MB of server and worker, open {time.monotonic() - started:.0f} s")
            wait_until(lambda: not client.num_unfinished)
    # The first round fills the client's history, whoever reads. Then: what nobody took, joined and encoded.
    assert max(grown["frozen"]) < max(grown["reading"][1:]) + 4 * clients * ANSWER_MB


def resident_mb(*processes: psutil.Process) -> float:
    return sum(process.memory_info().rss for process in processes) / 1e6
