"""A worker ends whenever it should, takes its files along, and never comes back by the dozen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from helpers import FAKE_WORKER, TOY, fake_client, gone, length, live, wait_until, worker_pids

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.worker_process import DEFAULT_COMMAND, WorkerProcess
from scheduler import SchedulerPolicy

pytestmark = pytest.mark.process


@contextlib.contextmanager
def worker(*flags, command=FAKE_WORKER, config=TOY):
    process = WorkerProcess("run", config, SchedulerPolicy(), lambda: None, (*command, *flags))
    try:
        yield process
    finally:
        process.end(0.0)


def socket_dir(process: WorkerProcess) -> Path:
    wait_until(lambda: process.hello is not None)
    return Path(process.hello.commands.removeprefix("ipc://")).parent


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("flags", [["--hang-load"], []])
def test_a_signal_ends_a_worker_cleanly_while_it_loads_and_while_it_runs(number, flags):
    with worker(*flags) as process:
        folder = socket_dir(process)
        assert folder.stat().st_mode & 0o777 == 0o700
        os.kill(process.pid, number)
        wait_until(lambda: process.returncode is not None, 10)
        assert process.returncode == 0
        assert not folder.exists()


def test_sigterm_ends_a_real_worker_at_any_moment_of_its_start():
    for delay_s in (0.0, 0.1, 0.3, 0.8):
        with worker(command=DEFAULT_COMMAND) as process:
            time.sleep(delay_s)
            os.kill(process.pid, signal.SIGTERM)
            wait_until(lambda process=process: process.returncode is not None, 10)
            assert process.returncode in (0, -signal.SIGTERM)


@pytest.mark.parametrize("flags", [["--hang-load"], []])
def test_a_worker_ends_when_its_parents_pipe_closes(flags):
    with worker(*flags) as process:
        folder = socket_dir(process)
        process._process.stdin.close()
        wait_until(lambda: process.returncode is not None, 5)
        assert not folder.exists()


# A shell that runs the tests in the background has its children ignore SIGINT; the app must not inherit that here.
PARENT = """
    import signal, sys, time
    from model_runner.client import RunnerClient
    from model_runner.config import RunnerConfig
    from model_runner.traffic import TrafficSpec

    signal.signal(signal.SIGINT, signal.default_int_handler)
    client = RunnerClient(RunnerConfig(model="toy"), traffic=TrafficSpec(rate=20.0), worker_command=sys.argv[1:])
    client.start()
    while client.latest is None or client.latest.step.step_id < 20:
        time.sleep(0.01)
    print(client.latest.info.run_id, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_worker_and_no_socket_outlive_the_app(number, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    app = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), *FAKE_WORKER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        assert app.stdout.readline()
        children = psutil.Process(app.pid).children(recursive=True)
        assert len(children) == 1
        assert len(list(tmp_path.iterdir())) == 1
        app.send_signal(number)
        app.wait(10)
        wait_until(lambda: gone(children[0].pid), 5)
        wait_until(lambda: not list(tmp_path.iterdir()), 5)
    finally:
        app.kill()
        app.wait()
        app.stdout.close()


def test_a_worker_that_dies_at_every_start_is_given_up_and_says_why():
    with fake_client("--crash") as client:
        wait_until(lambda: client.state.phase == "failed")
        assert "exit code 7" in client.state.message
        assert any("this worker breaks at start" in line for line in client.state.detail)
        restarts = client.state.restarts
        assert restarts == 2
        time.sleep(1.0)
        assert client.state.restarts == restarts
        assert worker_pids() == set()
        assert not client.submit("hello").accepted


def test_a_start_that_cannot_succeed_is_not_tried_again():
    with fake_client("--refuse") as client:
        wait_until(lambda: client.state.phase == "failed")
        assert client.state.restarts == 0
        assert "num_blocks is 0" in client.state.message


def test_a_config_that_cannot_be_met_fails_with_its_reason_and_a_right_one_starts_over():
    config = RunnerConfig(model="toy", max_model_len=10**6)
    with RunnerClient(config) as client:
        wait_until(lambda: client.state.phase == "failed")
        assert "max_model_len" in client.state.message
        client.restart(TOY)
        live(client)


def test_while_a_first_step_takes_long_the_state_says_so_and_calls_nothing_stale():
    with fake_client("--step-s", "3") as client:
        live(client)
        request_id = client.submit((1, 2, 3), length(1)).request_id
        old = []
        while not client.request(request_id).outcome:
            state = client.state
            if state.age_s > 2.2:
                old.append((state.phase, state.message))
            time.sleep(0.01)
        assert {phase for phase, _ in old} == {"computing"}
        assert all("the iteration after 0 has been computed for " in message for _, message in old)


def test_load_progress_is_shown():
    with fake_client("--hang-load") as client:
        wait_until(lambda: client.state.phase == "loading" and client.state.progress == 0.5)
        assert client.state.message == "half of it"


def test_f70_a_failed_run_leaves_no_thread_and_no_process():
    threads = threading.active_count()
    with fake_client("--error-at", "3") as client:
        live(client)
        request_id = client.submit((1, 2, 3), length(10)).request_id
        wait_until(lambda: client.state.phase == "failed")
        assert "MemoryError" in client.state.message
        assert "runner error" in client.state.message
        assert client.request(request_id).outcome == ""
        assert len(client.request(request_id).tokens) == 2
    wait_until(lambda: threading.active_count() == threads)
    assert worker_pids() == set()


def test_close_is_quick_at_any_moment_and_can_be_called_twice():
    for flags in ([], ["--hang-load"]):
        with fake_client(*flags) as client:
            wait_until(lambda client=client: worker_pids())
            client.close()
            client.close()
            assert worker_pids() == set()
            assert client.state.phase == "stopped"
            assert not client.submit("hello").accepted


def test_a_frozen_worker_counts_as_dead_and_is_replaced():
    with fake_client() as client:
        live(client)
        first = client.latest.info.run_id
        (pid,) = worker_pids()
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: client.state.phase == "down", 10)
        assert "silent" in client.state.message
        live(client)
        assert client.latest.info.run_id != first
        assert gone(pid)
