"""What the driver owes to every analysis: arrivals, latencies from when due, rows that agree with the books."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from experiments.record import encode_run
from experiments.runs.clock import VirtualClock, WallClock
from experiments.runs.driver import About, PoolShape, drive, fresh_scheduler, requests_of
from scheduler import PRESETS, SchedulerPolicy
from tests.experiments.runs.fakes import CONDITIONS, POOL, OneSecond, trace_of, virtual_run

CONTINUOUS = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=16)


def test_a_request_due_during_a_step_is_added_right_after_it_and_counts_from_when_it_was_due():
    run, _ = virtual_run(trace_of((0.0, 4, 3), (0.25, 4, 1)), CONTINUOUS)
    first, second = run.requests
    assert first.token_times_s == (1.0, 2.0, 3.0)
    assert (second.due_s, second.first_scheduled_s, second.token_times_s) == (0.25, 1.0, (2.0,))
    assert [step.scheduled for step in run.steps] == [
        (("r0", 4, "prefill"),),
        (("r0", 1, "decode"), ("r1", 4, "prefill")),
        (("r0", 1, "decode"),),
    ]


def test_when_nothing_is_due_and_nothing_runs_the_driver_waits_for_the_next_arrival():
    run, _ = virtual_run(trace_of((0.0, 4, 1), (10.5, 4, 1)), CONTINUOUS)
    assert [(step.start_s, step.end_s) for step in run.steps] == [(0.0, 1.0), (10.5, 11.5)]
    assert run.wall_s == 11.5


def test_a_wall_clock_really_waits_and_can_be_interrupted():
    clock = WallClock()
    clock.wait_until(0.02)
    assert clock.now() >= 0.02
    asked = iter((False, True))
    clock = WallClock(lambda: next(asked))
    clock.wait_until(3600.0)
    assert clock.now() < 60


def test_the_drivers_own_share_is_what_is_neither_the_engines_nor_waiting():
    """Three steps of 1 s in two bursts, a wait of 7 s between, and 0.25 s of the driver's own before each of the four
    times it looks: 1 s of 11 s."""
    clock = VirtualClock()

    def slow_watch(now: float, ended: int) -> str:
        clock.advance(0.25)
        return ""

    trace = trace_of((0.0, 4, 2), (9.75, 4, 1))
    about = About(replace(CONDITIONS, kind="measured"))
    run = drive(OneSecond(clock), fresh_scheduler(CONTINUOUS, POOL, clock), trace, clock, about, watch=slow_watch)
    assert [(step.start_s, step.end_s) for step in run.steps] == [(0.25, 1.25), (1.5, 2.5), (10.0, 11.0)]
    assert run.conditions.overhead_share == pytest.approx(1 / 11)


def test_a_static_batch_of_unequal_outputs_by_hand():
    """Orca's picture: a batch of two, outputs 1 and 3; padding of the short prompt and of the row that has ended."""
    policy = replace(PRESETS["static"], max_num_seqs=2, max_num_batched_tokens=64)
    run, _ = virtual_run(trace_of((0.0, 2, 1), (0.0, 4, 3), (0.0, 4, 1)), policy)
    assert [(step.prefill_tokens, step.decode_tokens, step.padding_tokens, step.idle_slots) for step in run.steps] == [
        (6, 0, 2, 0),
        (0, 1, 1, 0),
        (0, 1, 1, 0),
        (4, 0, 0, 0),
    ]
    assert run.steps[0].scheduled == (("r0", 2, "prefill"), ("r1", 4, "prefill"), ("r0", 2, "padding"))
    assert [step.context_tokens for step in run.steps] == [2 + 4 + 2, 5 + 3, 6 + 3, 4]
    assert [row.token_times_s for row in run.requests] == [(1.0,), (1.0, 2.0, 3.0), (4.0,)]
    assert [row.end_s for row in run.requests] == [3.0, 3.0, 4.0]
    assert [row.padding_tokens for row in run.requests] == [4, 0, 0]


