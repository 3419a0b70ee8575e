# ruff: noqa: N802  faults keep the spelling of their numbers
"""Faults F26 to F51 of the catalogue: blocks, slots and preemption. Numbers marked (ref) there are asserted here."""

from __future__ import annotations

import copy
import itertools
import random
from dataclasses import replace

import pytest

from scheduler import InvariantError, KVBlockPool, StepResult
from scheduler.invariants import check
from tests.scheduler.helpers import bench, request


@pytest.mark.parametrize(
    ("prompt", "used"),
    [(3, [1, 1, 2, 2, 2, 0]), (4, [1, 2, 2, 2, 2, 0]), (5, [2, 2, 2, 2, 3, 0]), (8, [2, 3, 3, 3, 3, 0])],
)
def test_blocks_in_use_after_each_step_are_those_of_the_catalogue(prompt: int, used: list[int]) -> None:
    made = bench([request("A", prompt, 6)], num_blocks=8)
    made.drain()
    assert made.used() == used


def test_F26_every_position_is_computed_once_without_a_gap() -> None:
    made = bench([request("A", 10, 7)], num_blocks=8, max_num_batched_tokens=3)
    made.drain()
    positions = [
        planned.positions_start["A"] + offset
        for planned in made.steps
        for offset in range(planned.num_scheduled_tokens["A"])
    ]
    assert positions == list(range(10 + 7 - 1))


def test_F27_block_size_one() -> None:
    made = bench([request("A", 3, 4)], num_blocks=16, block_size=1)
    made.drain()
    assert made.used() == [3, 4, 5, 0]


def test_F28_a_second_free_is_noticed_and_changes_nothing() -> None:
    pool = KVBlockPool(4, 4)
    blocks = pool.allocate("A", 2)
    pool.free("A", blocks)
    with pytest.raises(InvariantError):
        pool.free("A", blocks)
    pool.check()
    assert sorted(pool.allocate("B", 4)) == [1, 2, 3, 4]


def test_F29_there_are_never_more_free_blocks_than_exist() -> None:
    """Random takes and frees, of the pool's choice and of one's own; a model of sets keeps the count."""
    rng, pool, owned = random.Random(29), KVBlockPool(23, 4), {}
    for index in range(3_000):
        free = pool.num_blocks - sum(map(len, owned.values()))
        assert (pool.num_free_blocks, pool.free_map.count(1)) == (free, free)
        if owned and (rng.random() < 0.5 or not free):
            name = rng.choice(list(owned))
            pool.free(name, owned.pop(name))
        else:
            name, count = f"r{index}", rng.randint(1, free)
            if rng.random() < 0.5:
                owned[name] = pool.allocate(name, count)
            else:
                owned[name] = tuple(rng.sample([b for b in range(1, 24) if pool.free_map[b]], count))
                pool.take(name, owned[name])
        pool.check()
        held = [block for blocks in owned.values() for block in blocks]
        assert len(set(held)) == len(held)


def test_F30_blocks_given_out_after_a_release_are_disjoint_from_those_still_owned() -> None:
    pool = KVBlockPool(4, 4)
    kept, gone = pool.allocate("A", 1), pool.allocate("B", 3)
    pool.free("B", gone)
    again = pool.allocate("C", 2)
    assert not set(kept) & set(again)
    assert (pool.num_free_blocks, pool.num_used_blocks) == (1, 3)
    pool.check()


def test_F31_a_request_cancelled_in_flight_leaves_nothing_computed_behind() -> None:
    made = bench([request("A", 8, 2)], num_blocks=4)
    planned = made.scheduler.schedule()
    made.scheduler.abort("A")
    made.scheduler.update(StepResult(planned.step_id, {"A": 1}))
    made.add(request("A", 8, 2))
    made.step()
    assert made.plan(0) == {"A": 8}


