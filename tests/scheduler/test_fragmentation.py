"""The three wastes of the PagedAttention paper (section 3.1, figure 2), by numbers worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scheduler import MemoryUse, Request, StepResult, choices
from scheduler.allocation import ALLOCATORS
from scheduler.fragmentation import SHORT_OF_MEMORY, unusable_blocks
from tests.scheduler.helpers import Bench, bench, request

CONTIGUOUS = ("reserve_max", "buddy", "exact")


def memory(made: Bench) -> MemoryUse:
    return made.snapshots[-1].memory


def pool(picture: str) -> bytes:
    """A free map: "." is free, "x" is used, the first is block 1."""
    return b"\0" + bytes([mark == "." for mark in picture])


@pytest.mark.parametrize(
    ("allocation", "reserved"),
    [("paged", 0), ("exact", 2 + 1), ("buddy", 6 + 2 + 3 + 1), ("reserve_max", 2038 + 2 + 2043 + 1)],
)
def test_figure_2_of_the_paper(allocation: str, reserved: int) -> None:
    """Slots of one token, 2,048 at most. A has 7 prompt tokens, its 8th is computed and 2 are to come, as drawn there:
    2 reserved and 2,038 never used, 6 by powers of two (16 slots). B has 3, its 4th is computed and 1 is to come."""
    made = bench(
        [request("A", 7, 4), request("B", 3, 3)],
        num_blocks=4096,
        block_size=1,
        max_model_len=2048,
        allocation=allocation,
    )
    made.step()
    made.step()
    assert memory(made) == MemoryUse(filled=8 + 4, reserved=reserved, internal=0)
    made.drain()


@pytest.mark.parametrize(
    ("allocation", "reserved"), [("paged", 0), ("exact", 16), ("buddy", 32), ("reserve_max", 2 * 128 * 16 - 48)]
)
def test_the_empty_rest_of_a_block_that_holds_tokens_is_internal_and_empty_blocks_are_reserved(
    allocation: str, reserved: int
) -> None:
    """Blocks of 16. A has 20 of 20 + 20 - 1 = 39 tokens in 2 of 3 blocks (4 for buddy); B 5 of 9 in its only one."""
    requests = [request("A", 20, 20), request("B", 5, 5)]
    made = bench(requests, num_blocks=256, block_size=16, max_model_len=2048, allocation=allocation)
    made.step()
    assert memory(made) == MemoryUse(filled=25, reserved=reserved, internal=12 + 11)
    made.drain()


@pytest.mark.parametrize(
    ("picture", "count", "allocation", "unusable"),
    [
        ("..x...x.", 3, "exact", (1, 2, 8)),
        ("..x...x.", 4, "exact", (1, 2, 4, 5, 6, 8)),
        ("..x...x.", 7, "exact", ()),  # six are free: that is no fragmentation, there are too few
        ("..x...x.", 1, "exact", ()),
        ("........", 3, "exact", ()),
        ("xxxxxxxx", 3, "exact", ()),
        (".x..x...", 2, "buddy", (1, 6)),
        ("xx......", 4, "buddy", (3, 4)),
        ("x....x..", 4, "buddy", (2, 3, 4, 5, 7, 8)),
        ("......", 6, "buddy", ()),  # eight, cut to the pool
        ("......", 4, "buddy", (5, 6)),  # the tail of a pool that is no power of two
    ],
)
def test_free_blocks_in_no_run_the_allocator_can_give_are_external(
    picture: str, count: int, allocation: str, unusable: tuple[int, ...]
) -> None:
    assert unusable_blocks(pool(picture), count, allocation) == unusable


def test_external_is_what_a_search_of_every_window_finds_on_random_pools() -> None:
    rng = random.Random(1)
    for _ in range(5_000):
        size, name = rng.randint(1, 30), rng.choice(("exact", "buddy"))
        free = pool("".join(rng.choices(".x", (3, 1), k=size)))
        count = rng.choice((1, 2, 4, 8)) if name == "buddy" else rng.randint(1, 10)
        step = count if name == "buddy" else 1
        usable: set[int] = set()
        for first in range(1, size - count + 2, step):
            if all(free[first : first + count]):
                usable.update(range(first, first + count))
        blocks = [block for block in range(1, size + 1) if free[block]]
        expected = [block for block in blocks if block not in usable] if len(blocks) >= count else []
        assert list(unusable_blocks(free, count, name)) == expected, (free, count, name)
        assert (ALLOCATORS[name].place(free, count) is None) == (not usable)


def test_holes_too_small_for_the_head_of_the_queue_are_external_until_it_is_in() -> None:
    """Ten blocks of 4: a in 1-3, b in 4-6, c in 7-9. big asks for 4; when b has ended 4 are free, 4-6 and 10."""
    made = bench([request("a", 2, 11), request("b", 10, 3), request("c", 2, 11)], num_blocks=10, allocation="exact")
    made.add(request("big", 13, 4))
    made.step()
    assert memory(made) == MemoryUse(filled=2 + 10 + 2, reserved=8 + 0 + 8, internal=2 + 2 + 2)
    made.step()
    made.step()
    assert made.ends() == {"b": 2}
    assert memory(made) == MemoryUse(
        filled=4 + 4, reserved=8 + 8, internal=0, external=16, unusable_block_ids=(4, 5, 6, 10)
    )
    made.drain()
    assert memory(made) == MemoryUse()


def test_when_nobody_waits_the_smallest_request_is_what_must_find_a_run() -> None:
    """reserve_max gives 4 blocks to everybody. a in 1-4, b in 5-8; when a has ended 9-11 serve nobody."""
    made = bench([request("a", 4, 2), request("b", 4, 9)], num_blocks=11, max_model_len=16, allocation="reserve_max")
    made.step()
    assert memory(made).external == 0, "three are free: too few for anybody"
    made.step()
    assert memory(made).unusable_block_ids == (9, 10, 11)
    assert memory(made).external == 12
    made.scheduler.set_policy(replace(made.scheduler.policy, allocation="exact"))
    made.step()
    assert memory(made).external == 0, "exact can give a single block"
    made.drain()


def test_blocks_of_tokens_whose_result_was_lost_are_reserved_until_they_are_computed_again() -> None:
    made = bench([request("a", 8, 2), request("b", 8, 2)], num_blocks=10)
    made.scheduler.schedule()
    made.scheduler.set_policy(replace(made.scheduler.policy, max_num_batched_tokens=1))
    planned = made.scheduler.schedule()
    assert planned.num_scheduled_tokens == {"a": 1}
    snapshot = made.scheduler.update(StepResult(planned.step_id, {}))
    assert snapshot.memory == MemoryUse(filled=1, reserved=4 + 8, internal=3)
    made.drain()


def first_step(requests: list[Request], **settings: object) -> tuple[set[str], set[str]]:
    """(let in by the first step, said to fit page by page)."""
    made = bench(requests, **settings)
    made.step()
    waiting = made.snapshots[0].waiting
    return set(made.steps[0].new), {row.request_id for row in waiting if row.fits_paged}


def test_a_row_that_would_fit_page_by_page_says_so_within_slots_and_budget() -> None:
    """reserve_max: a takes all 8 blocks. By pages (2 + 2 + 2 + 2) all of them fit, but three slots hold two more."""
    requests = [request(name, 6, 3) for name in "abcd"]
    settings = {"num_blocks": 8, "max_model_len": 32, "allocation": "reserve_max"}
    assert first_step(requests, **settings) == ({"a"}, {"b", "c", "d"})
    assert first_step(requests, **settings, max_num_seqs=3) == ({"a"}, {"b", "c"})
    assert first_step(requests, **settings, max_num_batched_tokens=12) == ({"a"}, {"b"})
    assert first_step([request("a", 6, 3), request("b", 30, 2)], **settings) == ({"a"}, set())


def test_what_runs_is_cut_down_to_its_pages_when_a_later_request_is_judged() -> None:
    """a reserves all 8 blocks of 4 and fills 2 of them, 3 at its 9th token: six, then five are free page by page."""
    made = bench([request("a", 6, 20)], num_blocks=8, max_model_len=32, allocation="reserve_max")
    made.step()
    made.add(request("b", 24, 2))
    fitting = []
    for _ in range(4):
        made.step()
        fitting.append(made.snapshots[-1].waiting.fits_paged)
    assert fitting == [(True,), (True,), (False,), (False,)]
    made.drain()


def test_what_is_said_to_fit_is_what_a_scheduler_with_pages_lets_in() -> None:
    """Random queues before a first step: exactly those whom a scheduler with pages from the start would let in."""
    rng = random.Random(3)
    said = 0
    for _ in range(400):
        requests = [request(f"r{i}", rng.randint(1, 20), rng.randint(1, 12)) for i in range(rng.randint(2, 8))]
        settings = {
            "num_blocks": rng.randint(8, 24),
            "max_model_len": 33,
            "max_num_batched_tokens": rng.choice((16, 40, 200)),
            "max_num_seqs": rng.randint(1, 8),
            "batching": rng.choice(choices("batching")),
            "admission_rule": rng.choice(choices("admission_rule")),
            "head_of_line": rng.choice(choices("head_of_line")),
            "prefill_mix": rng.choice(choices("prefill_mix")),
        }
        made = bench(requests, **settings, allocation=rng.choice(CONTIGUOUS))
        made.step()
        waiting = made.snapshots[0].waiting
        fitting = {row.request_id for row in waiting if row.fits_paged}
        by_pages, nobody = first_step(requests, **settings, allocation="paged")
        short = bool(len(waiting)) and waiting[0].reason in SHORT_OF_MEMORY
        assert fitting == (by_pages - set(made.steps[0].new) if short else set())
        assert not nobody, "under pages nobody is promised more"
        said += bool(fitting)
    assert said > 100


@pytest.mark.parametrize("allocation", ["buddy", "exact"])
def test_blocks_above_the_limit_are_not_unusable_for_the_allocator(allocation: str) -> None:
    draw = random.Random(4)
    requests = [request(f"r{i}", draw.randint(1, 9), draw.randint(1, 9)) for i in range(40)]
    made = bench(requests, num_blocks=32, block_size=1, max_model_len=32, allocation=allocation, kv_block_limit=28)
    made.drain()
    assert any(snapshot.memory.external for snapshot in made.snapshots)
    for snapshot in made.snapshots:
        assert snapshot.memory.external <= max(0, 28 - snapshot.num_used_blocks), snapshot.step_id
        assert snapshot.memory.external == len(snapshot.memory.unusable_block_ids)
