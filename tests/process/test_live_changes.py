"""A real worker whose policy changes every few steps, whose requests are evicted, and which is killed: tokens stay."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace

import pytest
from helpers import QUIET, ended, length, live, wait_until, worker_pids

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.runner import ModelRunner
from scheduler import Request, SamplingParams, SchedulerPolicy, choices
from tests.model_runner.driving import alone

pytestmark = pytest.mark.process

CONFIG = RunnerConfig(
    model="toy", dtype="float32", threads=1, block_size=4, num_blocks=72, num_host_blocks=40, max_model_len=64
)
CHANGED = ("batching", "admission_order", "preemption_mode", "preemption_victim", "allocation", "prefill_mix")


def requests(rng: random.Random) -> list[tuple[tuple[int, ...], SamplingParams]]:
    """Prompts with beginnings in common; every second one is sampled with a seed."""
    common = tuple(rng.randrange(32, 127) for _ in range(18))
    found = []
    for index in range(16):
        prompt = (*common[: rng.choice((0, 8, 17))], *(rng.randrange(32, 127) for _ in range(rng.randint(1, 14))))
        found.append((prompt, length(rng.randint(10, 30), temperature=0.9 * (index % 2), seed=index)))
    return found


def random_change(rng: random.Random, policy: SchedulerPolicy) -> SchedulerPolicy:
    name = rng.choice(CHANGED)
    return replace(
        policy,
        **{name: rng.choice(choices(name))},
        long_prefill_token_threshold=rng.choice((0, 1, 3, 7)),
        max_num_seqs=rng.randint(2, 8),
        enable_prefix_caching=rng.random() < 0.6,
    )


def test_tokens_are_those_of_lone_runs_whatever_is_changed_evicted_or_killed() -> None:
    rng = random.Random(0)
    asked = requests(rng)
    lone = [Request(str(index), *one) for index, one in enumerate(asked)]
    expected = [tuple(tokens) for tokens in alone(ModelRunner.load(CONFIG), lone).values()]
    held = SchedulerPolicy(max_num_batched_tokens=64, admission_rule="next_chunk", paused=True)
    with RunnerClient(CONFIG, held, traffic=QUIET) as client:
        live(client)
        ids = [client.submit(prompt, sampling).request_id for prompt, sampling in asked]
        wait_until(lambda: client.latest.step.num_waiting == len(ids))
        for turn in range(40):
            assert client.set_policy(random_change(rng, client.policy)).accepted
            running = client.latest.step.running.request_id
            if running:
                assert client.preempt(rng.choice(running)).kind != "unknown"
            step_twice(client)
            if turn == 12:
                assert client.num_unfinished
                kill_worker_and_wait(client)
        client.set_policy(replace(held, paused=False))
        ended(client, ids)
        assert [client.request(i).tokens for i in ids] == expected
        assert max(snapshot.step.totals.preemptions for snapshot in client.history()) > 3


def step_twice(client: RunnerClient) -> None:
    reply = client.step(2)
    if reply.accepted:
        wait_until(lambda: client.latest.step.step_id > reply.step_id)


def kill_worker_and_wait(client: RunnerClient) -> None:
    (pid,) = worker_pids()
    run_id = client.latest.run_id
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: client.latest.run_id != run_id)
    live(client)
    wait_until(lambda: client.latest.step.num_waiting == client.num_unfinished)
