"""The four allocators: what they give, where it lies, and what a live switch does to those that run."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler import InvariantError, KVBlockPool, choices
from scheduler.__main__ import main
from scheduler.allocation import ALLOCATORS
from tests.scheduler.helpers import Bench, bench, request

CONTIGUOUS = ("reserve_max", "buddy", "exact")


def tables(made: Bench, index: int = -1) -> dict[str, tuple[int, ...]]:
    """Blocks of each running request after a step."""
    rows = made.snapshots[index].running
    return dict(zip(rows.request_id, rows.block_ids, strict=True))


def run(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def test_no_two_allocators_give_the_same_blocks() -> None:
    """Block size 4, max_model_len 32 = 8 blocks; 9 + 9 - 1 = 17 tokens = 5 blocks, of which the prompt needs 3."""
    given = {}
    for allocation in choices("allocation"):
        made = bench([request("a", 9, 9), request("b", 9, 9)], num_blocks=20, max_model_len=32, allocation=allocation)
        made.step()
        given[allocation] = tables(made)
        made.drain()
    assert given == {
        "paged": {"a": run(1, 3), "b": run(4, 3)},
        "reserve_max": {"a": run(1, 8), "b": run(9, 8)},
        "buddy": {"a": run(1, 8), "b": run(9, 8)},
        "exact": {"a": run(1, 5), "b": run(6, 5)},
    }


def test_buddy_reserves_by_the_request_and_reserve_max_by_the_model() -> None:
    """1 + 8 - 1 = 8 tokens are 2 blocks, 3 + 8 - 1 = 10 are 3, rounded to 4 and aligned to 4: blocks 5 to 8."""
    requests = [request("a", 1, 8), request("b", 3, 8)]
    given = {}
    for allocation in ("buddy", "reserve_max"):
        made = bench(requests, num_blocks=20, max_model_len=32, allocation=allocation)
        made.step()
        given[allocation] = tables(made)
    assert given == {
        "buddy": {"a": (1, 2), "b": (5, 6, 7, 8)},
        "reserve_max": {"a": run(1, 8), "b": run(9, 8)},
    }


@pytest.mark.parametrize(("allocation", "at_once"), [("paged", 10), ("exact", 5), ("buddy", 3), ("reserve_max", 2)])
def test_the_allocator_decides_how_many_run_at_once(allocation: str, at_once: int) -> None:
    """25 blocks of 4. 5 + 13 - 1 = 17 tokens: 5 blocks, 8 for buddy; max_model_len 44: 11; the prompt: 2 pages."""
    requests = [request(f"r{i}", 5, 13) for i in range(10)]
    made = bench(
        requests,
        num_blocks=25,
        max_model_len=44,
        max_num_seqs=20,
        admission_rule="next_chunk",
        allocation=allocation,
    )
    made.step()
    assert len(made.snapshots[0].running) == at_once
    made.drain()


@pytest.mark.parametrize("allocation", CONTIGUOUS)
def test_a_contiguous_request_keeps_the_run_it_was_let_in_with_and_is_never_evicted(allocation: str) -> None:
    made = bench(
        [request(f"r{i}", 3 + i, 20) for i in range(6)], num_blocks=21, max_model_len=40, allocation=allocation
    )
    owned: dict[str, set[tuple[int, ...]]] = {}
    while made.scheduler.has_unfinished:
        made.step()
        for name, blocks in tables(made).items():
            owned.setdefault(name, set()).add(blocks)
    assert sorted(owned) == [f"r{i}" for i in range(6)]
    assert all(len(runs) == 1 for runs in owned.values())
    assert not made.events("preempted")


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 5, 6, 7, 12, 13, 31])
@pytest.mark.parametrize("allocation", choices("allocation"))
def test_a_request_that_fits_the_pool_alone_runs_under_every_allocator(allocation: str, num_blocks: int) -> None:
    """Where max_model_len, or the next power of two, is more than the pool has, the whole pool is reserved."""
    tokens = num_blocks * 4
    made = bench(
        [request("all", tokens - 1, 2)],
        num_blocks=num_blocks,
        max_num_batched_tokens=128,
        allocation=allocation,
    )
    made.step()
    assert tables(made) == {"all": run(1, num_blocks)}
    made.drain()
    assert len(made.ends()) == 1


@pytest.mark.parametrize("allocation", CONTIGUOUS)
def test_a_batch_that_starts_whole_reserves_whole_runs(allocation: str) -> None:
    """Static: both must fit at once. 17 tokens each: 5 blocks exact, 8 buddy and reserve_max (max_model_len 32)."""
    each = {"reserve_max": 8, "buddy": 8, "exact": 5}[allocation]
    requests = [request("a", 9, 9), request("b", 9, 9), request("c", 9, 9)]
    made = bench(requests, num_blocks=2 * each + 4, max_model_len=32, allocation=allocation, batching="static")
    made.step()
    assert tables(made) == {"a": run(1, each), "b": run(1 + each, each)}
    row = made.snapshots[0].waiting[0]
    assert (row.reason, row.needed_blocks, row.free_blocks) == ("kv_capacity", each, 4)
    made.drain()
    assert len(made.ends()) == 3


def fragmented(**policy: object) -> Bench:
    """Ten blocks of 4: a and c hold 3 blocks each, b held the 3 between; big needs 4 in a row, 4 are free in two runs.

    a: 1-3 (2 + 11 - 1 = 12 tokens), b: 4-6 (10 + 3 - 1 = 12, ends at its third token), c: 7-9, free: 10.
    """
    made = bench(
        [request("a", 2, 11), request("b", 10, 3), request("c", 2, 11)], num_blocks=10, allocation="exact", **policy
    )
    made.add(request("big", 13, 4))
    for _ in range(4):
        made.step()
    assert tables(made) == {"a": run(1, 3), "c": run(7, 3)}
    return made


def test_enough_blocks_that_lie_apart_are_named_as_fragmentation_with_their_numbers() -> None:
    made = fragmented()
    row = made.snapshots[-1].waiting[0]
    assert (row.request_id, row.reason) == ("big", "allocator_fragmented")
    assert (row.needed_blocks, row.free_blocks, row.blocked_by) == (4, 4, "a")
    reasons = [event.reason for event in made.events("deferred", "big")]
    assert reasons == ["kv_capacity", "allocator_fragmented"]
    numbers = made.events("deferred", "big")[-1].numbers
    assert (numbers["needed_blocks"], numbers["free_blocks"], numbers["longest_run"]) == (4, 4, 3)
    assert "longest_run" not in made.events("deferred", "big")[0].numbers
    made.drain()
    assert len(made.ends()) == 4


def test_the_same_blocks_serve_a_request_page_by_page() -> None:
    made = fragmented()
    assert made.snapshots[-1].waiting.fits_paged == (True,)
    made.scheduler.set_policy(replace(made.scheduler.policy, allocation="paged"))
    made.step()
    assert made.steps[-1].new == ("big",)
    assert set(tables(made)["big"]) == {4, 5, 6, 10}
    made.drain()


def test_a_request_behind_one_that_finds_no_run_is_let_in_when_it_may_pass() -> None:
    made = bench([request("a", 2, 11), request("b", 10, 3), request("c", 2, 11)], num_blocks=10, allocation="exact")
    made.add(request("big", 13, 4), request("small", 2, 3))
    made.scheduler.set_policy(replace(made.scheduler.policy, head_of_line="skip"))
    made.step()
    assert tables(made)["small"] == (10,)
    assert [row.request_id for row in made.snapshots[-1].waiting] == ["big"]
    made.drain()


def test_a_live_switch_of_allocator_kills_nobody_and_moves_nobody() -> None:
    made = bench([request(f"r{i}", 6, 30) for i in range(12)], num_blocks=64, max_model_len=40, max_num_seqs=4)
    last: dict[str, tuple[int, ...]] = {}
    for index in range(400):
        if index % 5 == 2:
            names = choices("allocation")
            made.scheduler.set_policy(replace(made.scheduler.policy, allocation=names[index // 5 % len(names)]))
        if not made.scheduler.has_unfinished:
            break
        made.step()
        now = tables(made)
        for name, blocks in now.items():
            assert blocks[: len(last.get(name, ()))] == last.get(name, ())
        last = now
    assert sorted(made.ends()) == sorted(f"r{i}" for i in range(12))
    assert not made.events("aborted")
    assert not made.events("preempted")


def test_pages_of_a_running_request_never_take_a_block_placed_in_the_same_step() -> None:
    """p grows by a page in the very step in which c is placed: both choices are made on one map."""
    made = bench([request("p", 4, 20)], num_blocks=12)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, allocation="exact"))
    made.add(request("c", 9, 12))
    made.step()
    assert tables(made) == {"p": (1, 2), "c": run(3, 5)}
    for _ in range(8):
        made.step()
    assert tables(made) == {"p": (1, 2, 8, 9), "c": run(3, 5)}
    made.drain()


def test_pages_freed_by_an_eviction_serve_the_one_that_needed_them_in_the_same_step() -> None:
    """a and b run page by page, the policy says exact: a's next page is one of those b has just lost."""
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=4)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, allocation="exact"))
    made.step()
    assert made.steps[-1].preempted == ("b",)
    assert tables(made) == {"a": (1, 2, 3)}
    made.drain()
    assert len(made.ends()) == 2


