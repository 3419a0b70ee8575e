"""R5: a request's tokens are those of its lone run, however it is scheduled. On the toy model, in float32."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from model_runner.runner import ModelRunner
from scheduler import Request, SamplingParams, SchedulerPolicy, ScheduleStep
from tests.model_runner.driving import alone, drive, mixed_requests, toy_runner

MIXES = ("running_order", "decode_first", "prefill_first")


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    return toy_runner()


@pytest.fixture(scope="module")
def expected(runner: ModelRunner) -> dict[str, list[int]]:
    tokens = alone(runner, mixed_requests())
    assert len({tuple(t) for t in tokens.values()}) == len(tokens), "requests must differ, or equality proves little"
    return tokens


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 0])
def test_tokens_do_not_depend_on_chunks_or_mix(
    runner: ModelRunner, expected: dict[str, list[int]], chunk: int, mix: str
) -> None:
    policy = SchedulerPolicy(prefill_mix=mix, long_prefill_token_threshold=chunk, max_num_batched_tokens=64)
    driven = drive(runner, policy, mixed_requests())
    assert driven.tokens == expected
    if chunk:
        assert max(n for step in driven.steps for n in step.num_scheduled_tokens.values()) <= max(chunk, 1)


@pytest.mark.parametrize("budget", [3, 8, 17])
@pytest.mark.parametrize("seats", [2, 5, 8])
def test_tokens_do_not_depend_on_batch_or_budget(
    runner: ModelRunner, expected: dict[str, list[int]], seats: int, budget: int
) -> None:
    policy = SchedulerPolicy(max_num_seqs=seats, max_num_batched_tokens=budget)
    assert drive(runner, policy, mixed_requests()).tokens == expected


@pytest.mark.parametrize("victim", ["newest", "lowest_priority", "most_blocks", "least_computed"])
@pytest.mark.parametrize("chunk", [0, 3])
def test_tokens_survive_preemption(
    runner: ModelRunner, expected: dict[str, list[int]], victim: str, chunk: int
) -> None:
    policy = SchedulerPolicy(preemption_victim=victim, admission_rule="next_chunk", long_prefill_token_threshold=chunk)
    driven = drive(runner, policy, mixed_requests(), num_blocks=12)
    assert driven.num_preemptions
    assert driven.tokens == expected


@pytest.mark.parametrize("budget", [8, 128])
def test_tokens_survive_static_batching_and_its_padding(
    runner: ModelRunner, expected: dict[str, list[int]], budget: int
) -> None:
    policy = SchedulerPolicy(batching="static", max_num_seqs=4, max_num_batched_tokens=budget)
    driven = drive(runner, policy, mixed_requests())
    assert sum(sum(step.num_padding_tokens.values()) for step in driven.steps) > 0
    assert driven.tokens == expected


@pytest.mark.parametrize("cut", [1, 4])
def test_tokens_continue_in_another_process(expected: dict[str, list[int]], cut: int) -> None:
    continued = []
    for request in mixed_requests():
        done = tuple(expected[request.request_id][:cut])
        if len(done) < (request.sampling.max_tokens or 0):
            continued.append(replace(request, prior_output_token_ids=done))
    driven = drive(toy_runner(), SchedulerPolicy(), continued)
    assert driven.tokens == {r.request_id: expected[r.request_id][cut:] for r in continued}


@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_f17_f33_slots_that_nobody_wrote_are_never_read(expected: dict[str, list[int]], batching: str) -> None:
    fresh = toy_runner()
    fresh.cache.fill(math.nan)
    policy = SchedulerPolicy(batching=batching, max_num_batched_tokens=16, long_prefill_token_threshold=4)
    assert drive(fresh, policy, mixed_requests()).tokens == expected


def test_f17_chunks_of_a_prompt_see_no_further_than_themselves() -> None:
    request = Request("r", tuple(range(40, 50)), SamplingParams(max_tokens=3))
    whole = drive(toy_runner(), SchedulerPolicy(max_num_batched_tokens=10), [request]).tokens
    nan_filled = toy_runner()
    nan_filled.cache.fill(math.nan)
    assert drive(nan_filled, SchedulerPolicy(max_num_batched_tokens=4), [request]).tokens == whole


def test_f18_a_partial_chunk_samples_nothing(runner: ModelRunner) -> None:
    request = Request("r", tuple(range(40, 50)), SamplingParams(max_tokens=1))
    driven = drive(runner, SchedulerPolicy(max_num_batched_tokens=4), [request])
    planned = [dict(step.num_scheduled_tokens) for step in driven.steps if not step.is_empty]
    assert planned == [{"r": 4}, {"r": 4}, {"r": 2}]
    assert len(driven.tokens["r"]) == 1


def test_f35_blocks_given_to_another_request_carry_nothing_over(runner: ModelRunner) -> None:
    requests = mixed_requests(count=6, seed=3)
    expected = alone(runner, requests)
    fresh = toy_runner()
    driven = drive(fresh, SchedulerPolicy(admission_rule="next_chunk"), requests, num_blocks=13)
    owners: dict[int, set[str]] = {}
    for step in driven.steps:
        for request_id, table in step.block_tables.items():
            for block in table:
                owners.setdefault(block, set()).add(request_id)
    assert driven.num_preemptions
    assert any(len(ids) > 2 for ids in owners.values())
    assert driven.tokens == expected


def test_f35_a_poisoned_page_does_not_reach_its_next_owner(runner: ModelRunner) -> None:
    """What an owner with a broken computation left behind must be gone when the block is used again."""
    requests = mixed_requests(count=3, seed=5)
    expected = alone(runner, requests)
    poisoned = toy_runner()
    for request in requests:
        poisoned.cache.fill(math.inf)
        assert drive(poisoned, SchedulerPolicy(), [request]).tokens == {
            request.request_id: expected[request.request_id]
        }


@pytest.mark.parametrize("num_blocks", [12, 13, 20])
def test_tokens_do_not_depend_on_where_the_pool_ends(expected: dict[str, list[int]], num_blocks: int) -> None:
    """Decodes multiply pages in batches of eight and more; these pools are smaller, or end in the middle of one."""
    fresh = toy_runner(num_blocks=num_blocks)
    fresh.cache.fill(math.nan)
    assert drive(fresh, SchedulerPolicy(), mixed_requests()).tokens == expected


@pytest.mark.parametrize("count", [9, 33, 65, 70])
def test_tokens_do_not_depend_on_rows_that_fill_a_batch_up(runner: ModelRunner, count: int) -> None:
    """Batches of sizes that are rounded up or taken in pieces, on a cache where any slot nobody wrote would show."""
    requests = [
        Request(f"r{i}", (40 + i % 50, 41 + i % 7), SamplingParams(max_tokens=3, ignore_eos=True)) for i in range(count)
    ]
    fresh = toy_runner()
    fresh.cache.fill(math.nan)
    policy = SchedulerPolicy(max_num_seqs=count, max_num_batched_tokens=3 * count)
    driven = drive(fresh, policy, requests)
    assert max(len(step.sampling_ids) for step in driven.steps) == count
    assert driven.tokens == alone(runner, requests)


def test_an_id_may_be_used_again_in_the_step_that_says_its_request_ended() -> None:
    def step(number: int, prompt: tuple[int, ...], **fields: object) -> ScheduleStep:
        return ScheduleStep(
            step_id=number,
            policy_version=1,
            time=0.0,
            num_scheduled_tokens={"r": len(prompt)},
            kinds={"r": "prefill"},
            token_ids={"r": prompt},
            positions_start={"r": 0},
            block_tables={"r": (1, 2)},
            sampling_ids=("r",),
            **fields,
        )

    old = Request("r", (50, 51, 52), SamplingParams(temperature=1.0, seed=3))
    new = Request("r", (60, 61), SamplingParams(max_tokens=4, repetition_penalty=1.5))
    used, fresh = toy_runner(), toy_runner()
    used.execute(step(1, old.prompt_token_ids, new_requests=(old,)))
    found = used.execute(step(2, new.prompt_token_ids, finished=("r",), new_requests=(new,)))
    assert found.sampled == fresh.execute(step(1, new.prompt_token_ids, new_requests=(new,))).sampled
    assert used.num_requests == 1
    used.execute(ScheduleStep(step_id=3, policy_version=1, time=0.0, finished=("r",)))
    assert used.num_requests == 0


def test_runner_forgets_requests_that_ended(runner: ModelRunner) -> None:
    drive(runner, SchedulerPolicy(), mixed_requests())
    assert runner.num_requests == 0
