"""The Perfetto export read back by a strict reader: its totals and moments are those of the run."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from experiments.exports import perfetto_json
from experiments.exports.phases import Span, evictions, spans_of
from experiments.record import RequestRow
from scheduler import StepEvent
from tests.experiments.exports.chrome_trace import ChromeTrace, read_chrome_trace
from tests.experiments.exports.made_runs import RUNS, preempted_run

COUNTERS = {
    "KV blocks used": "used_blocks",
    "KV slots filled": "filled",
    "KV slots external": "external",
    "requests running": "num_running",
    "requests waiting": "num_waiting",
    "tokens in step": "num_tokens",
}
"""Name and series, as Perfetto joins them -> field of StepRow."""


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


@pytest.fixture(params=RUNS)
def both(request) -> tuple:
    run = RUNS[request.param]()
    return run, read_chrome_trace(perfetto_json(run))


def phases(trace: ChromeTrace, request_id: str) -> list[tuple[str, int, int]]:
    spans = next(
        spans for (process, name), spans in trace.tracks.items() if (process, name) == ("requests", request_id)
    )
    return [(name, start, end) for start, end, name, _ in spans[1:]]


def test_every_step_is_a_span_with_its_tokens_and_they_add_up_to_the_totals(both: tuple) -> None:
    run, trace = both
    steps = next(spans for (_, thread), spans in trace.tracks.items() if thread == "steps")
    assert [(start, end) for start, end, *_ in steps] == [(ns(step.start_s), ns(step.end_s)) for step in run.steps]
    for kind in ("prefill_tokens", "decode_tokens", "recompute_tokens", "padding_tokens"):
        assert sum(args[kind] for *_, args in steps) == getattr(run.totals, kind)
    assert len(steps) == run.totals.steps


def test_every_request_is_a_track_from_due_to_end_whose_phases_fill_it_without_a_gap(both: tuple) -> None:
    run, trace = both
    tracks = {thread: spans for (process, thread), spans in trace.tracks.items() if process == "requests"}
    assert sorted(tracks) == sorted(row.request_id for row in run.requests)
    for row in run.requests:
        start, end, name, args = tracks[row.request_id][0]
        assert (name, start) == (row.request_id, ns(row.due_s))
        assert end == ns(run.wall_s if row.end_s is None else row.end_s) or end == start
        assert (args["outcome"], args["num_preemptions"]) == (row.outcome, row.num_preemptions)
        filled = phases(trace, row.request_id)
        assert sum(stop - begin for _, begin, stop in filled) == end - start
        assert all(before[2] == after[1] for before, after in pairwise(filled))


def test_preemptions_are_instants_and_spans_as_many_and_as_long_as_the_run_counted(both: tuple) -> None:
    run, trace = both
    instants = [one for one in trace.instants if one[3] == "preempted"]
    assert len(instants) == run.totals.preemptions
    for row in run.requests:
        spans = [one for one in phases(trace, row.request_id) if one[0] == "preempted"]
        assert len(spans) == row.num_preemptions
        if row.outcome == "finished":
            assert sum(end - start for _, start, end in spans) == pytest.approx(ns(row.preempted_s), abs=2)


def test_queue_ends_at_the_first_admission_and_prefill_at_the_first_token(both: tuple) -> None:
    run, trace = both
    for row in run.requests:
        if row.outcome == "finished":
            spans = phases(trace, row.request_id)
            waited = [one for one in spans if one[0] == "queue"]
            assert (waited[0][2] if waited else spans[0][1]) == ns(row.first_scheduled_s)
            assert max(end for kind, _, end in spans if kind == "prefill") == ns(row.token_times_s[0])


def test_counters_hold_what_the_steps_hold(both: tuple) -> None:
    run, trace = both
    for name, attribute in COUNTERS.items():
        assert trace.counters[name] == [(ns(step.start_s), getattr(step, attribute)) for step in run.steps]


def test_totals_and_conditions_travel_with_the_trace(both: tuple) -> None:
    run, trace = both
    assert json.loads(trace.other["totals"])["output_tokens"] == run.totals.output_tokens
    assert json.loads(trace.other["conditions"])["kind"] == trace.other["kind"] == "simulated"
    assert trace.other["trace_sha256"] == run.trace_sha256


ROW = RequestRow("a", 8, 4, 4, 0, "finished", "length", 1.0, 2.0, 7.0, (4.0, 5.0, 8.0, 9.0), 9.0)


def test_spans_of_a_life_with_two_evictions_are_those_worked_out_by_hand() -> None:
    found = spans_of(ROW, ((3.0, 3.5), (5.0, 7.0)), 20.0)
    assert found == (
        Span("queue", 1.0, 2.0),
        Span("prefill", 2.0, 3.0),
        Span("preempted", 3.0, 3.5),
        Span("prefill", 3.5, 4.0),
        Span("decode", 4.0, 5.0),
        Span("preempted", 5.0, 7.0),
        Span("decode", 7.0, 9.0),
    )


def test_an_eviction_over_the_first_token_is_one_span_and_a_rejected_request_only_queues() -> None:
    over = spans_of(replace(ROW, token_times_s=(4.0,)), ((3.5, 4.5),), 20.0)
    assert [span.kind for span in over] == ["queue", "prefill", "preempted", "decode"]
    rejected = replace(
        ROW, outcome="rejected", first_scheduled_s=None, last_scheduled_s=None, token_times_s=(), end_s=1.5
    )
    assert spans_of(rejected, (), 20.0) == (Span("queue", 1.0, 1.5),)
    waiting = replace(rejected, outcome="unfinished", end_s=None)
    assert spans_of(waiting, (), 20.0) == (Span("queue", 1.0, 20.0),)


def test_an_eviction_that_nothing_follows_lasts_to_the_end_of_the_run() -> None:
    events = [
        StepEvent(1, 2.0, "preempted", "a"),
        StepEvent(2, 3.0, "resumed", "a"),
        StepEvent(3, 4.0, "preempted", "a"),
    ]
    assert evictions(events, 9.0) == {"a": ((2.0, 3.0), (4.0, 9.0))}


def test_the_same_run_gives_the_same_bytes() -> None:
    assert perfetto_json(preempted_run()) == perfetto_json(preempted_run())
