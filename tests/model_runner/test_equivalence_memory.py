"""R5: tokens are those of the lone run, whatever happens to a request's memory: evicted, swapped, shared, placed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from model_runner.config import RunnerConfig
from model_runner.runner import ModelRunner
from scheduler import Request, SamplingParams, SchedulerPolicy, choices
from tests.model_runner.driving import Driven, ForcedEvictions, alone, drive, mixed_requests, toy_runner

CHUNKS = (1, 2, 3, 7, 0)
"""Tokens of a prompt in one step at most; 0 = whole."""
MODES = ("recompute", "swap")
ALLOCATORS = choices("allocation")
MAX_MODEL_LEN = 64


def sharing_requests(count: int = 8, seed: int = 0) -> list[Request]:
    """Mixed requests with prefixes in common, one prompt twice, and one that is nothing but whole blocks of another."""
    rng = random.Random(seed)
    common = tuple(rng.randrange(32, 127) for _ in range(17))
    requests = []
    for index, request in enumerate(mixed_requests(count=count, seed=seed)):
        prefix = common[: (17, 12, 9, 16)[index % 4]]
        requests.append(replace(request, prompt_token_ids=prefix + request.prompt_token_ids[:9]))
    requests[-1] = replace(requests[-1], prompt_token_ids=common[:12])
    requests[-2] = replace(requests[-2], prompt_token_ids=requests[0].prompt_token_ids)
    return requests


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    return toy_runner()


@pytest.fixture(scope="module")
def expected(runner: ModelRunner) -> dict[str, list[int]]:
    tokens = alone(runner, sharing_requests())
    assert len({tuple(t) for t in tokens.values()}) == len(tokens), "requests must differ, or equality proves little"
    return tokens


def assert_evicted(driven: Driven, evictions: ForcedEvictions, mode: str) -> None:
    """The evictions that were asked for took place, by the mode in force, and what was copied came back."""
    assert driven.num_preemptions >= sum(evictions.counts.values()) > 0
    assert {resume.mode for resume in driven.resumes} == {mode}
    moved_out, moved_in = driven.totals.swapped_out_blocks, driven.totals.swapped_in_blocks
    assert moved_out == moved_in
    assert (moved_out > 0) == (mode == "swap")


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_tokens_survive_forced_evictions(
    runner: ModelRunner, expected: dict[str, list[int]], chunk: int, mode: str, caching: bool
) -> None:
    policy = SchedulerPolicy(
        max_num_seqs=4,  # the other four come when there are blocks to share
        long_prefill_token_threshold=chunk,
        max_num_batched_tokens=64,
        preemption_mode=mode,
        enable_prefix_caching=caching,
    )
    for every in (1, 2, 5):
        evictions = ForcedEvictions(every)
        driven = drive(runner, policy, sharing_requests(), evictions=evictions)
        assert driven.tokens == expected
        assert_evicted(driven, evictions, mode)
        assert (driven.totals.prefix_cache_hits > 0) == caching


@pytest.mark.parametrize("allocation", ALLOCATORS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk", [3, 0])
def test_tokens_survive_evictions_under_every_allocator(
    runner: ModelRunner, expected: dict[str, list[int]], chunk: int, mode: str, allocation: str
) -> None:
    policy = SchedulerPolicy(allocation=allocation, preemption_mode=mode, long_prefill_token_threshold=chunk)
    evictions = ForcedEvictions(3)
    driven = drive(runner, policy, sharing_requests(), 48, max_model_len=MAX_MODEL_LEN, evictions=evictions)
    assert driven.tokens == expected
    assert_evicted(driven, evictions, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("caching", [False, True])
def test_tokens_survive_when_memory_really_is_short(
    runner: ModelRunner, expected: dict[str, list[int]], mode: str, caching: bool
) -> None:
    policy = SchedulerPolicy(admission_rule="next_chunk", preemption_mode=mode, enable_prefix_caching=caching)
    driven = drive(runner, policy, sharing_requests(), 12)
    assert driven.num_preemptions
    assert driven.tokens == expected


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_f17_f35_no_block_is_read_that_is_neither_owned_nor_cached(
    expected: dict[str, list[int]], mode: str, caching: bool
) -> None:
    """After each step every other block is filled with NaN, on the device and in the host pool."""
    policy = SchedulerPolicy(preemption_mode=mode, enable_prefix_caching=caching, long_prefill_token_threshold=5)
    driven = drive(toy_runner(num_blocks=40), policy, sharing_requests(), evictions=ForcedEvictions(3), poison=True)
    assert driven.tokens == expected


def test_prefixes_that_are_computed_in_the_very_step_that_shares_them(runner: ModelRunner) -> None:
    """Both prompts enter in one step: the second attends to keys and values that the first writes in that step."""
    prompt = tuple(range(40, 53))
    requests = [Request(name, (*prompt, last), SamplingParams(max_tokens=6)) for name, last in (("a", 60), ("b", 61))]
    driven = drive(runner, SchedulerPolicy(enable_prefix_caching=True), requests)
    first = driven.steps[0]
    assert list(first.num_scheduled_tokens.values()) == [14, 2]
    assert first.block_tables["b"][:3] == first.block_tables["a"][:3]
    assert driven.tokens == alone(runner, requests)


def random_policy(rng: random.Random) -> SchedulerPolicy:
    """Any value of every field that decides, those apart that keep requests from running at all."""
    named = ("admission_order", "admission_rule", "head_of_line", "prefill_mix", "preemption_mode")
    more = ("preemption_victim", "preemption_requeue", "allocation", "batching")
    return SchedulerPolicy(
        **{name: rng.choice(choices(name)) for name in (*named, *more)},
        max_num_seqs=rng.randint(1, 8),
        max_num_batched_tokens=rng.choice((5, 16, 64)),
        long_prefill_token_threshold=rng.choice((0, 0, 1, 2, 3, 7)),
        enable_prefix_caching=rng.random() < 0.5,
    )


def run_random_case(runner: ModelRunner, seed: int) -> None:
    rng = random.Random(seed)
    requests = sharing_requests(seed=seed % 5)
    policy = random_policy(rng)
    driven = drive(
        runner,
        policy,
        requests,
        rng.choice((20, 33, 64)),
        max_model_len=MAX_MODEL_LEN,
        evictions=ForcedEvictions(rng.randint(1, 6), most=rng.randint(0, 3)),
    )
    assert driven.tokens == alone(runner, requests), policy


@pytest.mark.parametrize("seed", range(15))
def test_tokens_do_not_depend_on_the_policy(runner: ModelRunner, seed: int) -> None:
    run_random_case(runner, seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 600, 50))
def test_tokens_do_not_depend_on_the_policy_in_500_cases(runner: ModelRunner, first: int) -> None:
    for seed in range(first, first + 50):
        run_random_case(runner, seed)


@pytest.mark.model
@pytest.mark.parametrize("mode", MODES)
def test_smollm2_goes_on_after_evictions_with_the_tokens_of_its_lone_run(mode: str) -> None:
    config = RunnerConfig(dtype="float32", threads=1, num_blocks=48, num_host_blocks=48, max_model_len=256)
    smollm = ModelRunner.load(config)
    tell = "You are a helpful assistant. Answer in one sentence. "
    asked = ("What is the capital of France?", "Why is the sky blue?", "What is the capital of France?")
    requests = []
    for index, text in enumerate(asked):
        sampling = SamplingParams(max_tokens=8, ignore_eos=True, temperature=0.8 * (index % 2), seed=index)
        requests.append(Request(f"r{index}", smollm.tokenizer.encode(tell + text, chat=True), sampling))
    policy = SchedulerPolicy(preemption_mode=mode, enable_prefix_caching=True, long_prefill_token_threshold=17)
    evictions = ForcedEvictions(2, most=3)
    driven = drive(smollm, policy, requests, evictions=evictions)
    assert driven.tokens == alone(smollm, requests)
    assert driven.totals.prefix_cache_hits > 0
    assert sum(evictions.counts.values()) >= 4
