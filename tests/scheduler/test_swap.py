"""preemption_mode "swap": what is moved, when a swap becomes a recompute, and what every way out leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler import BlockMove, Scheduler, SchedulerPolicy, StepResult, choices
from tests.scheduler.helpers import Bench, bench, request


def tight(mode: str, **options: object) -> Bench:
    """Two prompts of 8 tokens fill the pool of 4 blocks of 4; in step 2 each needs a third block, so b must go."""
    requests = [request("a", 8, 6), request("b", 8, 6)]
    return bench(requests, num_blocks=4, preemption_mode=mode, **options)


def test_the_victims_blocks_move_to_the_host_and_back_and_nothing_is_computed_again() -> None:
    made = tight("swap")
    made.drain()
    # Step 1: a owns blocks 1 and 2, b 3 and 4. Step 2: b's two full blocks go to host blocks 1 and 2.
    assert made.steps[1].swapped_out == (BlockMove("b", (3, 4), (1, 2)),)
    assert made.steps[1].preempted == ("b",)
    [back] = [step for step in made.steps if step.swapped_in]
    [move] = back.swapped_in
    assert (move.host_block_ids, back.resumed) == ((1, 2), ("b",))
    assert move.device_block_ids == back.block_tables["b"][:2]
    # b had 8 tokens computed and one sampled: only that one is fed when it returns.
    assert (back.positions_start["b"], back.num_scheduled_tokens["b"], back.kinds["b"]) == (8, 1, "decode")
    totals = made.snapshots[-1].totals
    assert (totals.recompute_tokens, totals.swapped_out_blocks, totals.swapped_in_blocks) == (0, 2, 2)


def test_the_events_tell_what_was_moved_and_what_is_left() -> None:
    made = tight("swap", num_host_blocks=3)
    made.drain()
    [out] = made.events("preempted")
    assert (out.request_id, out.numbers["mode"], out.numbers["moved_blocks"]) == ("b", "swap", 2)
    assert (out.numbers["recompute_tokens"], out.numbers["freed_blocks"]) == (0, 2)
    assert "host_free_blocks" not in out.numbers
    assert [e.numbers for e in made.events("swapped_out")] == [{"num_blocks": 2, "host_free_blocks": 1}]
    assert [e.numbers for e in made.events("swapped_in")] == [{"num_blocks": 2, "host_free_blocks": 3}]
    used = [snapshot.num_used_host_blocks for snapshot in made.snapshots]
    assert (max(used), used[0], used[-1]) == (2, 0, 0)
    assert [row.swapped_blocks for row in made.snapshots[1].waiting] == [2]
    assert [row.recompute_tokens for row in made.snapshots[1].waiting] == [0]
    [record] = [r for snapshot in made.snapshots for r in snapshot.records if r.request_id == "b"]
    assert record.swapped_blocks == 4


def test_only_blocks_that_hold_computed_tokens_are_moved() -> None:
    # Step 1 computes 5 of b's 9 tokens: two blocks, one of them a quarter full. Step 2 needs a third and finds none.
    made = bench(
        [request("a", 8, 4), request("b", 9, 2)],
        num_blocks=4,
        admission_rule="next_chunk",
        max_num_batched_tokens=13,
        preemption_mode="swap",
    )
    made.step()
    made.step()
    assert made.steps[1].swapped_out == (BlockMove("b", (3, 4), (1, 2)),)
    assert made.snapshots[1].waiting[0].recompute_tokens == 0
    made.drain()
    [back] = [step for step in made.steps if step.swapped_in]
    assert (back.positions_start["b"], back.num_scheduled_tokens["b"]) == (5, 4)


def test_a_full_host_pool_makes_the_swap_a_recompute_and_the_event_says_so() -> None:
    made = tight("swap", num_host_blocks=1)
    made.drain()
    [out] = made.events("preempted")
    assert (out.numbers["mode"], out.numbers["moved_blocks"], out.numbers["host_free_blocks"]) == ("recompute", 0, 1)
    assert out.numbers["recompute_tokens"] == 8
    assert not made.events("swapped_out")
    assert made.snapshots[-1].totals.recompute_tokens == 8


def test_an_abort_of_a_swapped_request_frees_its_host_blocks() -> None:
    made = tight("swap")
    made.step()
    made.step()
    assert made.scheduler.host_pool.num_used_blocks == 2
    assert made.scheduler.abort("b").kind == "aborted"
    assert made.scheduler.host_pool.num_used_blocks == 0
    made.drain()
    assert not made.events("swapped_in")


@pytest.mark.parametrize("mode", ["recompute", "never"])
def test_a_swapped_request_stays_swapped_when_the_mode_changes(mode: str) -> None:
    made = tight("swap")
    made.step()
    made.step()
    assert made.scheduler.set_policy(replace(made.scheduler.policy, preemption_mode=mode)).accepted
    made.drain()
    assert len(made.events("swapped_in")) == 1
    assert made.snapshots[-1].totals.recompute_tokens == 0


@pytest.mark.parametrize("allocation", choices("allocation"))
def test_the_way_back_is_the_same_under_every_allocator(allocation: str) -> None:
    made = bench(
        [request("a", 6, 4), request("b", 6, 4)],
        num_blocks=16,
        max_model_len=16,
        preemption_mode="swap",
        allocation=allocation,
    )
    made.step()
    assert made.scheduler.preempt("b").kind == "preempted"
    made.step()
    assert [len(move.device_block_ids) for move in made.steps[1].swapped_out] == [2]
    made.step()
    [move] = made.steps[2].swapped_in
    assert move.device_block_ids == made.steps[2].block_tables["b"][:2]
    made.drain()
    assert made.snapshots[-1].totals.recompute_tokens == 0


def test_a_swapped_request_joins_a_static_batch_without_computing_its_tokens_again() -> None:
    made = tight("swap")
    made.step()
    made.step()
    assert made.scheduler.set_policy(replace(made.scheduler.policy, batching="static")).accepted
    made.drain()
    totals = made.snapshots[-1].totals
    assert len(made.events("swapped_in")) == 1
    assert (totals.recompute_tokens, totals.prefill_tokens, totals.decode_tokens) == (0, 16, 10)


def test_swap_without_a_host_pool_is_refused_naming_both_fields() -> None:
    made = bench(num_blocks=4, num_host_blocks=0)
    outcome = made.scheduler.set_policy(replace(made.scheduler.policy, preemption_mode="swap"))
    assert not outcome.accepted
    assert "preemption_mode" in outcome.reasons[0]
    assert "num_host_blocks" in outcome.reasons[0]
    with pytest.raises(ValueError, match="num_host_blocks is 0"):
        bench(num_blocks=4, num_host_blocks=0, preemption_mode="swap")
    with pytest.raises(ValueError, match="num_host_blocks is -1"):
        Scheduler(SchedulerPolicy(), num_blocks=4, block_size=4, max_model_len=16, num_host_blocks=-1)


def test_one_workload_tells_recompute_swap_and_never_apart() -> None:
    seen = {}
    for mode in choices("preemption_mode"):
        # Two blocks each. In step 2 a still has room for its last token; b is full and finds no third block.
        made = bench([request("a", 7, 2), request("b", 8, 6)], num_blocks=4, preemption_mode=mode)
        made.drain()
        totals = made.snapshots[-1].totals
        moved = totals.swapped_out_blocks + totals.swapped_in_blocks
        waits = sum(row.kind == "idle" for snapshot in made.snapshots for row in snapshot.running)
        seen[mode] = {"recomputed": totals.recompute_tokens, "moved": moved, "waits": waits}
    assert seen == {
        "recompute": {"recomputed": 8, "moved": 0, "waits": 0},
        "swap": {"recomputed": 0, "moved": 4, "waits": 0},
        "never": {"recomputed": 0, "moved": 0, "waits": 1},
    }


def test_a_copy_whose_step_was_lost_is_computed_again() -> None:
    made = tight("swap")
    made.step()
    lost = made.scheduler.schedule()
    assert lost.swapped_out
    made.step()  # the result of the step with the copy never came
    assert made.scheduler.host_pool.num_used_blocks == 0
    made.drain()
    assert not made.events("swapped_in")
    assert made.snapshots[-1].totals.recompute_tokens >= 8


def test_a_named_request_is_evicted_by_the_next_step_and_by_it_alone() -> None:
    made = bench([request("a", 4, 6), request("b", 4, 6)], num_blocks=16)
    assert made.scheduler.preempt("a").kind == "not_running"
    made.step()
    assert made.scheduler.preempt("nobody").kind == "unknown"
    assert made.scheduler.preempt("a").kind == "preempted"
    step, snapshot = made.step()
    assert (step.preempted, list(step.num_scheduled_tokens)) == (("a",), ["b"])
    [event] = made.events("preempted")
    assert (event.reason, event.numbers["for_request_id"], event.numbers["mode"]) == ("requested", "", "recompute")
    assert snapshot.waiting[0].reason == "preemption_this_step"
    step, _ = made.step()
    assert step.resumed == ("a",)
    made.drain()
    assert len(made.events("preempted")) == 1


def test_an_eviction_asked_for_is_done_even_where_the_mode_is_never() -> None:
    made = bench([request("a", 4, 6)], num_blocks=16, preemption_mode="never")
    made.step()
    made.scheduler.preempt("a")
    step, _ = made.step()
    assert step.preempted == ("a",)
    made.drain()


def test_a_result_in_flight_is_kept_when_the_request_is_to_be_evicted() -> None:
    made = bench([request("a", 4, 6)], num_blocks=16)
    step = made.scheduler.schedule()
    made.scheduler.preempt("a")
    snapshot = made.scheduler.update(StepResult(step.step_id, {"a": 1}))
    assert snapshot.new_tokens == {"a": 1}
    assert made.scheduler.schedule().preempted == ("a",)