def test_F32_a_snapshot_kept_does_not_change_later() -> None:
    made = bench([request(f"r{i}", 5, 30, priority=i) for i in range(6)], num_blocks=20, max_num_batched_tokens=12)
    for _ in range(4):
        made.step()
    kept, frozen = made.snapshots[-1], copy.deepcopy(made.snapshots[-1])
    step_kept, step_frozen = made.steps[-1], copy.deepcopy(made.steps[-1])
    made.drain()
    assert kept == frozen
    assert step_kept == step_frozen


def test_F34_an_abort_while_waiting_leaves_the_pool_alone() -> None:
    made = bench([request("A", 4, 4), request("B", 4, 4)], num_blocks=8, max_num_seqs=1)
    made.step()
    free = made.scheduler.pool.num_free_blocks
    assert made.scheduler.abort("B").kind == "aborted"
    assert made.scheduler.pool.num_free_blocks == free


def test_F36_usage_is_exactly_zero_when_empty_and_one_when_full() -> None:
    made = bench(num_blocks=4)
    assert made.scheduler.peek().kv_cache_usage == 0.0
    made.add(request("A", 16, 1))
    planned = made.scheduler.schedule()
    assert made.scheduler.peek().kv_cache_usage == 1.0
    made.scheduler.update(StepResult(planned.step_id, {"A": 1}))
    assert made.scheduler.peek().kv_cache_usage == 0.0


def test_F37_the_books_are_right_while_a_request_is_preempted() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    while not made.events("preempted"):
        made.step()
    check(made.scheduler)


def test_F38_eight_requests_in_a_tiny_pool_all_finish_one_every_seven_steps() -> None:
    made = bench([request(f"r{i}", 8, 8) for i in range(8)], num_blocks=5)
    assert made.drain() == 57
    ends = sorted(made.ends().values())
    assert [later - earlier for earlier, later in itertools.pairwise(ends)] == [7] * 7
    assert all(record.num_preemptions <= 4 for s in made.snapshots for record in s.records)


def test_F39_a_request_evicted_in_a_step_is_not_planned_in_it() -> None:
    made = bench([request(name, 7, 6) for name in "abc"], num_blocks=6)
    made.drain()
    for planned in made.steps:
        assert not set(planned.preempted) & set(planned.num_scheduled_tokens)


def test_F41_youngest_is_evicted_first() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    assert made.drain() == 13
    assert made.ends() == {"a": 8, "b": 12}
    assert [event.request_id for event in made.events("preempted")] == ["b"]


def test_F42_the_preempted_one_comes_back_next_with_all_its_tokens() -> None:
    made = bench([request(name, 7, 6) for name in "abc"], num_blocks=6)
    made.drain()
    assert [(index, p.preempted) for index, p in enumerate(made.steps) if p.preempted] == [(2, ("c",))]
    assert [(index, p.resumed) for index, p in enumerate(made.steps) if p.resumed] == [(6, ("c",))]
    assert made.plan(6)["c"] == 9
    assert made.ends()["c"] == 9


def test_F43_an_urgent_request_waits_for_a_slot_and_says_so() -> None:
    made = bench(
        [request("low", 4, 4, priority=5)],
        num_blocks=16,
        max_num_seqs=1,
        admission_order="priority",
        preemption_victim="lowest_priority",
    )
    made.step()
    made.add(request("high", 4, 2, priority=0))
    made.step()
    assert made.snapshots[-1].waiting[0].reason == "max_num_seqs"
    made.drain()
    assert not made.events("preempted")


def test_F45_what_is_evicted_is_neither_running_nor_owns_blocks_after_the_update() -> None:
    made = bench([request(f"r{i}", 8, 8) for i in range(8)], num_blocks=5)
    made.drain()
    for planned, snapshot in zip(made.steps, made.snapshots, strict=True):
        assert not set(planned.preempted) & set(snapshot.running.request_id)
        assert set(planned.preempted) <= set(snapshot.waiting.request_id)


