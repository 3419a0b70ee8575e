# ruff: noqa: N802  faults keep the spelling of their numbers
"""Faults F52 to F63 of the catalogue that concern the scheduler: ends, ids, counters, times."""

from __future__ import annotations

import gc
import itertools
from dataclasses import fields

import pytest

from scheduler import StepResult
from scheduler.invariants import check_empty
from tests.scheduler.helpers import bench, request

LENGTHS = (40, 3, 25, 5, 60, 4, 18, 6, 33, 2, 50, 8)


def test_F52_a_second_request_of_the_same_id_is_refused_and_the_first_unharmed() -> None:
    made = bench([request("x", 4, 3)], num_blocks=8)
    outcome = made.scheduler.add(request("x", 5, 5))
    assert not outcome.accepted
    assert "'x'" in outcome.reason
    made.drain()
    records = [record for snapshot in made.snapshots for record in snapshot.records]
    assert [(r.request_id, r.outcome) for r in records] == [("x", "rejected"), ("x", "finished")]
    assert made.scheduler.add(request("x", 4, 1)).accepted, "an id is free again once its request has ended"


def test_F53_no_token_after_an_abort() -> None:
    made = bench([request("A", 4, 20), request("B", 4, 20)], num_blocks=16)
    made.step()
    planned = made.scheduler.schedule()
    made.scheduler.abort("A")
    snapshot = made.scheduler.update(StepResult(planned.step_id, {"A": 1, "B": 1}))
    assert snapshot.new_tokens == {"B": 1}
    following = made.scheduler.schedule()
    assert "A" not in following.num_scheduled_tokens
    assert following.finished == ("A",)


def test_F54_aborting_all_reaches_the_queue_too() -> None:
    made = bench([request(f"r{i}", 4, 20) for i in range(5)], num_blocks=32, max_num_seqs=2)
    made.step()
    assert {made.scheduler.abort(f"r{i}").kind for i in range(5)} == {"aborted"}
    _, snapshot = made.step()
    assert not snapshot.new_tokens
    assert len(made.events("aborted")) == 5
    check_empty(made.scheduler)


def test_F55_unknown_ended_and_malformed_ids_are_told_apart() -> None:
    made = bench([request("A", 4, 1)], num_blocks=8)
    made.drain()
    assert made.scheduler.abort("A").kind == "already_finished"
    assert made.scheduler.abort("B").kind == "unknown"
    assert made.scheduler.abort(["A"]).kind == "unknown"
    assert made.snapshots[-1].records[0].reason == "length"


@pytest.mark.parametrize("state", ["waiting", "partial", "running", "preempted", "in_flight"])
def test_F56_an_abort_from_every_state_gives_everything_back(state: str) -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7, max_num_batched_tokens=12)
    if state != "waiting":
        made.step()
    if state in ("running", "preempted"):
        made.step()
    while state == "preempted" and not made.events("preempted"):
        made.step()
    planned = made.scheduler.schedule() if state == "in_flight" else None
    made.scheduler.abort("b")
    if planned is not None:
        made.scheduler.update(StepResult(planned.step_id, dict.fromkeys(planned.sampling_ids, 1)))
    made.drain()
    check_empty(made.scheduler)
    outcomes = {r.request_id: r.outcome for s in (*made.snapshots, made.scheduler.peek()) for r in s.records}
    assert outcomes.get("a") == "finished"


def test_F57_no_counter_ever_goes_down() -> None:
    made = bench([request(f"r{i}", 8, 8) for i in range(8)], num_blocks=5)
    made.drain()
    for earlier, later in itertools.pairwise(snapshot.totals for snapshot in made.snapshots):
        assert all(getattr(earlier, f.name) <= getattr(later, f.name) for f in fields(earlier))


def test_F58_F59_times_of_a_preempted_request_are_those_of_its_first_events() -> None:
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7)
    made.drain()
    records = {record.request_id: record for snapshot in made.snapshots for record in snapshot.records}
    b = records["b"]
    evicted, resumed = made.events("preempted", "b")[0].time, made.events("resumed", "b")[0].time
    tokens_at = [snapshot.time for snapshot in made.snapshots if "b" in snapshot.new_tokens]
    assert b.first_scheduled_time - b.arrival_time == 0.0, "queue time is 0 steps, whatever came later"
    assert (b.first_token_time, b.last_token_time) == (tokens_at[0], tokens_at[-1])
    assert b.preempted_s == resumed - evicted > 0
    assert (b.num_preemptions, records["a"].num_preemptions) == (1, 0)
    assert records["a"].preempted_s == 0.0


