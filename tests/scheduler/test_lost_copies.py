"""A step whose result never came: what it should have copied back must not be taken for there."""

from __future__ import annotations

from scheduler import Request, SamplingParams
from tests.scheduler.helpers import Bench, bench, request


def on_its_way_back(**policy: object) -> Bench:
    """b's two full blocks lie in the host pool, a has ended: the next step copies them back. b's prompt is its own."""
    other = Request("b", tuple(range(100, 108)), SamplingParams(max_tokens=6))
    made = bench(
        [request("a", 8, 6), other], num_blocks=4, preemption_mode="swap", enable_prefix_caching=True, **policy
    )
    while "a" in made.scheduler.running_ids or not made.events("swapped_out"):
        made.step()
    assert made.scheduler.waiting_ids == ("b",)
    return made


def like_b(name: str) -> Request:
    return Request(name, (*range(100, 108), 7), SamplingParams(max_tokens=1))


def test_blocks_whose_copy_back_was_lost_are_not_shared_before_they_are_filled_again() -> None:
    made = on_its_way_back(long_prefill_token_threshold=4)
    made.add(like_b("c"))
    lost = made.scheduler.schedule()
    assert [move.request_id for move in lost.swapped_in] == ["b"]
    step, _ = made.step()
    assert (step.positions_start["b"], step.num_scheduled_tokens["b"]) == (0, 4)
    assert step.positions_start.get("c", 0) <= 4


def test_a_copy_that_was_lost_with_its_request_leaves_nothing_to_share() -> None:
    made = on_its_way_back()
    lost = made.scheduler.schedule()
    assert [move.request_id for move in lost.swapped_in] == ["b"]
    made.scheduler.abort("b")
    made.add(like_b("c"))
    step, _ = made.step()
    assert step.positions_start["c"] == 0
