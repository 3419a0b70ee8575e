"""The sixteen arms differ by what their label says and by nothing else, and each of them runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.analysis.factorial import FACTORS, LABELS, arms, differing_fields, largest_valid
from scheduler import SchedulerPolicy
from scheduler.simulate import Simulation
from scheduler.workload import WorkloadRequest

BASE = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
BLOCKS = 11
ARMS = {arm.label: arm for arm in arms(BASE, 32)}
REQUESTS = [WorkloadRequest(f"r{i:02}", i // 3, 3 + 7 * (i % 3), 2 + 5 * (i % 4)) for i in range(16)]


def schedule(policy: SchedulerPolicy, num_blocks: int = BLOCKS) -> list[tuple[object, tuple[str, ...]]]:
    simulation = Simulation(policy, REQUESTS, num_blocks=num_blocks, block_size=4, max_model_len=32)
    return [(planned.step.num_scheduled_tokens, planned.step.preempted) for planned, _ in simulation.run()]


def test_two_arms_differ_in_the_fields_of_the_bits_in_which_their_labels_differ():
    assert tuple(ARMS) == LABELS
    for one in LABELS:
        for other in LABELS:
            bits = [factor for factor, a, b in zip(FACTORS, one, other, strict=True) if a != b]
            expected = {name for factor in bits for name in factor.fields}
            assert set(differing_fields(ARMS[one].policy, ARMS[other].policy)) == expected


def test_only_optimism_without_pages_is_no_arm_of_its_own():
    assert {label for label, arm in ARMS.items() if arm.why_invalid} == {"0010", "0011", "1010", "1011"}
    assert {label: arm.same_as for label, arm in ARMS.items() if arm.same_as} == {
        "0010": "0000",
        "0011": "0001",
        "1010": "1000",
        "1011": "1001",
    }
    assert all(largest_valid(largest_valid(label)) == largest_valid(label) for label in LABELS)


@pytest.mark.parametrize("label", LABELS)
def test_every_arm_runs_to_its_end_and_only_optimistic_ones_evict(label: str):
    steps = schedule(ARMS[label].policy)
    evicted = any(preempted for _, preempted in steps)
    assert evicted == (label[1] == label[2] == "1")


def test_the_schedule_of_an_invalid_arm_is_that_of_the_arm_that_stands_for_it():
    for arm in ARMS.values():
        if arm.same_as:
            assert schedule(arm.policy) == schedule(ARMS[arm.same_as].policy)


def test_the_other_arms_have_schedules_of_their_own():
    valid = [str(schedule(arm.policy, 18)) for arm in ARMS.values() if not arm.why_invalid]
    assert len(set(valid)) == len(valid) == 12


def test_without_chunks_no_step_cuts_a_prompt_and_with_them_none_passes_the_budget():
    for label, arm in ARMS.items():
        steps = Simulation(arm.policy, REQUESTS, num_blocks=BLOCKS, block_size=4, max_model_len=32).run()
        planned = [plan.step for plan, _ in steps]
        chunks = [event for step in planned for event in step.events if event.kind == "chunked"]
        if label[3] == "0":
            assert not chunks
        else:
            sums = [sum(s.num_scheduled_tokens.values()) + sum(s.num_padding_tokens.values()) for s in planned]
            assert max(sums) <= 8


@pytest.mark.parametrize(
    ("changes", "options", "named"),
    [
        ({"enable_prefix_caching": True}, {}, "enable_prefix_caching is True"),
        ({"max_num_batched_tokens": 3}, {}, "max_num_batched_tokens is 3, expected at least max_num_seqs"),
        ({}, {"allocation_off": "paged"}, "allocation_off is 'paged'"),
        ({}, {"allocation_off": "heap"}, "allocation is 'heap', expected one of"),
        ({}, {"optimistic_rule": "worst_case"}, "optimistic_rule is 'worst_case'"),
        ({"max_num_seqs": 0}, {}, "max_num_seqs is 0"),
    ],
)
def test_a_base_that_would_add_a_difference_is_refused_by_name(changes: dict, options: dict, named: str):
    with pytest.raises(ValueError, match=named):
        arms(replace(BASE, **changes), 32, **options)


def test_a_pessimistic_base_still_has_optimistic_arms():
    made = {arm.label: arm.policy for arm in arms(replace(BASE, admission_rule="worst_case"), 32)}
    assert made["1111"].admission_rule == "full_sequence"
    assert made["1101"].admission_rule == "worst_case"
    kept = arms(replace(BASE, admission_rule="next_chunk", preemption_mode="swap"), 32)[-1].policy
    assert (kept.admission_rule, kept.preemption_mode) == ("next_chunk", "swap")
