"""What the charts are given equals what the scheduler decided."""

from __future__ import annotations

import pytest

from dashboard import block_squares, lanes, state_tables
from dashboard.arrow import decode
from dashboard.history import KIND_CODE, POINT_CODE
from dashboard.hub import Hub, with_selection
from dashboard.identity import NO_MARK, NUM_HUES, NUM_MARKS, MarkBook
from scheduler import DEFER_REASONS, SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with


def frame_of(client: FakeClient):
    frame = engine_with(client).hub.frame()
    assert frame is not None
    return frame


def busy_client(**policy: object) -> FakeClient:
    client = FakeClient(SchedulerPolicy(**{"max_num_seqs": 4, "max_num_batched_tokens": 16, **policy}))  # type: ignore[arg-type]
    for i, (prompt, output) in enumerate([(20, 6), (3, 12), (9, 4), (5, 8), (4, 4), (7, 5)]):
        client.add(f"r{i}", prompt, output)
    return client


def test_the_block_map_shows_each_owned_block_once_with_its_fill():
    client = busy_client()
    step = client.run(4)
    frame = frame_of(client)
    shown = decode(frame.data["map"]["blocks"])
    owned = {b - 1: (row, i) for row in step.running for i, b in enumerate(row.block_ids)}
    assert set(shown["c"]) == set(owned)
    for cell, mark, fill in zip(shown["c"], shown["m"], shown["f"], strict=True):
        row, i = owned[cell]
        assert mark == frame.marks[row.request_id]
        filled = min(4, max(0, row.num_computed_tokens - 4 * i))
        assert fill == filled * 4, "sixteenths of a block of four slots"


def test_the_account_of_the_map_sums_and_locks_what_the_limit_takes_away():
    client = busy_client(kv_block_limit=12)
    step = client.run(5)
    account = block_squares.account(step)
    assert account["used"] + account["free"] + account["locked"] == account["blocks"] == 32
    cells = block_squares.block_cells(step, {})
    assert sum(c.mark == block_squares.LOCKED for c in cells) == account["locked"] == 32 - max(12, step.num_used_blocks)


def test_above_the_cell_limit_squares_stand_for_several_blocks():
    geometry = block_squares.map_geometry(16_384)
    assert geometry.blocks_per_cell == 8
    assert geometry.cells == 2048
    assert geometry.columns * geometry.rows >= geometry.cells
    blocks = [block_squares.Block(i, 3, 16, False, "r") for i in range(8)] + [block_squares.Block(9, 1, 16, True, "q")]
    few = block_squares.aggregate(blocks, 8)
    assert [(b.cell, b.mark, b.fill, b.touched) for b in few] == [(0, 3, 16, False), (1, 1, 2, True)]


def test_lanes_show_the_tokens_of_every_step_at_the_slot_of_the_request():
    client = busy_client()
    client.run(12)
    frame = frame_of(client)
    runs = decode(frame.data["time"]["runs"])
    shown: dict[tuple[int, str], int] = {}
    for x, e, kind, tokens, request_id in zip(*(runs[k] for k in "xeknr"), strict=True):
        for step_id in range(x, e):
            if kind in (KIND_CODE["prefill"], KIND_CODE["decode"], KIND_CODE["recompute"]):
                shown[step_id, request_id] = shown.get((step_id, request_id), 0) + tokens
    truth = {(s.step.step_id, r): n for s in client.history() for r, n in s.step.num_scheduled_tokens.items()}
    assert shown == truth
    for snapshot in client.history():
        for row in snapshot.step.running:
            at = [
                int(b)
                for x, e, b, r in zip(*(runs[k] for k in "xebr"), strict=True)
                if x <= snapshot.step.step_id < e and r == row.request_id
            ]
            assert set(at) == {row.slot}


def test_the_budget_chart_adds_up_to_the_scheduled_tokens_by_kind():
    client = busy_client(kv_block_limit=10, admission_rule="next_chunk")
    client.run(30)
    series = decode(frame_of(client).data["time"]["series"])
    for x, d, f, c, g in zip(*(series[k] for k in "xdfcg"), strict=True):
        step = next(s.step for s in client.history() if s.step.step_id == x)
        assert d + f + c == sum(step.num_scheduled_tokens.values())
        assert g == sum(step.num_padding_tokens.values())
    assert sum(series["pre"]) == client.history()[-1].step.totals.preemptions > 0
    assert sum(series["c"]) == client.history()[-1].step.totals.recompute_tokens > 0


