"""The checks of the books find what is wrong with them: each corruption is one that a defect could leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler import InvariantError
from scheduler.block_pool import KVBlockPool
from scheduler.invariants import check, check_snapshot
from scheduler.sequence import State
from tests.scheduler.helpers import Bench, bench, request


def busy(**policy: object) -> Bench:
    """Two that run with two blocks each, the first shared, and one that waits."""
    made = bench(num_blocks=8, max_num_seqs=2, enable_prefix_caching=True, **policy)
    made.add(*(request(name, 7, 4) for name in "abc"))
    made.step()
    assert made.scheduler.pool.shared == {1: {"a": None, "b": None}}
    return made


POOL: dict[str, Callable[[KVBlockPool], object]] = {
    "free and owned": lambda pool: pool._free.update({2: None}),
    "neither free nor owned": lambda pool: pool._free.pop(8),
    "free map says taken": lambda pool: pool.free_map.__setitem__(8, 0),
    "free map says free": lambda pool: pool.free_map.__setitem__(2, 1),
    "block 0 is free": lambda pool: pool._free.update({0: None}),
    "block 0 has an owner": lambda pool: pool._owner.__setitem__(0, "a"),
    "a block beyond the pool": lambda pool: pool._free.update({9: None}),
    "owned by a stranger": lambda pool: pool._owner.__setitem__(2, "c"),
    "shared by one": lambda pool: pool.shared[1].pop("b"),
    "shared by a stranger": lambda pool: pool.shared[1].update({"c": None}),
    "shared by two others": lambda pool: pool.shared.update({2: {"b": None, "c": None}}),
    "known for other tokens": lambda pool: pool.cache.register(2, b"?"),
}


@pytest.mark.parametrize("corrupt", POOL.values(), ids=POOL)
def test_a_pool_that_contradicts_itself_or_the_tables_is_found(corrupt: Callable[[KVBlockPool], object]) -> None:
    made = busy()
    check(made.scheduler)
    corrupt(made.scheduler.pool)
    with pytest.raises(InvariantError):
        check(made.scheduler)


SEQUENCE: dict[str, dict[str, object]] = {
    "computed more than known": {"num_computed_tokens": 9},
    "computed less than none": {"num_computed_tokens": -1},
    "counts a token it has not": {"num_tokens": 9},
    "output of no token": {"num_output_tokens": 2},
    "more output than asked": {"max_tokens": 0},
    "a block twice": {"block_table": (1, 1)},
    "a block of another": {"block_table": (1, 3)},
    "a block lost": {"block_table": (1,), "capacity": 4, "num_computed_tokens": 4},
    "capacity": {"capacity": 12},
    "in the wrong state": {"state": State.WAITING},
    "blocks in both pools": {"host_block_ids": (1,)},
    "no allocator": {"allocation": ""},
    "another allocator": {"allocation": "exact"},
    "offers what is not full": {"num_registered": 2},
    "the slot of another": {"slot": 1},
    "scheduled after its first token": {"first_scheduled_time": 5.0},
    "a token before it was scheduled": {"first_scheduled_time": None},
}


@pytest.mark.parametrize("wrong", SEQUENCE.values(), ids=SEQUENCE)
def test_a_running_request_that_contradicts_itself_or_the_pool_is_found(wrong: dict[str, object]) -> None:
    made = busy()
    [seq, _], _, _ = made.scheduler.sequences()
    for name, value in wrong.items():
        setattr(seq, name, value)
    with pytest.raises(InvariantError):
        check(made.scheduler)


@pytest.mark.parametrize(
    "wrong",
    [{"block_table": (5,), "capacity": 4}, {"allocation": "paged"}, {"host_block_ids": (1,)}, {"state": State.RUNNING}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_waiting_request_that_owns_something_is_found(wrong: dict[str, object]) -> None:
    made = busy()
    _, [seq], _ = made.scheduler.sequences()
    for name, value in wrong.items():
        setattr(seq, name, value)
    with pytest.raises(InvariantError):
        check(made.scheduler)


def test_a_request_in_two_lists_or_in_none_is_found() -> None:
    made = busy()
    made.scheduler._life.running.append(made.scheduler._life.running[0])
    with pytest.raises(InvariantError, match="twice"):
        check(made.scheduler)
    made = busy()
    made.scheduler._life.running.pop()
    with pytest.raises(InvariantError, match="differ"):
        check(made.scheduler)


@pytest.mark.parametrize("field", ["filled", "reserved", "internal", "external"])
def test_a_snapshot_whose_memory_does_not_add_up_is_found(field: str) -> None:
    snapshot = busy().snapshots[-1]
    check_snapshot(snapshot)
    wrong = replace(snapshot.memory, **{field: getattr(snapshot.memory, field) + 1})
    with pytest.raises(InvariantError):
        check_snapshot(replace(snapshot, memory=wrong))
