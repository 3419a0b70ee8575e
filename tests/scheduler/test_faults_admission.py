# ruff: noqa: N802  faults keep the spelling of their numbers
"""Faults F01 to F25 of the catalogue: admission, capacity and chunked prefill. Numbers are computed by hand there."""

from __future__ import annotations

import random

import pytest

from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy
from scheduler.invariants import check_empty
from tests.scheduler.helpers import bench, request


def test_F01_a_prompt_larger_than_the_pool_is_rejected_and_the_next_runs() -> None:
    made = bench(num_blocks=4)
    outcome = made.scheduler.add(request("A", 20, 1))
    made.add(request("B", 4, 2))
    assert not outcome.accepted
    assert made.drain() == 2
    assert made.ends() == {"B": 1}


def test_F02_what_fits_the_model_but_not_the_pool_is_rejected_with_both_numbers() -> None:
    made = bench(num_blocks=4, max_model_len=64)
    outcome = made.scheduler.add(request("A", 8, 20))
    assert not outcome.accepted
    assert "7 KV blocks" in outcome.reason
    assert "the pool has 4" in outcome.reason
    assert made.scheduler.add(request("B", 8, 9)).accepted, "8 + 9 - 1 tokens are exactly 4 blocks"


def test_F03_a_request_alone_never_has_to_evict_itself() -> None:
    for prompt in range(1, 17):
        made = bench([request("A", prompt, 17 - prompt)], num_blocks=4)
        assert made.drain() == 17 - prompt
        assert not made.events("preempted")


@pytest.mark.parametrize(("prompt", "accepted"), [(15, True), (16, False), (17, False)])
def test_F04_a_prompt_must_leave_room_for_one_token(prompt: int, accepted: bool) -> None:
    made = bench(num_blocks=64, max_model_len=16)
    outcome = made.scheduler.add(request("A", prompt, 1))
    assert outcome.accepted == accepted
    assert accepted or ("prompt_token_ids" in outcome.reason and "16" in outcome.reason)


def test_F05_a_request_that_was_legal_before_the_pool_was_rebuilt_is_rejected_and_the_others_run() -> None:
    """40 + 3 - 1 tokens are 11 blocks: legal with 100, impossible with the 4 of the next start."""
    long, short = request("long", 40, 3), request("short", 4, 3)
    before = bench([long, short], num_blocks=100)
    assert before.scheduler.waiting_ids == ("long", "short")
    after = bench(num_blocks=4)
    outcome = after.scheduler.add(long)
    assert (outcome.accepted, "11 KV blocks" in outcome.reason, "the pool has 4" in outcome.reason) == (
        False,
        True,
        True,
    )
    after.add(short)
    after.drain()
    assert set(after.ends()) == {"short"}
    assert [event.kind for snapshot in after.snapshots for event in snapshot.events if event.request_id == "long"] == [
        "rejected"
    ]


def test_F06_an_empty_prompt_between_two_good_requests_is_one_rejection_and_two_completions() -> None:
    made = bench(num_blocks=16)
    outcomes = [made.scheduler.add(request(name, prompt, 2)) for name, prompt in (("A", 3), ("B", 0), ("C", 3))]
    made.drain()
    assert [outcome.accepted for outcome in outcomes] == [True, False, True]
    assert set(made.ends()) == {"A", "C"}


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_F07_max_tokens_below_one_ends_at_once_with_no_token(max_tokens: int) -> None:
    made = bench(num_blocks=16)
    outcome = made.scheduler.add(request("A", 3, max_tokens))
    assert not outcome.accepted
    assert f"max_tokens is {max_tokens}" in outcome.reason
    _, snapshot = made.step()
    assert [event.kind for event in snapshot.events] == ["rejected"]
    assert snapshot.records[0].num_output_tokens == 0


def test_F08_missing_max_tokens_becomes_what_the_model_length_leaves() -> None:
    made = bench([request("A", 4, None)], num_blocks=16, max_model_len=10)
    made.step()
    assert made.snapshots[0].running[0].max_tokens == 6
    made.drain()
    record = made.snapshots[-1].records[0]
    assert (record.num_output_tokens, record.reason) == (6, "length")