POLICIES = {
    "continuous, short of blocks": replace(CONTINUOUS, admission_rule="next_chunk"),
    "swap": replace(CONTINUOUS, admission_rule="next_chunk", preemption_mode="swap"),
    "static": replace(PRESETS["static"], max_num_seqs=3, max_num_batched_tokens=16),
    "reserving": replace(PRESETS["orca-max"], max_num_seqs=4),
    "caching": replace(CONTINUOUS, enable_prefix_caching=True),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_rows_agree_with_the_schedulers_own_counters(name: str, seed: int):
    draw = random.Random(seed)
    rows = sorted((draw.uniform(0, 20), draw.randint(1, 20), draw.randint(1, 12)) for _ in range(12))
    run, executor = virtual_run(trace_of(*rows), POLICIES[name], PoolShape(12, 4, 40, num_host_blocks=8))
    totals, steps = run.totals, run.steps
    for field in ("prefill_tokens", "decode_tokens", "recompute_tokens", "padding_tokens"):
        assert sum(getattr(step, field) for step in steps) == getattr(totals, field), field
    assert sum(step.idle_slots for step in steps) == totals.idle_slot_steps
    assert sum(step.swapped_out_blocks for step in steps) == totals.swapped_out_blocks
    assert len(steps) == totals.steps
    for step in steps:
        assert sum(count for _, count, _ in step.scheduled) == step.num_tokens
        assert step.filled + step.reserved + step.internal == step.used_blocks * 4
    assert sum(len(step.preempted) for step in steps) == totals.preemptions
    assert sum(row.num_preemptions for row in run.requests) == totals.preemptions
    assert sum(row.recompute_tokens for row in run.requests) == totals.recompute_tokens
    assert sum(row.padding_tokens for row in run.requests) == totals.padding_tokens
    for row in run.requests:
        assert row.outcome == "finished"
        assert row.num_output_tokens == row.output_len == len(row.token_times_s)
        assert row.due_s <= row.first_scheduled_s <= row.last_scheduled_s <= row.token_times_s[-1] <= row.end_s
    if name in ("continuous, short of blocks", "swap"):
        assert totals.preemptions > 0, "the case should evict"
    assert set(executor.steps[-1].finished) >= {run.events[-1].request_id}, "the executor is told of the last end"


def test_context_is_what_the_rows_have_computed_after_the_step():
    run, executor = virtual_run(trace_of((0.0, 10, 4), (0.5, 21, 3)), CONTINUOUS)
    for row, step in zip(run.steps, executor.steps, strict=False):
        assert row.context_tokens == sum(
            step.positions_start[name] + count for name, count in step.num_scheduled_tokens.items()
        )


def test_what_is_rejected_and_what_comes_after_a_stop_is_told_apart():
    trace = trace_of((0.0, 63, 9), (0.0, 80, 1), (0.0, 4, 3), (99.0, 4, 1))
    run, executor = virtual_run(trace, CONTINUOUS, watch=lambda now, ended: "enough" if now >= 3 else "")
    assert [row.outcome for row in run.requests] == ["unfinished", "rejected", "unfinished", "unfinished"]
    assert run.stopped == "enough"
    assert "prompt" in run.requests[1].reason
    assert run.requests[3].first_scheduled_s is None
    assert {"r0", "r2"} <= set(executor.steps[-1].finished), "nothing of a stopped run is left in the executor"


def test_requests_that_can_never_run_end_the_run_with_the_reason():
    run, _ = virtual_run(trace_of((0.0, 4, 1)), replace(CONTINUOUS, admission_paused=True))
    assert run.stopped == "stalled: r0 waits for ever: admission_paused"
    run, _ = virtual_run(trace_of((0.0, 4, 1), (5.0, 4, 1)), replace(CONTINUOUS, admission_paused=True))
    assert [row.outcome for row in run.requests] == ["unfinished", "unfinished"]


@pytest.mark.parametrize("name", POLICIES)
def test_same_trace_and_policy_give_the_same_run_byte_for_byte_on_the_virtual_clock(name: str):
    trace = trace_of(*((index * 0.7, 3 + index % 5, 2 + index % 4) for index in range(10)))

    def once() -> bytes:
        run, _ = virtual_run(trace, POLICIES[name], PoolShape(12, 4, 40, num_host_blocks=8))
        return encode_run(replace(run, cpu_s=0.0, began_at=""))

    assert once() == once()


def test_every_arm_is_given_the_same_tokens_and_other_seeds_give_others():
    trace = trace_of((0.0, 5, 1), (0.0, 5, 1))
    one = requests_of(trace, vocab_size=300, seed=1)
    assert one == requests_of(trace, vocab_size=300, seed=1)
    assert one[0].prompt_token_ids != one[1].prompt_token_ids
    assert one[0].prompt_token_ids != requests_of(trace, vocab_size=300, seed=2)[0].prompt_token_ids


def test_a_policy_that_contradicts_the_pool_is_refused_before_anything_runs():
    policy = replace(CONTINUOUS, enable_chunked_prefill=False, max_num_batched_tokens=8)
    with pytest.raises(ValueError, match="max_num_batched_tokens is 8"):
        fresh_scheduler(policy, POOL, VirtualClock())
    assert OneSecond(VirtualClock()).steps == []
