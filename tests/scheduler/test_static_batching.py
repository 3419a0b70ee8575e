"""Static batching: lockstep, padding, held rows, and switching to and from it."""

from __future__ import annotations

from dataclasses import replace

from scheduler import StepSnapshot
from tests.scheduler.helpers import Bench, bench, request


def static(*requests: object, **policy: object) -> Bench:
    return bench(requests, num_blocks=64, batching="static", **policy)


def kinds(snapshot: StepSnapshot) -> dict[str, str]:
    return dict(snapshot.kinds)


def test_prompts_are_padded_on_the_left_and_computed_in_lockstep() -> None:
    made = static(request("long", 7, 2), request("short", 3, 2), max_num_batched_tokens=6)
    made.drain()
    assert [dict(p.num_scheduled_tokens) for p in made.steps] == [
        {"long": 3},
        {"long": 3, "short": 2},
        {"long": 1, "short": 1},
        {"long": 1, "short": 1},
    ]
    assert [dict(p.num_padding_tokens) for p in made.steps] == [{"short": 3}, {"short": 1}, {}, {}]
    assert made.steps[0].kinds == {"long": "prefill", "short": "padding"}
    assert [p.sampling_ids for p in made.steps] == [(), (), ("long", "short"), ("long", "short")]


def test_a_row_with_all_its_tokens_is_held_and_computes_padding_until_the_batch_ends() -> None:
    made = static(request("slow", 2, 4), request("quick", 2, 1))
    made.step()
    assert [(row.request_id, row.held) for row in made.snapshots[0].running] == [("slow", False), ("quick", True)]
    made.step()
    assert made.steps[1].num_padding_tokens == {"quick": 1}
    assert kinds(made.snapshots[1]) == {"slow": "decode", "quick": "padding"}
    made.drain()
    assert made.ends() == {"slow": 3, "quick": 3}
    records = {r.request_id: r for s in made.snapshots for r in s.records}
    assert records["quick"].last_token_time == 0.0
    assert (records["quick"].end_time, records["quick"].padding_tokens) == (3.0, 3)


def test_nobody_joins_before_the_batch_has_ended_and_those_who_wait_are_told_for_whom() -> None:
    made = static(request("a", 2, 5), request("b", 2, 2), max_num_seqs=2)
    made.step()
    made.add(request("c", 2, 1))
    made.step()
    row = made.snapshots[-1].waiting[0]
    assert (row.reason, row.blocked_by) == ("static_batch_running", "a")
    made.drain()
    assert [index for index, p in enumerate(made.steps) if "c" in p.new] == [5]


def test_free_slots_count_as_waste_only_while_requests_wait() -> None:
    made = static(request("a", 2, 3), max_num_seqs=4)
    made.step()
    assert made.snapshots[-1].totals.idle_slot_steps == 0
    made.add(request("b", 2, 1))
    made.step()
    assert made.snapshots[-1].totals.idle_slot_steps == 3


def test_a_switch_to_continuous_ends_held_rows_and_lets_others_in_at_once() -> None:
    made = static(request("slow", 2, 9), request("quick", 2, 1), max_num_seqs=2)
    made.add(request("next", 2, 2))
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, batching="continuous"))
    made.step()
    assert made.ends() == {"quick": 1}
    assert made.plan(1) == {"slow": 1, "next": 2}
    made.drain()


def test_a_switch_to_static_lets_what_runs_finish_first() -> None:
    made = bench([request("a", 2, 4)], num_blocks=64)
    made.step()
    made.add(request("b", 2, 2), request("c", 3, 2))
    made.scheduler.set_policy(replace(made.scheduler.policy, batching="static"))
    made.drain()
    assert made.ends()["a"] == 3
    assert made.steps[4].new == ("b", "c")
    assert made.steps[4].num_padding_tokens == {"b": 1}


def test_a_switch_in_the_middle_of_a_padded_prefill_loses_nothing() -> None:
    made = static(request("long", 12, 3), request("short", 2, 3), max_num_batched_tokens=8)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, batching="continuous"))
    made.drain()
    records = [record for snapshot in made.snapshots for record in snapshot.records]
    assert sorted((r.outcome, r.num_output_tokens) for r in records) == [("finished", 3)] * 2
    computed = sum(sum(p.num_scheduled_tokens.values()) for p in made.steps)
    assert computed == (12 + 2) + (2 + 2), "nothing is computed twice"


def test_a_switch_to_continuous_and_back_before_the_next_step_leaves_no_held_row_without_a_batch() -> None:
    made = static(request("slow", 2, 4), request("quick", 2, 1))
    made.step()
    policy = made.scheduler.policy
    made.scheduler.set_policy(replace(policy, batching="continuous"))
    made.scheduler.set_policy(replace(policy, batching="static"))
    step, snapshot = made.step()
    assert (dict(step.num_scheduled_tokens), step.finished) == ({"slow": 1}, ("quick",))
    assert [record.request_id for record in snapshot.records] == ["quick"]
    made.drain()
    assert [event.request_id for event in made.events("finished")] == ["quick", "slow"]


def test_held_rows_end_early_when_a_row_that_works_finds_no_block() -> None:
    made = bench(
        [request("slow", 4, 9), request("quick", 4, 1)], num_blocks=3, batching="static", admission_rule="next_chunk"
    )
    made.drain()
    assert made.ends()["quick"] < made.ends()["slow"]
    assert not made.events("preempted")


def test_a_budget_below_the_number_of_rows_serves_those_furthest_behind() -> None:
    made = static(request("a", 2, 6), request("b", 2, 6), request("c", 2, 6))
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, max_num_batched_tokens=2))
    for _ in range(3):
        made.step()
    assert [tuple(p.num_scheduled_tokens) for p in made.steps[1:]] == [("a", "b"), ("c", "a"), ("b", "c")]
    made.drain()


def test_an_aborted_straggler_ends_the_batch() -> None:
    made = static(request("slow", 2, 50), request("quick", 2, 1))
    made.step()
    made.scheduler.abort("slow")
    made.step()
    assert made.ends()["quick"] == 1
    assert not made.scheduler.has_unfinished
