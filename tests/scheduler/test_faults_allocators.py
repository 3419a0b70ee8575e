# ruff: noqa: N802  faults keep the spelling of their numbers
"""Faults of the catalogue that an allocator could bring back: each is held under every one of them."""

from __future__ import annotations

import pytest

from scheduler import choices
from tests.scheduler.helpers import bench, request

every_allocator = pytest.mark.parametrize("allocation", choices("allocation"))


@every_allocator
def test_F01_a_prompt_larger_than_the_pool_is_rejected_and_the_next_runs(allocation: str) -> None:
    made = bench(num_blocks=4, allocation=allocation)
    assert not made.scheduler.add(request("A", 20, 1)).accepted
    made.add(request("B", 4, 2))
    assert made.drain() == 2


@every_allocator
@pytest.mark.parametrize("batching", choices("batching"))
def test_F03_F10_a_request_that_fills_the_pool_runs_alone_whatever_is_kept_free(allocation: str, batching: str) -> None:
    """5 + 4 - 1 = 8 tokens are both blocks: one step a token, and no watermark or limit that is never satisfied."""
    made = bench(
        [request("A", 5, 4)],
        num_blocks=2,
        allocation=allocation,
        batching=batching,
        kv_watermark=0.9,
        kv_block_limit=1,
    )
    assert made.drain() == 4
    assert not made.events("preempted")


@pytest.mark.parametrize(("allocation", "both"), [("paged", True), ("exact", True), ("reserve_max", False)])
def test_F09_a_reservation_for_the_longest_sequence_keeps_others_out_visibly(allocation: str, both: bool) -> None:
    """A pool of 40 tokens, max_model_len 40: A books all of it for 7 tokens, though B would need 2 blocks."""
    made = bench([request("A", 4, 4), request("B", 4, 4)], num_blocks=10, max_model_len=40, allocation=allocation)
    made.step()
    assert ("B" in made.plan(0)) == both
    if not both:
        row = made.snapshots[0].waiting[0]
        assert (row.reason, row.needed_blocks, row.free_blocks, row.blocked_by) == ("kv_capacity", 10, 0, "A")
        assert row.fits_paged
    made.drain()


@pytest.mark.parametrize(("allocation", "blocks"), [("paged", 3), ("exact", 3), ("buddy", 4), ("reserve_max", 6)])
def test_F11_a_budget_that_is_no_multiple_of_the_block_is_used_whole(allocation: str, blocks: int) -> None:
    made = bench(num_blocks=16, max_model_len=24, max_num_batched_tokens=10, allocation=allocation)
    made.add(request("A", 10, 1))
    step = made.scheduler.schedule()
    assert step.num_scheduled_tokens == {"A": 10}
    assert len(step.block_tables["A"]) == blocks
    made.drain()


@every_allocator
def test_F25_an_abort_between_chunks_gives_the_whole_run_back(allocation: str) -> None:
    made = bench([request("A", 12, 9)], num_blocks=16, max_num_batched_tokens=4, allocation=allocation)
    made.step()
    made.step()
    made.scheduler.abort("A")
    assert made.scheduler.pool.num_free_blocks == 16
    made.scheduler.pool.check()


@pytest.mark.parametrize(
    ("allocation", "used"),
    [("paged", [3, 4, 5, 0]), ("exact", [6, 6, 6, 0]), ("buddy", [8, 8, 8, 0]), ("reserve_max", [10, 10, 10, 0])],
)
def test_F27_block_size_one(allocation: str, used: list[int]) -> None:
    made = bench([request("A", 3, 4)], num_blocks=16, block_size=1, max_model_len=10, allocation=allocation)
    made.drain()
    assert made.used() == used


@pytest.mark.parametrize("allocation", ["buddy", "exact", "reserve_max"])
def test_F38_runs_for_the_worst_case_end_one_after_the_other_without_an_eviction(allocation: str) -> None:
    """Four of five blocks each, or all: one at a time, 8 steps each. Pages take 57 steps for the same eight, by F38."""
    made = bench([request(f"r{i}", 8, 8) for i in range(8)], num_blocks=5, allocation=allocation)
    assert made.drain() == 8 * 8
    assert not made.events("preempted")


@every_allocator
@pytest.mark.parametrize("state", ["waiting", "partial", "running"])
def test_F56_an_abort_from_every_state_gives_everything_back(allocation: str, state: str) -> None:
    budget = {"partial": 4}.get(state, 64)
    made = bench(
        [request("other", 2, 20), request("gone", 12, 9)],
        num_blocks=16,
        max_model_len=32,
        max_num_seqs=1 if state == "waiting" else 2,
        max_num_batched_tokens=budget,
        allocation=allocation,
    )
    made.step()
    kept = len(made.scheduler.block_tables["other"])
    assert ("gone" in made.scheduler.running_ids) == (state != "waiting")
    made.scheduler.abort("gone")
    assert made.scheduler.pool.num_free_blocks == 16 - kept
    made.drain()
