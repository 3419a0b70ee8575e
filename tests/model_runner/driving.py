"""Drives a runner through the real scheduler, and alone, for comparison."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from model_runner.config import RunnerConfig
from model_runner.runner import ModelRunner
from scheduler import (
    Request,
    ResumeRecord,
    SamplingParams,
    Scheduler,
    SchedulerPolicy,
    ScheduleStep,
    StepSnapshot,
    Totals,
)

MAX_STEPS = 3000


@dataclass
class Driven:
    """What came out: tokens by request, every step that was planned, what each eviction cost, and the counters."""

    tokens: dict[str, list[int]] = field(default_factory=dict)
    steps: list[ScheduleStep] = field(default_factory=list)
    resumes: list[ResumeRecord] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)

    @property
    def num_preemptions(self) -> int:
        return sum(len(step.preempted) for step in self.steps)


DEVICE = os.environ.get("BATCHSCOPE_TEST_DEVICE", "cpu")


def toy_runner(**changes: object) -> ModelRunner:
    config = RunnerConfig(model="toy", device=DEVICE, dtype="float32", threads=1, block_size=4, num_blocks=256)
    return ModelRunner.load(replace(config, **changes))


@dataclass
class ForcedEvictions:
    """Asks for the eviction of a running request every so many steps, at most ``most`` times for each request."""

    every: int
    most: int = 4
    counts: dict[str, int] = field(default_factory=dict)

    def before_step(self, scheduler: Scheduler, step_index: int) -> None:
        running = [name for name in scheduler.running_ids if self.counts.get(name, 0) < self.most]
        if running and step_index % self.every == 0:
            victim = min(running, key=lambda name: (self.counts.get(name, 0), -running.index(name)))
            if scheduler.preempt(victim).kind == "preempted":
                self.counts[victim] = self.counts.get(victim, 0) + 1


def poison_what_is_free(runner: ModelRunner, scheduler: Scheduler, snapshot: StepSnapshot) -> None:
    """Make every block nobody may read a block of NaN: on the device those that are neither owned nor cached."""
    owned = {block for table in scheduler.block_tables.values() for block in table}
    for block in set(range(1, runner.info.num_blocks + 1)) - owned - set(snapshot.cached_block_ids):
        runner.cache.block(block).fill_(math.nan)
    _, waiting, _ = scheduler.sequences()
    swapped = {block for seq in waiting for block in seq.host_block_ids}
    for block in set(range(1, runner.info.num_host_blocks + 1)) - swapped:
        runner.host_pool.reserve()[block - 1].fill_(math.nan)


def drive(
    runner: ModelRunner,
    policy: SchedulerPolicy,
    requests: Iterable[Request],
    num_blocks: int = 0,
    *,
    max_model_len: int = 0,
    evictions: ForcedEvictions | None = None,
    poison: bool = False,
) -> Driven:
    """Run requests to their end. num_blocks, max_model_len: of the scheduler, 0 = the runner's."""
    scheduler = Scheduler(
        policy,
        num_blocks=num_blocks or runner.info.num_blocks,
        block_size=runner.info.block_size,
        max_model_len=max_model_len or runner.info.max_model_len,
        eos_token_ids=runner.eos_token_ids,
        num_host_blocks=runner.info.num_host_blocks,
        refuse_conflicts=False,
    )
    for request in requests:
        outcome = scheduler.add(request)
        assert outcome.accepted, outcome.reason
    driven = Driven()
    for index in range(MAX_STEPS):
        if not scheduler.has_work:
            driven.totals = scheduler.totals
            return driven
        if evictions is not None:
            evictions.before_step(scheduler, index)
        step = scheduler.schedule()
        result = runner.execute(step)
        assert result.sampled.keys() == set(step.sampling_ids)
        snapshot = scheduler.update(result)
        for request_id, token in snapshot.new_tokens.items():
            driven.tokens.setdefault(request_id, []).append(token)
        driven.steps.append(step)
        driven.resumes.extend(snapshot.resumes)
        if poison:
            poison_what_is_free(runner, scheduler, snapshot)
    raise AssertionError(f"not done after {MAX_STEPS} steps")


def alone(runner: ModelRunner, requests: Iterable[Request]) -> dict[str, list[int]]:
    """Each request by itself, its prompt computed in one piece."""
    policy = SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=4096)
    return {request.request_id: drive(runner, policy, [request]).tokens[request.request_id] for request in requests}


def mixed_requests(vocab: range = range(32, 127), count: int = 8, seed: int = 0) -> list[Request]:
    """Greedy and seeded requests of uneven lengths, every kind of sampling among them."""
    rng = random.Random(seed)
    kinds: list[Mapping[str, object]] = [
        {},
        {"temperature": 0.8, "seed": 11},
        {"repetition_penalty": 1.3},
        {"temperature": 1.0, "top_k": 5, "seed": 12},
        {"temperature": 1.2, "top_p": 0.8, "seed": 13},
        {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2, "seed": -7},
    ]
    requests = []
    for index in range(count):
        prompt = tuple(rng.choice(vocab) for _ in range(rng.choice((1, 2, 3, 5, 9, 14, 23, 31))))
        sampling = SamplingParams(max_tokens=rng.randint(2, 14), ignore_eos=True, **kinds[index % len(kinds)])
        requests.append(Request(f"r{index}", prompt, sampling))
    return requests
