"""The policy: what is legal, what is refused, when a change is in force, and what each value changes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from scheduler import FIELD_RANGES, PRESET_NOTES, PRESETS, SchedulerPolicy, StepResult, choices, problems
from scheduler.policy import SWITCHES, limit_problems
from scheduler.registry import REGISTRIES
from tests.scheduler.helpers import bench, request

BAD_VALUES = {
    "batching": "dynamic",
    "max_num_seqs": 0,
    "max_num_batched_tokens": -5,
    "admission_order": "lifo",
    "admission_rule": None,
    "kv_watermark": 1.0,
    "head_of_line": 3,
    "admission_paused": "no",
    "enable_chunked_prefill": 1,
    "long_prefill_token_threshold": -1,
    "prefill_mix": "",
    "preemption_mode": ["recompute"],
    "preemption_victim": "oldest",
    "preemption_requeue": "middle",
    "allocation": "contiguous",
    "kv_block_limit": 0,
    "enable_prefix_caching": "on",
    "step_delay_ms": float("nan"),
    "paused": None,
    "single_step": 0,
}


def test_every_field_has_named_values_a_range_or_is_a_switch() -> None:
    described = set(REGISTRIES) | set(FIELD_RANGES) | set(SWITCHES) | {"version"}
    assert described == {item.name for item in fields(SchedulerPolicy)}
    assert set(BAD_VALUES) == described - {"version"}


@pytest.mark.parametrize("field", BAD_VALUES)
def test_an_illegal_value_changes_nothing_and_names_the_field(field: str) -> None:
    made = bench([request("A", 4, 4)], num_blocks=8)
    before = made.scheduler.policy
    outcome = made.scheduler.set_policy(replace(before, **({"max_num_seqs": 3} | {field: BAD_VALUES[field]})))
    assert (outcome.accepted, outcome.version) == (False, before.version)
    assert len(outcome.reasons) == 1
    assert outcome.reasons[0].startswith(f"{field} is {BAD_VALUES[field]!r}, expected ")
    assert made.scheduler.policy is before
    _, snapshot = made.step()
    assert [event.reason for event in snapshot.events if event.kind == "policy_refused"] == list(outcome.reasons)
    made.drain()


@pytest.mark.parametrize("value", [0.0, 0.999, 1, -0.1, True, None, "0.1", float("inf"), 10**400])
def test_the_watermark_range(value: object) -> None:
    assert bool(problems(SchedulerPolicy(kv_watermark=value))) == (value not in (0.0, 0.999))


def test_what_is_no_policy_is_refused() -> None:
    made = bench(num_blocks=8)
    for value in (None, {"max_num_seqs": 3}, "vllm-v1"):
        assert "expected a SchedulerPolicy" in made.scheduler.set_policy(value).reasons[0]


def test_choices_lists_what_is_registered_and_knows_no_other_field() -> None:
    assert choices("batching") == ("continuous", "static")
    assert set(choices("preemption_victim")) >= {"newest", "lowest_priority", "most_blocks", "least_computed"}
    with pytest.raises(ValueError, match="max_num_seqs"):
        choices("max_num_seqs")


def test_presets_are_legal_and_say_what_they_stand_for_and_where_that_is_written() -> None:
    assert list(PRESETS) == ["static", "orca-max", "vllm-v0", "vllm-v1", "sarathi", "tgi-worst-case"]
    assert list(PRESETS) == list(PRESET_NOTES)
    for name, policy in PRESETS.items():
        assert problems(policy) == ()
        assert limit_problems(policy, 8192) == ()
        assert len(PRESET_NOTES[name].description) > 40
        assert len(PRESET_NOTES[name].source) > 20
    assert len(set(PRESETS.values())) == len(PRESETS)


def test_a_change_is_in_force_from_the_next_step_and_echoed_by_version() -> None:
    made = bench([request(f"r{i}", 2, 9) for i in range(4)], num_blocks=32, max_num_seqs=2)
    made.step()
    outcome = made.scheduler.set_policy(replace(made.scheduler.policy, max_num_seqs=4))
    assert (outcome.accepted, outcome.version) == (True, 2)
    planned, snapshot = made.step()
    assert (planned.policy_version, snapshot.policy.version, len(snapshot.running)) == (2, 2, 4)
    event = next(event for event in snapshot.events if event.kind == "policy_changed")
    assert (event.step_id, event.numbers) == (planned.step_id, {"max_num_seqs": "2 -> 4", "version": 2})


def test_a_change_during_a_step_waits_for_its_update() -> None:
    made = bench([request(f"r{i}", 2, 9) for i in range(4)], num_blocks=32, max_num_seqs=2)
    planned = made.scheduler.schedule()
    assert made.scheduler.set_policy(replace(made.scheduler.policy, max_num_seqs=3)).version == 2
    assert made.scheduler.set_policy(replace(made.scheduler.policy, max_num_seqs=4)).version == 3
    assert made.scheduler.policy.version == 1
    snapshot = made.scheduler.update(StepResult(planned.step_id, dict.fromkeys(planned.sampling_ids, 1)))
    assert (snapshot.policy.version, made.scheduler.policy.version) == (1, 3)
    assert made.step()[0].policy_version == 3


def test_setting_what_is_in_force_keeps_the_version() -> None:
    made = bench(num_blocks=8)
    assert made.scheduler.set_policy(replace(made.scheduler.policy, version=77)).version == 1
    assert not [event for event in made.scheduler.peek().events if event.kind == "policy_changed"]


def test_lowered_limits_end_nobody_and_let_nobody_in() -> None:
    made = bench([request(f"r{i}", 4, 10) for i in range(6)], num_blocks=64, max_num_seqs=4)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, max_num_seqs=1))
    for _ in range(5):
        made.step()
        assert len(made.plan(-1)) == 4
        assert {row.reason for row in made.snapshots[-1].waiting} == {"max_num_seqs"}
    made.drain()
    assert not made.events("aborted")
    assert len(made.ends()) == 6


def test_a_running_request_larger_than_a_lowered_block_limit_still_ends_when_alone() -> None:
    made = bench([request("big", 16, 16), request("small", 2, 2)], num_blocks=16, max_num_seqs=1)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, kv_block_limit=1))
    made.drain()
    assert len(made.ends()) == 2


def test_a_waiting_request_larger_than_a_lowered_limit_is_not_stranded() -> None:
    made = bench([request("small", 4, 3)], num_blocks=16, kv_block_limit=2)
    made.add(request("big", 30, 4))
    made.step()
    row = made.snapshots[-1].waiting[0]
    assert (row.reason, row.needed_blocks, row.free_blocks, row.blocked_by) == ("kv_capacity", 8, 1, "small")
    made.drain()
    assert set(made.ends()) == {"small", "big"}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fcfs", ["a", "b", "c"]),
        ("priority", ["b", "c", "a"]),
        ("shortest_prompt", ["c", "a", "b"]),
        ("shortest_job", ["b", "a", "c"]),
    ],
)
def test_the_admission_order_decides_who_is_next(order: str, expected: list[str]) -> None:
    made = bench(
        [request("a", 5, 3, priority=3), request("b", 6, 1, priority=1), request("c", 2, 9, priority=2)],
        num_blocks=16,
        max_num_seqs=1,
        admission_order=order,
    )
    made.drain()
    assert [name for planned in made.steps for name in planned.new] == expected


def test_a_change_of_order_sorts_those_who_wait_already() -> None:
    made = bench([request("a", 5, 2), request("b", 6, 1), request("c", 2, 1)], num_blocks=16, max_num_seqs=1)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, admission_order="shortest_prompt"))
    made.drain()
    assert [name for planned in made.steps for name in planned.new] == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("mix", "second"),
    [
        ("running_order", {"long": 8}),
        ("decode_first", {"short": 1, "long": 7}),
        ("prefill_first", {"long": 8}),
    ],
)
def test_the_mix_decides_who_gets_the_budget_first(mix: str, second: dict[str, int]) -> None:
    made = bench([request("long", 40, 2)], num_blocks=64, max_num_batched_tokens=9, prefill_mix=mix)
    made.add(request("short", 1, 9))
    made.scheduler.set_policy(replace(made.scheduler.policy, long_prefill_token_threshold=8))
    made.step()
    assert made.plan(0) == {"long": 8, "short": 1}
    made.scheduler.set_policy(replace(made.scheduler.policy, long_prefill_token_threshold=0, max_num_batched_tokens=8))
    made.step()
    assert list(made.plan(1).items()) == list(second.items())
    made.drain()


def test_prefill_first_never_mixes_prefill_and_decode() -> None:
    made = bench(
        [request(f"r{i}", 3 + 5 * i, 6) for i in range(6)],
        num_blocks=64,
        max_num_seqs=3,
        max_num_batched_tokens=12,
        prefill_mix="prefill_first",
    )
    made.drain()
    assert {tuple(sorted(set(planned.kinds.values()))) for planned in made.steps} == {("prefill",), ("decode",)}


def test_next_chunk_lets_in_what_full_sequence_keeps_waiting() -> None:
    plans = {}
    for rule in ("next_chunk", "full_sequence"):
        made = bench(
            [request("a", 8, 9), request("b", 20, 2)], num_blocks=6, max_num_batched_tokens=12, admission_rule=rule
        )
        made.step()
        plans[rule] = made.plan(0)
        made.drain()
    assert plans == {"next_chunk": {"a": 8, "b": 4}, "full_sequence": {"a": 8}}


def test_worst_case_never_evicts() -> None:
    made = bench(
        [request(f"r{i}", 3 + i, 20) for i in range(8)],
        num_blocks=14,
        admission_rule="worst_case",
        max_num_batched_tokens=8,
    )
    made.drain()
    assert not made.events("preempted")


def test_chunking_off_computes_a_prompt_in_one_step_or_not_at_all() -> None:
    made = bench(
        [request("a", 9, 3), request("b", 8, 3)],
        num_blocks=32,
        max_model_len=17,
        max_num_batched_tokens=16,
        enable_chunked_prefill=False,
    )
    made.step()
    row = made.snapshots[0].waiting[0]
    assert made.plan(0) == {"a": 9}
    assert (row.request_id, row.reason) == ("b", "token_budget")
    made.drain()
    assert not made.events("chunked")


def test_a_paused_admission_lets_nobody_in_and_stops_nobody() -> None:
    made = bench([request("a", 4, 5)], num_blocks=32)
    made.step()
    made.add(request("b", 4, 1), request("c", 4, 1))
    made.scheduler.set_policy(replace(made.scheduler.policy, admission_paused=True))
    made.step()
    assert made.plan(1) == {"a": 1}
    assert [row.reason for row in made.snapshots[-1].waiting] == ["admission_paused"] * 2
    assert {e.request_id for e in made.events("deferred") if e.reason == "admission_paused"} == {"b", "c"}
    made.scheduler.set_policy(replace(made.scheduler.policy, admission_paused=False))
    made.drain()


def test_strict_head_of_line_keeps_a_small_request_behind_a_large_one_and_says_so() -> None:
    made = bench([request("a", 8, 9), request("large", 20, 2), request("small", 1, 1)], num_blocks=6)
    made.step()
    head, behind = made.snapshots[0].waiting
    assert (head.reason, head.needed_blocks, head.free_blocks, head.blocked_by) == ("kv_capacity", 5, 4, "a")
    assert (behind.reason, behind.blocked_by, behind.needed_blocks) == ("head_of_line", "large", 1)
    assert [(e.request_id, e.reason) for e in made.events("deferred")] == [
        ("large", "kv_capacity"),
        ("small", "head_of_line"),
    ]
    made.drain()


def test_after_an_eviction_nobody_is_let_in_during_that_step() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    made.add(request("tiny", 1, 1))
    made.scheduler.set_policy(replace(made.scheduler.policy, max_num_seqs=2))
    while not made.events("preempted"):
        made.step()
    rows = made.snapshots[-1].waiting
    assert [row.reason for row in rows] == ["preemption_this_step"] * len(rows)
    assert rows[0].blocked_by == made.events("preempted")[0].numbers["for_request_id"]
    assert not made.steps[-1].new


def test_free_blocks_of_a_deferred_request_are_never_below_zero_under_a_lowered_limit() -> None:
    made = bench([request("a", 40, 9)], num_blocks=16, max_num_seqs=4)
    made.step()
    made.scheduler.set_policy(replace(made.scheduler.policy, kv_block_limit=2))
    made.add(request("late", 8, 2))
    made.step()
    row = made.snapshots[-1].waiting[0]
    assert (row.reason, row.needed_blocks, row.free_blocks, row.blocked_by) == ("kv_capacity", 2, 0, "a")
    assert [event.numbers["free_blocks"] for event in made.snapshots[-1].events if event.kind == "deferred"] == [0]
