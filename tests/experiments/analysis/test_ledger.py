"""The books of a run balance, and hold the figures of the textbook."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.analysis.factorial import arms
from experiments.analysis.ledger import Seconds, Tokens, before_and_after, disagreements, ledger
from experiments.record import StepRow
from scheduler import SchedulerPolicy
from scheduler.workload import WorkloadRequest
from tests.experiments.analysis.made import run, simulated

LENGTHS = (40, 3, 25, 5, 60, 4, 18, 6, 33, 2, 50, 8)
SIZES = {"num_blocks": 16, "block_size": 4, "max_model_len": 32}
MIXED = [WorkloadRequest(f"r{i:02}", i // 3, 3 + 7 * (i % 3), 2 + 5 * (i % 4)) for i in range(16)]


def simulate(policy: SchedulerPolicy, **changes: int):
    return simulated(policy, MIXED, **(SIZES | changes))


@pytest.mark.parametrize(("rows", "length"), [(8, 100), (4, 7), (2, 2)])
def test_padding_of_the_textbook_batch_is_rows_less_one_times_length_less_one(rows: int, length: int):
    requests = [WorkloadRequest(f"r{i}", 0, 1, length if i == 0 else 1) for i in range(rows)]
    policy = SchedulerPolicy(batching="static", max_num_seqs=rows)
    made = simulated(policy, requests, num_blocks=64, block_size=16, max_model_len=256)
    assert ledger(made).tokens.padding == (rows - 1) * (length - 1)
    assert ledger(made).tokens.useful == rows + length - 1


@pytest.mark.parametrize(("batching", "steps", "padding"), [("static", 150, 346), ("continuous", 83, 0)])
def test_the_example_of_twelve_requests_has_254_useful_tokens_in_150_or_83_steps(
    batching: str, steps: int, padding: int
):
    requests = [WorkloadRequest(f"r{i:02}", 0, 1, length) for i, length in enumerate(LENGTHS)]
    policy = SchedulerPolicy(batching=batching, max_num_seqs=4)
    made = simulated(policy, requests, num_blocks=128, block_size=16, max_model_len=64)
    books = ledger(made)
    assert books.steps == steps
    assert books.tokens.useful == made.totals.output_tokens == sum(LENGTHS) == 254
    assert books.tokens.padding == padding
    assert disagreements(made) == ()


@pytest.mark.parametrize("label", ["0000", "0110", "1101", "1111"])
def test_ledger_totals_requests_and_events_tell_the_same_under_every_kind_of_arm(label: str):
    made_arms = arms(SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8), 32)
    policy = next(arm.policy for arm in made_arms if arm.label == label)
    made = simulate(policy, num_blocks=11)
    assert disagreements(made) == ()
    assert (ledger(made).preemptions > 0) == (label[1:3] == "11")


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_an_eviction_is_paid_for_by_recomputed_tokens_or_by_moved_blocks(mode: str):
    made = simulate(SchedulerPolicy(preemption_mode=mode), num_blocks=11)
    books = ledger(made)
    assert disagreements(made) == ()
    assert books.preemptions > 0
    assert (books.tokens.recompute > 0) == (mode == "recompute")
    assert (books.swapped_blocks > 0) == (mode == "swap")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"recompute_tokens": 999}, "recompute_tokens"),
        ({"finished": 1}, "requests finished: 16 in the requests, 1 in the totals"),
        ({"preemptions": 77}, "preemptions"),
        ({"idle_slot_steps": 3}, "idle_slot_steps"),
        ({"output_tokens": 1}, "output tokens"),
    ],
)
def test_books_that_disagree_are_named_with_both_figures(change: dict, named: str):
    made = simulate(SchedulerPolicy())
    assert any(named in text for text in disagreements(replace(made, totals=replace(made.totals, **change))))


def test_idle_slots_are_free_rows_of_a_static_batch_while_requests_wait():
    # Two slots. a: 1+1 tokens, b: 1+3, c waits from step 1 on; the batch of a and b runs 3 steps, both slots taken.
    requests = [WorkloadRequest("a", 0, 1, 3), WorkloadRequest("b", 1, 1, 2)]
    made = simulated(
        SchedulerPolicy(batching="static", max_num_seqs=2), requests, num_blocks=8, block_size=4, max_model_len=16
    )
    assert ledger(made).tokens == Tokens(prefill=2, decode=3, recompute=0, padding=0, idle_slots=2)


def step(start: float, end: float, **changes: object) -> StepRow:
    fields = {
        "step_id": 1, "start_s": start, "end_s": end, "scheduled": (), "prefill_tokens": 0, "decode_tokens": 0,
        "recompute_tokens": 0, "padding_tokens": 0, "idle_slots": 0, "context_tokens": 0, "num_running": 0,
        "num_waiting": 0, "used_blocks": 0, "filled": 0, "reserved": 0, "internal": 0, "external": 0,
    }  # fmt: skip
    return StepRow(**(fields | changes))  # type: ignore[arg-type]


def test_seconds_by_hand_add_up_to_the_wall_time():
    # Step 1: 4 s, of which 2 s model for 4 tokens (2 useful, 1 recomputed, 1 padding), 0.5 s planning, 0.25 s swap.
    # A second passes. Step 2: 2 s, 1 s model, all useful. 1 s until the end.
    one = step(0, 4, prefill_tokens=1, decode_tokens=1, recompute_tokens=1, padding_tokens=1, execute_s=1.5,
               sample_s=0.5, schedule_s=0.25, build_s=0.125, update_s=0.125, swap_s=0.25)  # fmt: skip
    two = step(5, 7, decode_tokens=4, execute_s=1.0)
    found = ledger(run([], 8.0, steps=(one, two))).seconds
    assert found == Seconds(useful=2.0, recompute=0.5, padding=0.5, swap=0.25, engine=0.5, other=2.25, idle=2.0)
    assert sum(astuple(found)) == 8.0


def test_memory_by_hand_is_slots_times_seconds_until_the_next_step_starts():
    # Pool: 8 blocks of 16 = 128 slots. Step 1 holds for 5 s (1 s idle included), step 2 for 2 s.
    one = step(0, 4, filled=10, reserved=20, internal=2, external=16)
    two = step(5, 7, filled=30, reserved=0, internal=2, external=0)
    found = ledger(run([], 8.0, steps=(one, two))).memory
    assert (found.filled, found.reserved, found.internal, found.external) == (110, 100, 14, 80)
    assert found.free == 128 * 7 - 304
    assert found.capacity == 128 * 7
    assert found.owned == 224


def test_a_run_without_steps_has_empty_books():
    books = ledger(run([], 3.0))
    assert (books.tokens.computed, books.memory.capacity, books.seconds.idle) == (0, 0, 3.0)


def test_before_and_after_are_means_over_the_runs_and_say_what_is_waste():
    base = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=8)
    policies = {arm.label: arm.policy for arm in arms(base, 32)}
    none, every = (simulate(policies[label], num_blocks=11) for label in ("0000", "1111"))
    lines = {(line.group, line.name): line for line in before_and_after([none, none], [every])}
    for (group, name), line in lines.items():
        of = getattr(ledger(none), group) if group else ledger(none)
        assert line.before == getattr(of, name)
    assert lines["memory", "reserved"].before > 0
    assert lines["memory", "reserved"].after == 0
    assert lines["tokens", "recompute"].after > lines["tokens", "recompute"].before == 0
    assert not lines["tokens", "prefill"].waste
    assert lines["memory", "external"].waste
    assert not lines["seconds", "idle"].waste
    with pytest.raises(ValueError, match="after 0"):
        before_and_after([none], [])


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 18), st.integers(1, 14)), min_size=1, max_size=14),
    st.sampled_from([arm.policy for arm in arms(SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=6), 32)]),
    st.integers(8, 20),
)
@settings(max_examples=15, deadline=None)
def test_the_books_of_any_schedule_balance(rows: list[tuple[int, int, int]], policy: SchedulerPolicy, blocks: int):
    requests = [WorkloadRequest(f"r{i:02}", *each) for i, each in enumerate(sorted(rows))]
    made = simulated(policy, requests, num_blocks=blocks, block_size=4, max_model_len=32)
    books = ledger(made)
    assert disagreements(made) == ()
    assert sum(astuple(books.seconds)) == pytest.approx(made.wall_s)
    assert books.memory.owned == sum(step.used_blocks * 4 for step in made.steps)
    assert min(astuple(books.memory)) >= 0
    assert books.tokens.useful == sum(each.prompt_len + each.output_len - 1 for each in requests)