def test_F08_missing_max_tokens_never_asks_for_more_than_the_pool() -> None:
    made = bench([request("A", 4, None)], num_blocks=2, max_model_len=500)
    made.drain()
    assert made.snapshots[-1].records[0].num_output_tokens == 5, "8 slots hold 4 + 5 - 1 tokens"


@pytest.mark.parametrize(
    ("rule", "second_step"), [("worst_case", False), ("full_sequence", True), ("next_chunk", True)]
)
def test_F09_only_worst_case_lets_a_large_max_tokens_block_others(rule: str, second_step: bool) -> None:
    made = bench([request("A", 4, 37), request("B", 4, 4)], num_blocks=10, admission_rule=rule)
    made.step()
    assert ("B" in made.plan(0)) == second_step
    if not second_step:
        row = made.snapshots[0].waiting[0]
        assert (row.reason, row.needed_blocks, row.free_blocks, row.blocked_by) == ("kv_capacity", 2, 0, "A")
    made.drain()


def test_F10_the_watermark_does_not_apply_when_nothing_runs() -> None:
    made = bench([request("A", 12, 1)], num_blocks=4, kv_watermark=0.5)
    made.step()
    assert made.plan(0) == {"A": 12}


def test_F10_the_watermark_keeps_blocks_free_once_something_runs() -> None:
    made = bench([request("A", 4, 9), request("B", 9, 1)], num_blocks=4, kv_watermark=0.4)
    made.step()
    row = made.snapshots[0].waiting[0]
    assert made.plan(0) == {"A": 4}
    assert (row.reason, row.needed_blocks, row.free_blocks) == ("watermark", 3, 3)
    assert made.events("deferred", "B")[0].numbers["watermark_blocks"] == 2, "int(0.4 x 5)"


def test_F11_a_budget_that_is_no_multiple_of_the_block_is_used_whole() -> None:
    made = bench([request("A", 10, 1)], num_blocks=8, max_num_batched_tokens=10)
    planned = made.scheduler.schedule()
    assert planned.num_scheduled_tokens == {"A": 10}
    assert len(planned.block_tables["A"]) == 3


def test_F12_what_is_admitted_gets_its_blocks_and_what_is_deferred_would_not_fit() -> None:
    rng = random.Random(12)
    for _ in range(2_000):
        num_blocks, block_size = rng.randint(2, 12), rng.randint(1, 6)
        made = bench(
            num_blocks=num_blocks, block_size=block_size, admission_rule=rng.choice(("next_chunk", "full_sequence"))
        )
        for index in range(4):
            made.scheduler.add(request(f"r{index}", rng.randint(1, num_blocks * block_size), 1))
        planned = made.scheduler.schedule()
        for name in planned.new:
            assert len(planned.block_tables[name]) * block_size >= planned.num_scheduled_tokens[name]
        snapshot = made.scheduler.peek()
        for row in snapshot.waiting:
            assert row.reason in ("kv_capacity", "head_of_line", "token_budget")
            if row.reason == "kv_capacity":
                assert row.needed_blocks > row.free_blocks == snapshot.num_free_blocks


def test_F13_preempted_requests_do_not_occupy_slots() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7, max_num_seqs=2)
    while not made.events("preempted"):
        made.step()
    made.scheduler.abort("a")
    made.add(request("c", 4, 2))
    made.step()
    assert set(made.plan(-1)) == {"b", "c"}


def test_F14_limits_that_contradict_each_other_are_refused_naming_both() -> None:
    policy = SchedulerPolicy(enable_chunked_prefill=False, max_num_batched_tokens=8)
    with pytest.raises(ValueError, match=r"enable_chunked_prefill.*max_num_batched_tokens is 8.*max_model_len 16"):
        Scheduler(policy, num_blocks=16, block_size=4, max_model_len=16)
    made = bench([request("A", 12, 2)], num_blocks=16, max_model_len=16)
    before = made.scheduler.policy
    outcome = made.scheduler.set_policy(policy)
    assert not outcome.accepted
    assert "enable_chunked_prefill" in outcome.reasons[0]
    assert "max_num_batched_tokens" in outcome.reasons[0]
    assert made.scheduler.policy == before


