"""preemption_mode "never": who finds no block waits and says so; when nobody can move, everything still ends."""

from __future__ import annotations

from tests.scheduler.helpers import bench, request


def test_a_decode_that_finds_no_block_waits_visibly_until_another_ends() -> None:
    made = bench([request("a", 7, 2), request("b", 8, 6)], num_blocks=4, preemption_mode="never")
    made.drain()
    # a fills its second block and ends in step 2; b, full at 8 tokens, takes its third block then: pool of 4, 2 + 2.
    idle = [(i, row.request_id) for i, s in enumerate(made.snapshots) for row in s.running if row.kind == "idle"]
    assert idle == [(1, "b")]
    deferred = [
        (e.request_id, e.reason, e.numbers["needed_blocks"], e.numbers["free_blocks"]) for e in made.events("deferred")
    ]
    assert deferred == [("b", "kv_capacity", 1, 0)]
    assert not made.events("preempted")
    assert set(made.ends()) == {"a", "b"}


def test_recompute_evicts_where_never_waits() -> None:
    made = bench([request("a", 7, 2), request("b", 8, 6)], num_blocks=4, preemption_mode="recompute")
    made.drain()
    assert [event.request_id for event in made.events("preempted")] == ["b"]


def test_when_all_that_run_are_blocked_the_newest_makes_room_for_the_oldest() -> None:
    made = bench([request("a", 8, 6), request("b", 8, 6)], num_blocks=4, preemption_mode="never")
    made.drain()
    assert [(e.request_id, e.reason, e.numbers["for_request_id"]) for e in made.events("preempted")] == [
        ("b", "standstill", "a")
    ]
    assert set(made.ends()) == {"a", "b"}


def test_nobody_is_let_in_while_a_running_request_waits_for_blocks() -> None:
    made = bench([request("a", 7, 3), request("b", 8, 6)], num_blocks=5, preemption_mode="never", kv_block_limit=4)
    made.step()
    made.add(request("tiny", 1, 1))
    _, snapshot = made.step()
    assert [(row.reason, row.blocked_by) for row in snapshot.waiting] == [("kv_capacity", "b")]
    (event,) = made.events("deferred", "tiny")
    told = {name: event.numbers[name] for name in ("blocked_by", "needed_blocks", "free_blocks", "budget_left")}
    assert told == {"blocked_by": "b", "needed_blocks": 1, "free_blocks": 0, "budget_left": 63}
    made.drain()