def test_F46_a_late_result_changes_no_token_count() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    while len(made.steps) < 4:
        made.step()
    late = made.scheduler.schedule()
    next_step = made.scheduler.schedule()
    before = made.scheduler.computed_tokens
    outputs = [seq.num_output_tokens for seq in made.scheduler.sequences()[2].values()]
    for _ in range(2):
        made.scheduler.update(StepResult(late.step_id, dict.fromkeys(late.sampling_ids, 1)))
        assert made.scheduler.computed_tokens == before
        assert [seq.num_output_tokens for seq in made.scheduler.sequences()[2].values()] == outputs
    made.scheduler.update(StepResult(next_step.step_id, dict.fromkeys(next_step.sampling_ids, 1)))
    made.drain()
    assert made.scheduler.totals.output_tokens == 18


def test_F47_output_made_before_an_eviction_is_kept_and_not_delivered_again() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    made.drain()
    delivered = {"a": 0, "b": 0}
    for snapshot in made.snapshots:
        for name in snapshot.new_tokens:
            delivered[name] += 1
        rows = {row.request_id: row.num_output_tokens for row in (*snapshot.running, *snapshot.waiting)}
        assert all(rows[name] == delivered[name] for name in rows)
    assert delivered == {"a": 9, "b": 9}


def test_F49_prefill_is_not_starved_by_decodes_without_end() -> None:
    made = bench([request("d0", 2, 400)], num_blocks=200, max_num_batched_tokens=8, prefill_mix="decode_first")
    made.step()
    made.add(request("p", 40, 1))
    for _ in range(8):
        made.step()
    assert made.ends()["p"] == 6, "40 tokens at 7 a step beside one decode"


def test_F51_recomputed_tokens_are_counted_as_work_apart_from_useful_tokens() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    made.drain()
    totals = made.snapshots[-1].totals
    computed = sum(sum(planned.num_scheduled_tokens.values()) for planned in made.steps)
    lost = sum(event.numbers["recompute_tokens"] for event in made.events("preempted"))
    assert totals.output_tokens == 18
    assert totals.recompute_tokens == lost > 0
    assert totals.prefill_tokens + totals.decode_tokens == 2 * (8 + 9 - 1)
    assert computed == totals.prefill_tokens + totals.decode_tokens + totals.recompute_tokens


@pytest.mark.parametrize(
    ("victim", "evicted"),
    [("newest", "d"), ("lowest_priority", "c"), ("most_blocks", "b"), ("least_computed", "d")],
)
def test_the_victim_rule_decides_who_goes(victim: str, evicted: str) -> None:
    requests = [
        request("a", 8, 12, priority=0),
        request("b", 14, 2, priority=0),
        request("c", 6, 12, priority=9),
        request("d", 5, 3, priority=1),
    ]
    made = bench(requests, num_blocks=10, preemption_victim=victim)
    while not made.events("preempted"):
        made.step()
    event = made.events("preempted")[0]
    assert event.request_id == evicted
    assert event.reason == victim
    made.drain()


@pytest.mark.parametrize(("requeue", "first"), [("front", "b"), ("back", "c")])
def test_requeue_decides_where_an_evicted_request_waits(requeue: str, first: str) -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7, preemption_requeue=requeue, max_num_seqs=2)
    made.add(request("c", 8, 2))
    while not made.events("preempted"):
        made.step()
    assert made.snapshots[-1].waiting[0].request_id == first
    made.drain()


def test_a_lowered_limit_evicts_only_when_a_block_is_needed_and_ends_nobody() -> None:
    made = bench([request(f"r{i}", 8, 12) for i in range(4)], num_blocks=24)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, kv_block_limit=2, max_num_seqs=1))
    made.drain()
    records = [record for snapshot in made.snapshots for record in snapshot.records]
    assert sorted((record.outcome, record.num_output_tokens) for record in records) == [("finished", 12)] * 4