def test_F15_every_add_is_answered_by_exactly_one_end() -> None:
    made = bench(num_blocks=4)
    for name, prompt in (("A", 20), ("B", 4), ("C", 600)):
        made.scheduler.add(request(name, prompt, 2))
    made.drain()
    ends = [e.request_id for s in made.snapshots for e in s.events if e.kind in ("finished", "aborted", "rejected")]
    assert sorted(ends) == ["A", "B", "C"]


def test_F18_a_partial_chunk_gives_no_token() -> None:
    made = bench([request("A", 10, 3)], num_blocks=8, max_num_batched_tokens=4)
    assert made.drain() == 5
    assert [made.plan(index)["A"] for index in range(5)] == [4, 4, 2, 1, 1]
    assert [planned.sampling_ids for planned in made.steps] == [(), (), ("A",), ("A",), ("A",)]
    cuts = [(e.reason, e.numbers["num_scheduled_tokens"], e.numbers["num_tokens_left"]) for e in made.events("chunked")]
    assert cuts == [("token_budget", 4, 6), ("token_budget", 4, 2)]


def test_F21_a_half_done_prefill_does_not_stop_decodes() -> None:
    requests = [request(name, 4, 8) for name in "abcd"]
    made = bench(requests, num_blocks=32, max_num_seqs=4, max_num_batched_tokens=6)
    made.drain()
    first = {name: next(i for i, p in enumerate(made.steps) if name in p.sampling_ids) for name in "abcd"}
    for index, planned in enumerate(made.steps[:8]):
        for name in "abcd":
            if first[name] < index < first[name] + 8:
                assert planned.num_scheduled_tokens[name] == 1


@pytest.mark.parametrize(("cap", "expected"), [(0, [7, 8, 9, 9]), (4, None)])
def test_F22_a_cap_on_long_prefills_lets_short_prompts_through(cap: int, expected: list[int] | None) -> None:
    requests = [request("long", 64, 4), *(request(name, 4, 4) for name in "abc")]
    made = bench(requests, num_blocks=64, max_num_batched_tokens=8, long_prefill_token_threshold=cap)
    made.drain()
    first = [next(i for i, p in enumerate(made.steps) if name in p.sampling_ids) for name in ("long", "a", "b", "c")]
    assert first == expected or (cap and first[1] <= 1)


def test_F23_the_tail_of_a_chunk_leaves_the_rest_of_the_budget_to_the_next() -> None:
    made = bench([request("A", 10, 2), request("B", 20, 2)], num_blocks=16, max_num_batched_tokens=8)
    made.step()
    made.step()
    assert made.plan(1) == {"A": 2, "B": 6}


def test_F24_the_budget_holds_for_the_sum() -> None:
    made = bench([request(f"r{i}", 4, 2) for i in range(10)], num_blocks=64, max_num_batched_tokens=8)
    made.drain()
    assert made.plan(0) == {"r0": 4, "r1": 4}
    assert all(sum(planned.num_scheduled_tokens.values()) <= 8 for planned in made.steps)


def test_F25_an_abort_between_chunks_gives_all_blocks_back() -> None:
    made = bench([request("A", 12, 2)], num_blocks=8, max_num_batched_tokens=4)
    made.step()
    made.step()
    made.scheduler.abort("A")
    check_empty(made.scheduler)


def test_a_missing_sampling_object_is_a_rejection_not_an_exception() -> None:
    made = bench(num_blocks=4)
    assert not made.scheduler.add(Request("A", (1,), None)).accepted
    assert made.scheduler.add(Request("A", (1,), SamplingParams(max_tokens=1))).accepted
