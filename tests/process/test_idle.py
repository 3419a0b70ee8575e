"""With nothing to do, worker and client sleep: under a hundredth of a core, with a reader or without."""

from __future__ import annotations

import time

import psutil
import pytest
from helpers import QUIET, TOY, live, wait_until

from model_runner.client import RunnerClient
from scheduler import SchedulerPolicy

pytestmark = [pytest.mark.process, pytest.mark.soak]

SHARE = 0.01
WATCHED_S = 30.0


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@pytest.mark.parametrize("paused", [False, True])
def test_an_idle_worker_and_its_client_use_under_a_hundredth_of_a_core_each(paused: bool) -> None:
    with RunnerClient(TOY, SchedulerPolicy(paused=paused), traffic=QUIET) as client:
        live(client)
        assert client.latest is not None
        wait_until(lambda: client.state.phase in ("idle", "paused"))
        processes = {"worker": psutil.Process(client.latest.info.pid), "client": psutil.Process()}
        time.sleep(2.0)
        before, started = {name: cpu_s(process) for name, process in processes.items()}, time.monotonic()
        time.sleep(WATCHED_S)
        spent = time.monotonic() - started
        shares = {name: (cpu_s(process) - before[name]) / spent for name, process in processes.items()}
        print(f"{client.state.phase}: " + ", ".join(f"{name} {share:.2%}" for name, share in shares.items()))
        assert max(shares.values()) < SHARE