def test_an_evicted_request_comes_back_by_the_allocator_in_force() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    while not made.events("preempted"):
        made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, allocation="exact"))
    while not made.events("resumed"):
        made.step()
    assert tables(made)["b"] == run(tables(made)["b"][0], 4), "8 + 9 - 1 = 16 tokens, in one run"
    made.drain()


def test_F12_what_is_found_to_fit_is_what_is_given_on_random_pools() -> None:  # noqa: N802  a fault's number
    """10,000 random pools: a run is placed where every block is free, and none is missed (checked block by block)."""
    rng = random.Random(12)
    for _ in range(10_000):
        num_blocks, name = rng.randint(1, 40), rng.choice(CONTIGUOUS)
        allocator, pool = ALLOCATORS[name], KVBlockPool(num_blocks, 4)
        pool.take("x", tuple(block for block in run(1, num_blocks) if rng.random() < 0.3))
        count = rng.choice([1, 2, 4, 8, 16]) if name == "buddy" else rng.randint(1, 12)
        step = count if name == "buddy" else 1
        starts = [
            first
            for first in range(1, num_blocks - count + 2, step)
            if all(pool.owner(block) is None for block in run(first, count))
        ]
        first = allocator.place(bytes(pool.free_map), count)
        assert first == (starts[0] if starts else None), (name, bytes(pool.free_map), count)
        if first is not None:
            pool.take("y", run(first, count))
        pool.check()


