"""The packed block map says of every square what the list of squares says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from dashboard import dense_map
from dashboard.block_squares import CACHED, FULL, LOCKED, UNUSABLE, Block, map_geometry
from dashboard.hub import Hub
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient


def test_every_square_is_one_byte_that_says_owner_and_fill():
    blocks = [
        Block(0, 3, 16, True, ("a",)),
        Block(1, 15, 1, True, ("b",)),
        Block(2, -1, 8, False, ("c",)),
        Block(3, 4, 16, False, ("a", "b")),
        Block(5, LOCKED, 0, False),
        Block(6, UNUSABLE, 0, False),
        Block(7, CACHED, 0, False),
        Block(8, 2, 0, False, ("d",)),
    ]
    told = [divmod(code, dense_map.FILLS) for code in dense_map.packed(blocks, 10)]
    assert told == [(3, 8), (15, 1), (16, 4), (17, 8), (18, 0), (19, 0), (20, 0), (21, 0), (2, 0), (18, 0)]


def test_a_pool_of_2048_blocks_agrees_with_its_block_tables():
    client = FakeClient(SchedulerPolicy(max_num_seqs=64, max_num_batched_tokens=512), num_blocks=2048, block_size=4)
    for i in range(70):
        client.add(f"r{i}", 20 + i, 20)
    step = client.run(12)
    frame = Hub(client).frame()
    assert frame is not None
    assert dense_map.is_dense(frame.geometry)
    codes = dense_map.packed(frame.blocks, frame.geometry.cells)
    used = {b - 1 for ids in step.running.block_ids for b in ids}  # ids begin at 1
    assert {i for i, code in enumerate(codes) if code // dense_map.FILLS < dense_map.FREE} == used
    for request_id, ids in zip(step.running.request_id, step.running.block_ids, strict=True):
        mark = frame.marks.get(request_id, -1)
        states = Counter(codes[b - 1] // dense_map.FILLS for b in ids)
        assert states == {mark if mark >= 0 else dense_map.OTHER: len(ids)}
        bits = dense_map.members(frame.blocks, frame.geometry.cells, request_id)
        assert {i for i in range(2048) if bits[i >> 3] >> (i & 7) & 1} == {b - 1 for b in ids}


def test_a_code_fits_into_a_byte_and_both_sides_know_the_same_states():
    assert (max(dense_map.STATES.values()) + 1) * dense_map.FILLS <= 256
    script = (Path(dense_map.__file__).parent / "dense_map.js").read_text(encoding="utf-8")
    told = dict(re.findall(r"(FILLS|OTHER|SHARED|FREE|LOCKED|UNUSABLE|CACHED) = (\d+)", script))
    here = {"FILLS": dense_map.FILLS, "OTHER": dense_map.OTHER, "SHARED": dense_map.SHARED, "FREE": dense_map.FREE}
    here |= {"LOCKED": dense_map.STATES[LOCKED], "UNUSABLE": dense_map.STATES[UNUSABLE]}
    assert {k: int(v) for k, v in told.items()} == here | {"CACHED": dense_map.STATES[CACHED]}
    assert FULL == 16


def test_a_small_pool_keeps_its_letters():
    assert not dense_map.is_dense(map_geometry(192))
    assert map_geometry(16_384).blocks_per_cell == 8