def test_F58_a_request_evicted_before_its_first_token_has_one_first_token_time() -> None:
    made = bench(
        [request("a", 8, 12), request("b", 16, 2)], num_blocks=6, max_num_batched_tokens=9, admission_rule="next_chunk"
    )
    made.drain()
    records = {record.request_id: record for snapshot in made.snapshots for record in snapshot.records}
    first = next(snapshot.time for snapshot in made.snapshots if "b" in snapshot.new_tokens)
    assert records["b"].num_preemptions > 0
    assert made.events("preempted", "b")[0].time < first
    assert records["b"].first_token_time == first


def test_F60_what_is_kept_does_not_grow_with_the_requests_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.ended.REMEMBERED_IDS", 50)
    made = bench(num_blocks=9, preemption_mode="swap", max_num_seqs=4)

    def kept_after(count: int) -> int:
        for index in range(count):
            made.add(request(f"r{index}", 7, 6))
            while len(made.scheduler.waiting_ids) > 4:
                made.step()
        made.drain(limit=10**6)
        made.steps.clear()
        made.snapshots.clear()
        gc.collect()
        return len(gc.get_objects())

    assert kept_after(200) + 100 > kept_after(2_000)
    assert made.scheduler.totals.finished == 2_200


@pytest.mark.parametrize(("batching", "iterations", "padding"), [("static", 150, 600 - 254), ("continuous", 83, 0)])
def test_F61_varied_lengths_take_150_static_and_83_continuous_iterations(
    batching: str, iterations: int, padding: int
) -> None:
    requests = [request(f"r{i:02}", 1, length) for i, length in enumerate(LENGTHS)]
    made = bench(requests, num_blocks=128, batching=batching, max_num_seqs=4)
    assert made.drain() == iterations
    totals = made.snapshots[-1].totals
    assert totals.output_tokens == sum(LENGTHS) == 254
    assert totals.prefill_tokens + totals.decode_tokens == 254
    assert totals.padding_tokens == padding


def test_F63_a_stop_token_before_min_tokens_does_not_end_the_request() -> None:
    made = bench([request("A", 4, 10, min_tokens=3)], num_blocks=8, token_of=lambda name: 2, eos_token_ids=(2,))
    made.drain()
    record = made.snapshots[-1].records[0]
    assert (record.num_output_tokens, record.reason) == (3, "stop")


def test_eos_ends_a_request_unless_it_ignores_it_and_a_stop_token_always_does() -> None:
    made = bench(num_blocks=32, token_of=lambda name: 2 if name != "own" else 9, eos_token_ids=(2,))
    made.add(
        request("eos", 4, 5),
        request("ignores", 4, 5, ignore_eos=True),
        request("own", 4, 5, stop_token_ids=(9,), ignore_eos=True),
    )
    made.drain()
    records = {r.request_id: (r.num_output_tokens, r.reason) for s in made.snapshots for r in s.records}
    assert records == {"eos": (1, "stop"), "ignores": (5, "length"), "own": (1, "stop")}


def test_tokens_of_an_earlier_life_count_as_output_and_are_not_delivered_again() -> None:
    from scheduler import Request, SamplingParams

    made = bench(num_blocks=8)
    made.add(Request("A", (1, 2, 3), SamplingParams(max_tokens=5), prior_output_token_ids=(7, 8)))
    made.drain()
    assert made.plan(0) == {"A": 5}
    assert made.steps[0].kinds == {"A": "prefill"}
    assert made.steps[0].token_ids == {"A": (1, 2, 3, 7, 8)}
    assert sum(len(snapshot.new_tokens) for snapshot in made.snapshots) == 3
    assert made.snapshots[-1].records[0].num_output_tokens == 5


def test_ten_thousand_aborts_in_every_state_leak_nothing() -> None:
    made = bench(num_blocks=24, max_num_batched_tokens=16, max_num_seqs=6)
    count = 0
    for round_number in range(500):
        made.add(*(request(f"r{round_number}-{i}", 1 + (7 * i) % 11, 9) for i in range(20)))
        for _ in range(round_number % 4):
            made.step()
        for i in range(20):
            count += made.scheduler.abort(f"r{round_number}-{(i * 7) % 20}").kind == "aborted"
    assert count > 9_000
    check_empty(made.scheduler)
