"""Prefix caching by hand: what is found, what is shared, what is thrown out first, and what is counted."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from scheduler import KVBlockPool, Request, SamplingParams, StepResult
from scheduler.prefix_cache import PrefixCache, block_digest
from tests.scheduler.helpers import Bench, bench


def ask(name: str, *token_ids: int, max_tokens: int = 2) -> Request:
    return Request(name, token_ids, SamplingParams(max_tokens=max_tokens))


def cached(num_blocks: int = 16, **options: object) -> Bench:
    """Blocks of 4 tokens; every sampled token is 1."""
    return bench(num_blocks=num_blocks, enable_prefix_caching=True, **options)


def run(made: Bench, *requests: Request) -> None:
    made.add(*requests)
    made.drain()


def hits(made: Bench) -> tuple[int, int]:
    totals = made.snapshots[-1].totals
    return totals.prefix_cache_queries, totals.prefix_cache_hits


# The digest chain.


def test_a_digest_stands_for_the_block_and_everything_before_it() -> None:
    first = hashlib.sha256(b"1,2,3,4").digest()
    assert block_digest(b"", (1, 2, 3, 4)) == first
    assert block_digest(first, (1, 2, 3, 4)) == hashlib.sha256(first + b"1,2,3,4").digest()
    assert block_digest(b"", (1, 23)) != block_digest(b"", (12, 3))


def test_equal_blocks_behind_different_prefixes_are_not_shared() -> None:
    made = cached()
    run(made, ask("a", 1, 1, 1, 1, 5, 6, 7, 8, 9))
    run(made, ask("b", 2, 2, 2, 2, 5, 6, 7, 8, 9))
    assert hits(made) == (18, 0)


def test_only_full_blocks_are_found() -> None:
    made = cached()
    run(made, ask("a", 1, 2, 3, 4, 5, 6, 7))
    run(made, ask("b", 1, 2, 3, 4, 5, 6, 7, 8, 9))
    assert hits(made) == (16, 4)


def test_output_is_found_as_well_as_prompt() -> None:
    made = cached()
    run(made, ask("a", 1, 2, 3, max_tokens=6))  # known: 1 2 3 | 1 1 1 1 1 1, computed 8 of 9: two full blocks
    run(made, ask("b", 1, 2, 3, 1, 1, 1, 1, 1, 7))
    assert made.snapshots[-1].totals.prefix_cache_hits == 8


# The last token.


def test_a_wholly_cached_prompt_still_computes_its_last_token() -> None:
    made = cached()
    run(made, ask("a", *range(10, 18)), ask("c", 99))
    made.add(ask("b", *range(10, 18)))
    step, _ = made.step()
    # 8 tokens are cached, at most 7 count, so one block of 4: the whole second block is computed again.
    assert (step.positions_start["b"], step.num_scheduled_tokens["b"], step.sampling_ids) == (4, 4, ("b",))
    made.drain()


def test_a_prompt_one_longer_than_a_cached_one_computes_one_token() -> None:
    made = cached()
    run(made, ask("a", *range(10, 19)))
    made.add(ask("b", *range(10, 18), 50))
    step, snapshot = made.step()
    assert (step.positions_start["b"], step.num_scheduled_tokens["b"]) == (8, 1)
    assert snapshot.running[0].num_cached_tokens == 8
    [event] = made.events("admitted", "b")
    assert event.numbers["num_cached_tokens"] == 8


# Sharing.


def test_a_block_is_shared_in_the_step_that_fills_it_and_freed_once() -> None:
    made = cached()
    made.add(ask("a", *range(10, 19), max_tokens=2), ask("b", *range(10, 18), 50, max_tokens=4))
    step, snapshot = made.step()
    assert step.block_tables == {"a": (1, 2, 3), "b": (1, 2, 4)}
    assert step.num_scheduled_tokens == {"a": 9, "b": 1}
    assert snapshot.shared_block_ids == (1, 2)
    assert made.scheduler.pool.holders(1) == ("a", "b")
    assert (snapshot.num_used_blocks, snapshot.memory.filled) == (4, 10)
    _, snapshot = made.step()  # a ends; the shared blocks stay b's
    assert (snapshot.shared_block_ids, snapshot.num_used_blocks) == ((), 3)
    assert made.scheduler.pool.holders(1) == ("b",)
    made.drain()
    assert made.scheduler.pool.num_free_blocks == 16


def test_an_eviction_frees_only_what_nobody_else_uses() -> None:
    made = cached(num_blocks=8)
    made.add(ask("a", *range(10, 19), max_tokens=9), ask("b", *range(10, 18), 50, max_tokens=9))
    made.step()
    made.scheduler.preempt("b")
    _, snapshot = made.step()
    assert [event.numbers["freed_blocks"] for event in made.events("preempted")] == [1]
    assert snapshot.num_used_blocks == 3
    step, _ = made.step()
    # b comes back to its shared blocks: of the 10 tokens it knows, only the last two are computed again.
    assert (step.resumed, step.positions_start["b"], step.num_scheduled_tokens["b"]) == (("b",), 8, 2)
    made.drain()


def test_content_that_fills_up_twice_is_kept_twice_and_the_first_is_given_out() -> None:
    made = cached()
    run(made, ask("a", 1, 2, 3, 4, 5), ask("b", 1, 2, 3, 4, 5))
    cache = made.scheduler.pool.cache
    assert list(cache.find(block_digest(b"", (1, 2, 3, 4)))) == [1]  # b found a's, in the same step
    twins = PrefixCache()
    for block in (7, 3):
        twins.register(block, b"same")
    assert list(twins.find(b"same")) == [7, 3]
    twins.forget(7)
    assert (list(twins.find(b"same")), len(twins), 7 in twins) == ([3], 1, False)


# What is thrown out.


def test_cached_blocks_are_handed_out_last_the_least_recently_used_first_and_tails_before_heads() -> None:
    made = cached(num_blocks=6)
    run(made, ask("a", *range(10, 19)))  # blocks 1 2 full, 3 not
    assert made.snapshots[-1].cached_block_ids == (2, 1)
    run(made, ask("b", *range(30, 35)))  # takes 3, freed last and not cached, then 4
    assert made.snapshots[-1].cached_block_ids == (2, 1, 3)
    run(made, ask("c", *range(10, 15)))  # finds block 1, which becomes the most recently used
    assert made.snapshots[-1].cached_block_ids == (2, 3, 1)
    assert list(made.scheduler.pool.free_order())[-3:] == [2, 3, 1]


def test_a_block_handed_out_anew_is_found_no_more() -> None:
    made = cached(num_blocks=2)
    run(made, ask("a", 1, 2, 3, 4, 5))
    run(made, ask("b", 7, 7, 7, 7, 7))  # takes both blocks
    assert len(made.snapshots[-1].cached_block_ids) == 1
    run(made, ask("c", 1, 2, 3, 4, 5))
    assert hits(made) == (15, 0)


def test_free_blocks_that_are_found_cost_a_free_block_and_used_ones_do_not() -> None:
    made = cached(num_blocks=3)
    made.add(ask("a", *range(10, 19), max_tokens=3), ask("b", *range(10, 19), max_tokens=3))
    step, _ = made.step()
    assert list(step.num_scheduled_tokens) == ["a"], "b shares two blocks and finds none for its third"
    [event] = made.events("deferred", "b")
    assert (event.reason, event.numbers["needed_blocks"], event.numbers["free_blocks"]) == ("kv_capacity", 1, 0)
    made.drain()
    made.add(ask("c", *range(10, 19)))
    step, snapshot = made.step()
    assert (step.positions_start["c"], snapshot.num_used_blocks) == (8, 3)
    made.drain()


# What is counted.


def test_queries_and_hits_are_counted_at_first_admission_only() -> None:
    made = cached()
    run(made, ask("a", *range(10, 19)))
    made.add(ask("b", *range(10, 19), max_tokens=3))
    made.step()
    assert hits(made) == (18, 8)
    made.scheduler.preempt("b")
    made.drain()
    assert len(made.events("resumed", "b")) == 1
    assert hits(made) == (18, 8), "vLLM counts requests that were evicted apart"
    [record] = [r for snapshot in made.snapshots for r in snapshot.records if r.request_id == "b"]
    assert record.num_cached_tokens == 16


def test_a_recompute_costs_only_what_the_cache_does_not_have() -> None:
    made = cached()
    made.add(ask("a", *range(10, 19), max_tokens=3))
    made.step()
    made.scheduler.preempt("a")
    made.drain()
    assert made.snapshots[-1].totals.recompute_tokens == 1
    [record] = [record for snapshot in made.snapshots for record in snapshot.resumes]
    assert (record.mode, record.recompute_tokens) == ("recompute", 1)


# Where it acts.


@pytest.mark.parametrize(
    "elsewhere", [{"allocation": "exact"}, {"batching": "static"}, {"enable_prefix_caching": False}]
)
def test_it_acts_on_pages_and_continuous_batches_only(elsewhere: dict[str, object]) -> None:
    made = bench(num_blocks=16, **({"enable_prefix_caching": True} | elsewhere))
    run(made, ask("a", *range(10, 19)))
    run(made, ask("b", *range(10, 19)))
    assert hits(made) == (0, 0)
    assert not made.snapshots[-1].cached_block_ids


def test_switching_it_off_forgets_everything_and_sharers_keep_their_blocks() -> None:
    made = cached()
    run(made, ask("old", *range(70, 79)))
    made.add(ask("a", *range(10, 19), max_tokens=6), ask("b", *range(10, 18), 50, max_tokens=6))
    made.step()
    assert made.scheduler.set_policy(replace(made.scheduler.policy, enable_prefix_caching=False)).accepted
    _, snapshot = made.step()
    assert (snapshot.cached_block_ids, len(snapshot.shared_block_ids)) == ((), 2)
    made.drain()
    assert len(made.scheduler.pool.cache) == 0
    assert made.scheduler.pool.num_free_blocks == 16


def test_one_workload_tells_caching_on_and_off_apart() -> None:
    computed = {}
    for on in (False, True):
        made = bench(num_blocks=16, enable_prefix_caching=on)
        run(made, ask("a", *range(10, 19)))
        run(made, ask("b", *range(10, 19)))
        computed[on] = made.snapshots[-1].totals.prefill_tokens
    assert computed == {False: 18, True: 10}


def test_a_swapped_request_takes_its_own_copy_back_and_offers_it_again() -> None:
    made = cached(preemption_mode="swap")
    made.add(ask("a", *range(10, 19), max_tokens=3))
    made.step()
    made.scheduler.preempt("a")
    made.step()
    step, _ = made.step()
    assert len(step.swapped_in) == 1
    assert (step.positions_start["a"], made.snapshots[-1].running[0].num_cached_tokens) == (9, 0)
    assert made.snapshots[-1].totals.recompute_tokens == 0
    made.drain()


def test_what_a_lost_step_should_have_filled_is_not_found() -> None:
    made = cached()
    made.add(ask("a", *range(10, 19), max_tokens=2), ask("b", *range(10, 18), 50, max_tokens=2))
    lost = made.scheduler.schedule()
    assert lost.block_tables["b"][:2] == lost.block_tables["a"][:2]
    made.scheduler.abort("a")
    step = made.scheduler.schedule()  # the result never came: b computes the blocks it hoped to find
    assert (step.positions_start["b"], step.num_scheduled_tokens["b"]) == (0, 9)
    made.scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 1)))
    made.drain()


def test_a_pool_lets_nobody_free_what_it_does_not_hold() -> None:
    pool = KVBlockPool(4, 4)
    [block] = pool.allocate("a", 1)
    pool.share("b", (block,))
    assert pool.holders(block) == ("a", "b")
    with pytest.raises(RuntimeError, match="c frees block 1"):
        pool.free("c", (block,))
    pool.free("a", (block,))
    assert (pool.holders(block), pool.num_free_blocks) == (("b",), 3)
    pool.free("b", (block,))
    with pytest.raises(RuntimeError, match="b frees block 1"):
        pool.free("b", (block,))
    pool.check()
