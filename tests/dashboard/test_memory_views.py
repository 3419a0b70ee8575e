"""What the page says of memory: the states of blocks, the three wastes, caches, the host pool. Hand-made snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard import block_squares, state_tables
from dashboard.arrow import decode
from dashboard.block_squares import CACHED, LOCKED, UNUSABLE, block_cells, map_geometry
from dashboard.hub import with_selection
from dashboard.i18n import translator
from dashboard.views.memory_account import account_line
from dashboard.views.twin import twin
from dashboard.words import waiting_words
from scheduler import MemoryUse, RunningTable, SchedulerPolicy, StepSnapshot, Totals
from tests.dashboard.fakes import FakeClient, engine_with

EN, KO = translator("en"), translator("ko")


def running_on(step: StepSnapshot, *block_ids: tuple[int, ...], computed: int) -> RunningTable:
    """The first rows of ``step``, on these blocks, with so many tokens computed."""
    rows = len(block_ids)
    columns = {name: getattr(step.running, name)[:rows] for name in RunningTable.__dataclass_fields__}
    columns.update(block_ids=block_ids, num_computed_tokens=(computed,) * rows, num_scheduled_tokens=(1,) * rows)
    return RunningTable(**columns)


@pytest.fixture
def client():
    fake = FakeClient(SchedulerPolicy(max_num_seqs=4))
    for i in range(3):
        fake.add(f"r{i}", 5, 9)
    fake.run(1)
    return fake


def states(step: StepSnapshot) -> dict[int, tuple[int, int, int]]:
    """Block id to (mark, fill, owners)."""
    return {b.cell + 1: (b.mark, b.fill, len(b.owners)) for b in block_cells(step, {"r0": 0, "r1": 1})}


def test_reserved_unfilled_and_unusable_blocks_are_told_apart(client):
    step = client.latest.step
    step = replace(
        step, running=running_on(step, (1, 2, 3, 4), computed=6), num_used_blocks=4, num_free_blocks=28,
        memory=MemoryUse(filled=6, reserved=8, internal=2, external=12, unusable_block_ids=(6, 7, 9)),
    )  # fmt: skip
    shown = states(step)
    assert shown[1] == (0, 16, 1), "full"
    assert shown[2] == (0, 8, 1), "two of four slots"
    assert shown[3] == shown[4] == (0, 0, 1), "reserved: owned, no token in it"
    assert {i for i, (mark, _, _) in shown.items() if mark == UNUSABLE} == {6, 7, 9}
    assert 5 not in shown, "simply free"


def test_free_cached_used_and_shared_blocks_are_told_apart(client):
    step = client.latest.step
    step = replace(
        step, running=running_on(step, (1, 2, 3), (1, 2, 4), computed=9), num_used_blocks=4, num_free_blocks=28,
        cached_block_ids=(10, 11), shared_block_ids=(1, 2), memory=MemoryUse(filled=10, internal=6),
        totals=Totals(prefix_cache_queries=40, prefix_cache_hits=10),
        policy=SchedulerPolicy(enable_prefix_caching=True),
    )  # fmt: skip
    shown = states(step)
    assert (shown[1][2], shown[2][2]) == (2, 2), "two owners"
    assert (shown[3], shown[4]) == ((0, 4, 1), (1, 4, 1))
    assert shown[10][0] == shown[11][0] == CACHED
    line = account_line(step, map_geometry(32), EN)
    assert "cached 2" in line
    assert "shared 2 (saves 2)" in line, "six uses of four blocks"
    assert "prefix hits 25%" in line
    assert "prefix 적중 25%" in account_line(step, map_geometry(32), KO)


def test_a_chosen_request_takes_its_shared_blocks_into_its_own_hue(client):
    step = client.latest.step
    client.show(replace(step, running=running_on(step, (1, 2, 3), (1, 2, 4), computed=9), num_used_blocks=4))
    frame = engine_with(client).hub.frame()
    chosen = decode(with_selection(frame, "r1")["map"]["chosen"])
    assert chosen["c"] == [0, 1, 3]
    assert set(chosen["m"]) == {frame.marks["r1"]}
    assert set(chosen["n"]) == {1}


def test_locked_squares_take_plain_free_blocks_before_cached_and_unusable_ones(client):
    step = client.latest.step
    step = replace(
        step, running=running_on(step, (1, 2), computed=6), num_used_blocks=2, block_limit=4, cached_block_ids=(32,),
        memory=MemoryUse(unusable_block_ids=(31,)),
    )  # fmt: skip
    shown = states(step)
    assert sum(mark == LOCKED for mark, _, _ in shown.values()) == 28
    assert (shown[32][0], shown[31][0]) == (CACHED, UNUSABLE)
    tight = states(replace(step, block_limit=2))
    assert sum(mark == LOCKED for mark, _, _ in tight.values()) == 30, "all that is free"


def test_the_three_wastes_are_told_in_tokens_and_as_shares_of_the_pool(client):
    step = client.latest.step
    wasted = MemoryUse(filled=8, reserved=32, internal=16, external=8, unusable_block_ids=(9, 10))
    step = replace(step, memory=wasted, num_used_blocks=14, num_free_blocks=18)
    line = account_line(step, map_geometry(32), EN)
    # The pool has 32 blocks of 4 slots.
    assert "unfilled 16 (12%)" in line
    assert "reserved 32 (25%)" in line
    assert "unusable 8 (6%)" in line
    plain = account_line(replace(step, memory=MemoryUse(filled=40, internal=16)), map_geometry(32), EN)
    assert "unfilled 16 (12%)" in plain
    assert "reserved" not in plain
    assert "unusable" not in plain


def test_the_wastes_of_every_iteration_reach_the_time_line(client):
    step = client.latest.step
    wasted = MemoryUse(filled=8, reserved=32, internal=16, external=8)
    client.show(replace(step, step_id=2, memory=wasted, num_used_blocks=14))
    series = decode(engine_with(client).hub.frame().data["time"]["series"])
    last = {name: series[name][-1] for name in "irso"}
    assert last == {"i": 16, "r": 32, "o": 8, "s": 128}
    assert series["kv"][-1] == pytest.approx(14 / 32)


def test_the_host_pool_shows_while_it_is_used_or_could_be(client):
    step = replace(client.latest.step, num_host_blocks=64, num_used_host_blocks=0)
    assert "host pool" not in account_line(step, map_geometry(32), EN)
    swapping = replace(step, policy=replace(step.policy, preemption_mode="swap"))
    assert "host pool 0 / 64" in account_line(swapping, map_geometry(32), EN)
    line = account_line(replace(step, num_used_host_blocks=16), map_geometry(32), EN)
    assert "host pool 16 / 64" in line, "still there after the mode was changed"
    assert "width:25.0%" in line


def test_a_waiting_row_says_what_it_needs_what_is_free_who_blocks_it_and_whether_pages_would_do():
    client = FakeClient(SchedulerPolicy(max_num_seqs=4, kv_block_limit=4))
    for i in range(3):
        client.add(f"r{i}", 12, 4)
    step = client.run(1)
    waiting = replace(step.waiting, fits_paged=(True, False), swapped_blocks=(3, 0))
    client.show(replace(step, step_id=2, waiting=waiting))
    queue = decode(engine_with(client).hub.frame().data["queue"]["queue"])
    head = step.waiting[0]
    assert (queue["d"][0], queue["f"][0], queue["b"][0]) == (head.needed_blocks, head.free_blocks, "r0")
    assert (queue["p"], queue["h"]) == ([1, 0], [3, 0])
    assert queue["d"][1] == -1, "who stands behind the head does not wait for memory"
    words = waiting_words(waiting[0], EN)
    assert words.endswith("r0 holds most blocks. Under paged it would fit now.")
    shown = twin(client.latest.step, {}, EN)
    assert f"<td>{head.needed_blocks}</td><td>{head.free_blocks}</td><td>r0</td><td>yes</td><td>3</td>" in shown


def test_squares_of_several_blocks_stay_reserved_only_while_no_token_is_in_them():
    blocks = [block_squares.Block(i, 3, 0, False, ("r",)) for i in range(8)]
    assert block_squares.aggregate(blocks, 8)[0].fill == 0
    blocks[0] = replace(blocks[0], fill=2)
    assert block_squares.aggregate(blocks, 8)[0].fill == 1


def test_the_queue_draws_as_many_rows_as_the_table_has():
    client = FakeClient(SchedulerPolicy(max_num_seqs=1))
    for i in range(20):
        client.add(f"r{i}", 4, 4)
    client.run(1)
    queue = decode(engine_with(client).hub.frame().data["queue"]["queue"])
    assert len(queue["i"]) == state_tables.QUEUE_ROWS
