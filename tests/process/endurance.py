"""A worker under load for a long time: what it keeps in memory and what a step costs, taken as it goes."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil
from helpers import QUIET, length, live

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from scheduler import SchedulerPolicy

RUNNING, UNFINISHED = 4, 6
CONFIG = RunnerConfig(
    model="toy", dtype="float32", threads=1, block_size=16, num_blocks=64, num_host_blocks=32, max_model_len=256
)
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. hours: since the first step. worker_mb, client_mb: resident. cpu_s: of the worker since its start.
    yard_ms: CPU of a fixed piece of work then: other load on the machine makes that and a step dearer alike.
    """

    step: int
    hours: float
    worker_mb: float
    client_mb: float
    cpu_s: float
    yard_ms: float


def samples(steps: int, every: int, seed: int = 0) -> Iterator[Sample]:
    """A busy worker for so many steps, looked at each ``every``; every request that ends makes place for another."""
    rng = random.Random(seed)
    policy = SchedulerPolicy(max_num_seqs=RUNNING, preemption_mode="swap", max_num_batched_tokens=128)
    with RunnerClient(CONFIG, policy, traffic=QUIET) as client:
        live(client)
        assert client.latest is not None
        run_id = client.latest.run_id
        worker, here, started = psutil.Process(client.latest.info.pid), psutil.Process(), time.monotonic()
        for due in itertools.count(every, every):
            while client.latest.step.step_id < due:
                assert client.latest.run_id == run_id, f"another worker runs: {client.state}"
                _top_up(client, rng)
                time.sleep(LOOK_S)
            times = worker.cpu_times()
            yield Sample(
                client.latest.step.step_id,
                (time.monotonic() - started) / 3600,
                worker.memory_info().rss / 1e6,
                here.memory_info().rss / 1e6,
                times.user + times.system,
                _yard_ms(),
            )
            if due >= steps:
                return


def _top_up(client: RunnerClient, rng: random.Random) -> None:
    while client.num_unfinished < UNFINISHED:
        prompt = [rng.randrange(32, 127) for _ in range(rng.randint(4, 100))]
        sampling = length(rng.randint(10, 120), temperature=0.8 * rng.randint(0, 1), seed=rng.randrange(2**31))
        assert client.submit(prompt, sampling, priority=rng.randint(0, 2)).accepted


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Median slope of all pairs (Theil 1950, Sen 1968): a single page given back or taken does not move it."""
    pairs = itertools.combinations(points, 2)
    return statistics.median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 > x1)


def _yard_ms() -> float:
    started = time.thread_time()
    sum(number * number for number in range(200_000))
    return 1000 * (time.thread_time() - started)


def cpu_ms_a_step(taken: Sequence[Sample]) -> float:
    """Milliseconds of CPU a step of the worker between the first and the last of these looks."""
    return 1000 * (taken[-1].cpu_s - taken[0].cpu_s) / (taken[-1].step - taken[0].step)


def yards_a_step(taken: Sequence[Sample]) -> float:
    """The same in the yardstick's measure of these looks, which leaves out how busy the machine was."""
    return cpu_ms_a_step(taken) / statistics.median(sample.yard_ms for sample in taken)
