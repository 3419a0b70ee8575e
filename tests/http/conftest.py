"""A server over the real toy model. Not for the whole session: other tests count the children of this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.traffic import TrafficSpec
from scheduler import SchedulerPolicy
from tests.http.serving import serving, wait_until


@dataclass(frozen=True)
class Served:
    """A server's address and the client behind it."""

    url: str
    client: RunnerClient


@pytest.fixture(scope="module")
def toy() -> Iterator[Served]:
    config = RunnerConfig(model="toy", device="cpu", dtype="float32", threads=1, block_size=4, num_blocks=512)
    policy = SchedulerPolicy(max_num_seqs=8)
    with RunnerClient(config, policy, traffic=TrafficSpec(enabled=False)) as client:
        wait_until(lambda: client.state.phase == "idle", 90, "the toy model is loaded")
        with serving(client) as url:
            yield Served(url, client)