def test_static_batching_shows_padding_and_idle_slots():
    client = busy_client(batching="static", max_num_batched_tokens=64, admission_rule="worst_case")
    client.run(12)
    kinds = set(decode(frame_of(client).data["time"]["runs"])["k"])
    assert KIND_CODE["padding"] in kinds


def test_evictions_admissions_and_ends_are_points_on_the_lane_of_the_request():
    client = busy_client(kv_block_limit=10, admission_rule="next_chunk")
    client.run(30)
    points = decode(frame_of(client).data["time"]["points"])
    truth = []
    for snapshot in client.history():
        step = snapshot.step
        truth += [(step.step_id, POINT_CODE["admitted"], r) for r in step.new]
        truth += [(step.step_id, POINT_CODE["resumed"], r) for r in step.resumed]
        truth += [(step.step_id, POINT_CODE["preempted"], r) for r in step.preempted]
    shown = [
        (int(x), p, r)
        for x, p, r in zip(points["x"], points["p"], points["r"], strict=True)
        if p not in (POINT_CODE["finished"], POINT_CODE["aborted"])
    ]
    assert sorted(shown) == sorted(truth)


def test_the_queue_shows_who_waits_in_order_with_the_reason():
    client = busy_client()
    step = client.run(2)
    queue = decode(frame_of(client).data["queue"]["queue"])
    assert queue["r"] == list(step.waiting.request_id)[: state_tables.QUEUE_ROWS]
    assert [DEFER_REASONS[q] for q in queue["q"]] == list(step.waiting.reason)[: state_tables.QUEUE_ROWS]


def test_the_running_table_is_in_lane_order():
    client = busy_client()
    step = client.run(3)
    running = decode(frame_of(client).data["running"]["running"])
    assert running["r"] == list(state_tables.running_order(step))
    rows = {row.request_id: row for row in step.running}
    assert running["c"] == [rows[r].num_computed_tokens for r in running["r"]]
    assert running["z"] == [len(rows[r].block_ids) for r in running["r"]]


def test_a_restart_leaves_a_hole_that_no_line_bridges():
    client = busy_client()
    client.run(5)
    hub = Hub(client)  # type: ignore[arg-type]
    hub.frame()
    client.start_run("run-2", client.policy)
    client.add("again", 5, 5)
    client.run(3)
    frame = hub.frame()
    assert frame is not None
    series = decode(frame.data["time"]["series"])
    hole = series["d"].index(None)
    assert series["x"][hole - 1] < series["x"][hole] < series["x"][hole + 1] - 1
    marks = decode(frame.data["time"]["marks"])
    assert "restart" in marks["k"]
    labels = dict(zip(*decode(frame.data["time"]["ticks"]).values(), strict=True))
    assert all(label.replace(",", "").isdigit() for label in labels.values())


def test_a_policy_change_is_a_mark_at_its_step_with_what_changed():
    client = busy_client()
    client.run(3)
    client.set_policy(SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=16))
    client.run(3)
    marks = decode(frame_of(client).data["time"]["marks"])
    assert marks["k"] == ["policy"]
    assert "max_num_seqs 4 → 2" in marks["t"][0]
    assert marks["t"][0].startswith("v2")


def test_a_selection_shows_only_that_request_and_its_blocks():
    client = busy_client()
    step = client.run(4)
    frame = frame_of(client)
    chosen = step.running.request_id[0]
    data = with_selection(frame, chosen)
    assert set(decode(data["time"]["chosen"])["r"]) == {chosen}
    row = step.running[0]
    assert [c + 1 for c in decode(data["map"]["chosen"])["c"]] == sorted(row.block_ids)
    assert decode(data["time"]["veil"])["v"] == decode(data["map"]["veil"])["v"] == [1]
    assert decode(with_selection(frame, "")["time"]["veil"])["v"] == []


def test_a_chosen_request_that_has_left_the_picture_leaves_no_chart_dimmed():
    client = busy_client()
    client.run(4)
    data = with_selection(frame_of(client), "r-long-gone")
    assert decode(data["time"]["veil"])["v"] == decode(data["map"]["veil"])["v"] == []


