"""kill -9 of the worker at random moments under load: shown, replaced, and every answer is that of its lone run."""

from __future__ import annotations

import random

import pytest
from chaos import MOMENTS, Asked, Kill, Ordeal
from helpers import QUIET, length, live

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.runner import ModelRunner
from scheduler import Request, SchedulerPolicy
from tests.model_runner.driving import alone

pytestmark = pytest.mark.process

DOWN_S, LIVE_S = 2.0, 10.0
TOY = RunnerConfig(model="toy", dtype="float32", threads=1, num_blocks=96, max_model_len=256)
SMOLLM = RunnerConfig(model="smollm2", dtype="float32", threads=1, num_blocks=64, max_model_len=256)


def requests(rng: random.Random, count: int, tokens: tuple[int, int], seeded: int) -> list[Asked]:
    """Greedy ones, but the first ``seeded``, which are sampled with a seed."""
    found = []
    for index in range(count):
        prompt = tuple(rng.randrange(32, 127) for _ in range(rng.randint(3, 40)))
        found.append((prompt, length(rng.randint(*tokens), temperature=0.9 * (index < seeded), seed=index)))
    return found


def survive(config: RunnerConfig, asked: list[Asked], moments: list[str], seed: int) -> list[Kill]:
    """All kills, with every request held against its lone run."""
    lone = [Request(str(index), *one) for index, one in enumerate(asked)]
    expected = [tuple(tokens) for tokens in alone(ModelRunner.load(config), lone).values()]
    with RunnerClient(config, SchedulerPolicy(), traffic=QUIET) as client:
        live(client)
        ordeal = Ordeal(client, asked, expected, unfinished=12, seed=seed)
        kills = []
        for kill in ordeal.kills(moments):
            print(
                f"{kill.moment}: down {kill.down_s:.3f} s, live after {kill.live_s:.2f} s (CPU {kill.cpu_s:.2f})",
                flush=True,
            )
            kills.append(kill)
        ordeal.finish()
        print(f"{len(kills)} kills, {ordeal.num_done} requests, {ordeal.num_restarted} over a restart", flush=True)
        assert client.state.restarts == len(kills)
        assert ordeal.num_restarted >= len(set(moments))
    assert max(kill.down_s for kill in kills) < DOWN_S
    assert max(kill.cpu_s for kill in kills) < LIVE_S
    return kills


def test_kill_9_right_after_accept_and_again_while_the_next_worker_starts_loses_and_doubles_nothing() -> None:
    kills = survive(TOY, requests(random.Random(1), 8, (100, 180), seeded=3), ["accept", "start"], seed=1)
    assert [kill.moment for kill in kills] == ["accept", "step", "start"]


@pytest.mark.soak
def test_kill_9_fifty_times_at_random_moments_under_load() -> None:
    rng = random.Random(2)
    moments = [*MOMENTS] * 10
    rng.shuffle(moments)
    kills = survive(TOY, requests(rng, 40, (20, 200), seeded=15), moments, seed=2)
    assert len(kills) == 50
    assert max(kill.live_s for kill in kills) < LIVE_S


@pytest.mark.soak
@pytest.mark.model
def test_kill_9_of_the_real_model_under_load() -> None:
    rng = random.Random(3)
    moments = [*MOMENTS] * 2
    rng.shuffle(moments)
    kills = survive(SMOLLM, requests(rng, 12, (10, 40), seeded=4), moments, seed=3)
    assert len(kills) == 10
    assert max(kill.live_s for kill in kills) < LIVE_S
