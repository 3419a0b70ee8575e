"""head_of_line "skip": who may pass whom, how often, and what the rows say meanwhile."""

from __future__ import annotations

import pytest

from scheduler.admission import MAX_PASSES, MAX_SKIPPED
from tests.scheduler.helpers import bench, request


@pytest.mark.parametrize(("head_of_line", "first"), [("strict", {"a": 8}), ("skip", {"a": 8, "small": 1})])
def test_a_small_request_passes_a_large_one_only_under_skip(head_of_line: str, first: dict[str, int]) -> None:
    made = bench(
        [request("a", 8, 9), request("large", 20, 2), request("small", 1, 1)], num_blocks=6, head_of_line=head_of_line
    )
    made.step()
    assert made.plan(0) == first
    made.drain()
    assert set(made.ends()) == {"a", "large", "small"}


def test_a_skipped_request_is_passed_a_stated_number_of_times_and_then_is_next() -> None:
    small = [request(f"s{i:02}", 1, 1) for i in range(MAX_PASSES + 5)]
    made = bench(
        [request("a", 8, 30), request("large", 60, 2), *small], num_blocks=16, head_of_line="skip", max_num_seqs=4
    )
    made.drain()
    admitted = [name for planned in made.steps for name in planned.new]
    assert admitted.index("large") == 1 + MAX_PASSES
    assert admitted[0] == "a"


def test_once_passed_often_enough_those_behind_wait_for_it_and_say_so() -> None:
    small = [request(f"s{i:02}", 1, 1) for i in range(MAX_PASSES + 3)]
    made = bench(
        [request("a", 8, 30), request("large", 60, 2), *small], num_blocks=16, head_of_line="skip", max_num_seqs=99
    )
    made.step()
    rows = list(made.snapshots[0].waiting)
    assert [row.request_id for row in rows] == ["large", *(f"s{i:02}" for i in range(MAX_PASSES, MAX_PASSES + 3))]
    assert [(row.reason, row.blocked_by) for row in rows] == [("kv_capacity", "a")] + [("head_of_line", "large")] * 3


def test_each_request_that_was_looked_at_states_its_own_reason() -> None:
    made = bench(
        [request("a", 8, 30), request("large", 40, 2), request("huge", 41, 2), request("small", 1, 3)],
        num_blocks=11,
        head_of_line="skip",
    )
    made.step()
    rows = list(made.snapshots[0].waiting)
    assert [(row.request_id, row.reason, row.blocked_by) for row in rows] == [
        ("large", "kv_capacity", "a"),
        ("huge", "kv_capacity", "a"),
    ]
    assert [(e.request_id, e.reason, e.numbers["needed_blocks"]) for e in made.events("deferred")] == [
        ("large", "kv_capacity", 10),
        ("huge", "kv_capacity", 11),
    ]


def test_a_step_looks_past_a_bounded_number_of_requests() -> None:
    large = [request(f"l{i:02}", 40, 2) for i in range(MAX_SKIPPED + 2)]
    made = bench(
        [request("a", 8, 30), *large, request("small", 1, 1)], num_blocks=11, head_of_line="skip", max_num_seqs=99
    )
    made.step()
    assert made.plan(0) == {"a": 8}
    assert made.snapshots[0].waiting[-1].reason == "head_of_line"