def test_blocks_taken_from_the_middle_leave_the_order_of_the_others() -> None:
    pool = KVBlockPool(8, 4)
    pool.take("a", (3, 4, 5))
    assert pool.allocate("b", 3) == (1, 2, 6)
    pool.free("a", (3, 4, 5))
    assert pool.allocate("c", 5) == (5, 4, 3, 7, 8)
    pool.check()


@pytest.mark.parametrize("blocks", [(1, 2), (5, 5), (8, 9)])
def test_taking_blocks_that_are_not_free_takes_none(blocks: tuple[int, ...]) -> None:
    pool = KVBlockPool(8, 4)
    pool.take("a", (2,))
    with pytest.raises(InvariantError, match="promised"):
        pool.take("b", blocks)
    pool.check()
    assert pool.num_used_blocks == 1


def test_a_replay_shows_runs_and_where_the_slots_are(tmp_path: Path) -> None:
    """One request of 5 + 4 - 1 = 8 tokens, blocks of 4, max_model_len 16: four blocks are reserved."""
    workload, out = tmp_path / "w.json", tmp_path / "steps.jsonl"
    config = {"num_blocks": 10, "block_size": 4, "max_model_len": 16}
    rows = [{"id": "a", "arrival_step": 0, "prompt_len": 5, "output_len": 4}]
    workload.write_text(json.dumps({"config": config, "requests": rows}), encoding="utf-8")
    assert main(["replay", str(workload), "--policy", "orca-max", "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {tuple(line["block_ids"]["a"]) for line in lines} == {(1, 2, 3, 4)}
    assert [line["memory"] for line in lines] == [
        {"filled": 5, "reserved": 8, "internal": 3, "external": 0},
        {"filled": 6, "reserved": 8, "internal": 2, "external": 0},
        {"filled": 7, "reserved": 8, "internal": 1, "external": 0},
        {"filled": 8, "reserved": 8, "internal": 0, "external": 0},
    ]