def test_one_snapshot_is_encoded_once_for_all_pages():
    client = busy_client()
    client.run(4)
    hub = engine_with(client).hub
    assert hub.frame() is hub.frame()
    first = hub.frame()
    client.run(1)
    assert hub.frame() is not first


def test_the_corners_of_the_time_lines_do_not_change_with_every_step():
    """What changes makes a browser work out axes, rules and titles anew."""
    client = busy_client()
    hub = engine_with(client).hub
    client.run(8)
    before = hub.frame().data["time"]
    client.run(2)
    after = hub.frame().data["time"]
    assert after["frame"] == before["frame"]
    assert decode(after["now"])["now"][0] == decode(before["now"])["now"][0] + 2


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (1, 1), (1.2, 1.5), (2.5, 2.5), (2.6, 3), (64, 80), (80, 80), (81, 100), (100, 100), (1234.5, 1500)],
)
def test_the_top_of_an_axis_is_a_round_number_at_or_above_the_data(value, top):
    assert lanes.round_top(value) == pytest.approx(top)


def test_a_hue_stays_with_its_request_until_its_end_and_rests_before_it_is_given_again():
    book = MarkBook()
    book.update(["a", "b"], ["a", "b"])
    a, b = book.mark("a"), book.mark("b")
    book.update(["b"], ["b"])
    book.update(["b", "c"], ["b", "c"])
    assert book.mark("b") == b
    assert book.mark("c") not in (a, b), "the hue of a request that just ended rests"
    book.update([], ["b", "c"])
    assert book.mark("b") == b, "evicted, but not ended"


def test_beyond_eight_marks_are_hollow_and_beyond_sixteen_there_is_none():
    book = MarkBook()
    names = [f"r{i}" for i in range(NUM_MARKS + 1)]
    book.update(names, names)
    marks = [book.mark(n) for n in names]
    assert marks[:NUM_HUES] == list(range(NUM_HUES))
    assert sorted(marks[NUM_HUES:NUM_MARKS]) == list(range(NUM_HUES, NUM_MARKS))
    assert marks[-1] == NO_MARK


@pytest.mark.parametrize("last", [0, 1, 19, 20, 119, 120, 121, 5_000])
def test_the_window_holds_the_newest_iteration_and_moves_by_pages(last):
    x0, x1 = lanes.window(last)
    assert x0 <= last
    assert last + 1 < x1, "a change made while held takes effect in the next iteration, whose rule must be seen"
    assert x1 - x0 == lanes.COLUMNS
    assert x0 % lanes.PAGE == 0


def run_of(slot: int, kind: str = "decode") -> lanes.Run:
    return lanes.Run(0, 1, slot + 0.6, slot + 0.9, KIND_CODE[kind], 0, 1, f"r{slot}")


@pytest.mark.parametrize(
    ("used", "slots", "lanes_drawn"), [(14, 64, 16), (3, 64, 8), (3, 4, 4), (40, 64, 48), (9, 8, 9)]
)
def test_as_many_lanes_are_drawn_as_were_used_in_view(used, slots, lanes_drawn):
    runs = [run_of(i) for i in range(used)] + [run_of(i, "empty") for i in range(used, slots)]
    assert lanes.num_lanes(runs, slots) == lanes_drawn


def test_labels_in_many_narrow_lanes_do_not_stand_upon_each_other():
    runs = [run_of(i) for i in range(39)]
    labelled = decode(lanes.labels_table(runs, 0, frozenset({"r7"}), 39))["y"]
    assert sorted(int(y) for y in labelled) == [*range(0, 7, 3), 7, *range(9, 39, 3)]


@pytest.mark.parametrize("blocks", [1, 12, 48, 64, 192, 500, 2048])
def test_the_squares_of_the_map_are_as_large_as_the_area_allows(blocks):
    geometry = block_squares.map_geometry(blocks)
    assert geometry.columns * (geometry.rows - 1) < blocks <= geometry.columns * geometry.rows
    side = min(block_squares.ASPECT / geometry.columns, 1 / geometry.rows)
    assert side**2 * blocks >= (0.6 if blocks > 12 else 0.3) * block_squares.ASPECT
