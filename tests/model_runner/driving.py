"""Drives a runner through the real scheduler, and alone, for comparison."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from model_runner.config import RunnerConfig
from model_runner.runner import ModelRunner
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, ScheduleStep

MAX_STEPS = 3000


@dataclass
class Driven:
    """What came out: tokens by request, and every step that was planned."""

    tokens: dict[str, list[int]] = field(default_factory=dict)
    steps: list[ScheduleStep] = field(default_factory=list)

    @property
    def num_preemptions(self) -> int:
        return sum(len(step.preempted) for step in self.steps)


def toy_runner(**changes: object) -> ModelRunner:
    config = RunnerConfig(model="toy", device="cpu", dtype="float32", threads=1, block_size=4, num_blocks=256)
    return ModelRunner.load(replace(config, **changes))


def drive(runner: ModelRunner, policy: SchedulerPolicy, requests: Iterable[Request], num_blocks: int = 0) -> Driven:
    """Run requests to their end. num_blocks: pool of the scheduler, 0 = all the runner has."""
    scheduler = Scheduler(
        policy,
        num_blocks=num_blocks or runner.info.num_blocks,
        block_size=runner.info.block_size,
        max_model_len=runner.info.max_model_len,
        eos_token_ids=runner.eos_token_ids,
        refuse_conflicts=False,
    )
    for request in requests:
        outcome = scheduler.add(request)
        assert outcome.accepted, outcome.reason
    driven = Driven()
    for _ in range(MAX_STEPS):
        if not scheduler.has_work:
            return driven
        step = scheduler.schedule()
        result = runner.execute(step)
        assert result.sampled.keys() == set(step.sampling_ids)
        for request_id, token in scheduler.update(result).new_tokens.items():
            driven.tokens.setdefault(request_id, []).append(token)
        driven.steps.append(step)
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
