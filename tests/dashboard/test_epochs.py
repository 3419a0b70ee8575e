"""Numbers by policy epoch, against values computed by hand and against the scheduler's own counters and records."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dashboard.epoch_rows import RequestRow, goodput, is_good
from dashboard.epochs import KEPT_EPOCHS, METRICS, PURPOSES, EpochBook
from dashboard.samples import CAPACITY, QUANTILES, Reservoir, needed
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient


class Watch:
    """A clock for the age of summaries; every look is a second later."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def book_of(client: FakeClient) -> EpochBook:
    book = EpochBook(client.request, Watch())
    for snapshot in client.history():
        book.add(snapshot)
    return book


def summary_of(client: FakeClient):
    return book_of(client).summary()


def seconds(summary, metric, *, whole_only=False, epoch=-1):
    """The kept samples of a few: its curve at the ranks, in seconds."""
    spread = summary.epochs[epoch].spreads[metric, whole_only]
    if not spread.n:
        return []
    last = max(1, spread.n - 1)
    return [pytest.approx(spread.curve[round(100 * i / last)] / 1000) for i in range(spread.n)]


@pytest.fixture
def client():
    return FakeClient(SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=64))


def test_one_request_by_hand(client):
    """Steps of 0.1 s: admitted at 0.0, tokens at 0.1, 0.2, 0.3."""
    client.add("a", 5, 3)
    client.run(3)
    summary = summary_of(client)
    assert seconds(summary, "queue") == [0.0]
    assert seconds(summary, "ttft") == [0.1]
    assert seconds(summary, "itl") == [0.1, 0.1]
    assert seconds(summary, "tpot") == [0.1]
    assert seconds(summary, "e2e") == [0.3]
    (row,) = summary.requests
    assert (row.num_prompt_tokens, row.num_output_tokens, row.outcome, row.epoch) == (5, 3, "finished", 1)


def test_who_waits_has_its_queue_time_in_its_ttft(client):
    """One slot: the second is admitted when the first has its two tokens, at 0.2, and has its first token at 0.3."""
    client.add("a", 4, 2)
    client.add("b", 4, 2)
    client.run(4)
    summary = summary_of(client)
    assert seconds(summary, "queue") == [0.0, 0.2]
    assert seconds(summary, "ttft") == [0.1, 0.3]
    assert seconds(summary, "e2e") == [0.2, 0.4]


def test_a_prompt_in_chunks_has_its_first_token_after_the_last_chunk():
    client = FakeClient(SchedulerPolicy(max_num_seqs=1, max_num_batched_tokens=10))
    client.add("a", 25, 1)
    client.run(3)
    summary = summary_of(client)
    assert seconds(summary, "ttft") == [0.3]
    assert seconds(summary, "itl") == seconds(summary, "tpot") == []
    assert summary.requests[0].tpot_s == 0.0, "a single token counts as TPOT 0, as in vLLM's benchmark"


def test_a_preemption_moves_neither_queue_time_nor_ttft_and_lengthens_one_gap():
    client = FakeClient(SchedulerPolicy(max_num_seqs=2), num_blocks=6, block_size=4)
    client.add("a", 8, 12)
    client.add("b", 8, 12)
    client.run(60)
    records = {r.request_id: r for s in client.history() for r in s.step.records}
    assert sum(r.num_preemptions for r in records.values()) >= 1
    summary = summary_of(client)
    assert seconds(summary, "queue") == [0.0, 0.0]
    assert seconds(summary, "ttft") == [0.1, 0.1]
    gaps = summary.epochs[0].spreads["itl", False]
    assert gaps.n == sum(r.num_output_tokens - 1 for r in records.values())
    assert max(gaps.curve) > 150, "milliseconds; an ordinary gap has 100"


def test_the_gaps_of_a_request_add_up_to_its_decode_time_and_their_mean_is_tpot(client):
    client.add("a", 5, 8)
    client.run(8)
    summary = summary_of(client)
    gaps, (tpot,) = seconds(summary, "itl"), seconds(summary, "tpot")
    assert sum(g.expected for g in gaps) / len(gaps) == tpot


def test_the_numbers_of_all_requests_are_those_of_their_records():
    client = FakeClient(SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=16))
    for i, (prompt, output) in enumerate([(20, 6), (3, 12), (9, 4), (5, 8), (4, 1), (7, 5)]):
        client.add(f"r{i}", prompt, output)
        client.run(1)
    client.run(40)
    summary = summary_of(client)
    records = {r.request_id: r for s in client.history() for r in s.step.records}
    assert len(summary.requests) == len(records) == 6
    for row in summary.requests:
        r = records[row.request_id]
        assert row.queue_s == r.first_scheduled_time - r.arrival_time
        assert row.ttft_s == r.first_token_time - r.arrival_time
        assert row.e2e_s == r.end_time - r.arrival_time
    spreads = summary.epochs[0].spreads
    assert [spreads[m, False].n for m in METRICS] == [
        6,
        sum(r.num_output_tokens - 1 for r in records.values()),
        5,
        6,
        6,
    ]


def test_an_epoch_begins_with_a_decision_and_not_with_pace_or_pause(client):
    client.add("a", 4, 40)
    client.run(2)
    client.set_policy(replace(client.policy, step_delay_ms=50.0))
    client.run(1)
    client.set_policy(replace(client.policy, single_step=True))
    client.run(1)
    assert len(summary_of(client).epochs) == 1
    client.set_policy(replace(client.policy, max_num_seqs=4))
    client.run(1)
    first, second = summary_of(client).epochs
    assert second.changes == (("max_num_seqs", 1, 4),)
    assert (first.version, second.version) == (1, client.policy.version)
    assert (first.steps, second.steps) == (4, 1)


def test_a_request_belongs_to_the_epoch_of_its_admission_and_spans_where_it_ends_later(client):
    """a runs over the change; b arrives before it and is admitted after it; c lies wholly in the second epoch."""
    client.add("a", 4, 4)
    client.run(1)
    client.add("b", 4, 2)
    client.run(1)
    client.set_policy(replace(client.policy, max_num_batched_tokens=32))
    client.run(4)
    client.add("c", 4, 2)
    client.run(2)
    summary = summary_of(client)
    rows = {row.request_id: (row.epoch, row.spans) for row in summary.requests}
    assert rows == {"a": (1, True), "b": (2, True), "c": (2, False)}
    second = summary.epochs[1].spreads
    assert (second["ttft", False].n, second["ttft", False].spanning, second["ttft", True].n) == (2, 1, 1)
    assert second["e2e", True].n == 1
    gaps = [summary.epochs[i].spreads["itl", False] for i in (0, 1)]
    assert [g.n for g in gaps] == [1, 4], "each belongs to the epoch of its later token"
    assert [g.spanning for g in gaps] == [0, 1], "one began under the other policy"


@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_tokens_by_purpose_add_up_to_the_counters_of_the_scheduler_over_epochs_and_restarts(batching):
    rule = "worst_case" if batching == "static" else "full_sequence"
    policy = SchedulerPolicy(batching=batching, max_num_seqs=3, max_num_batched_tokens=64, admission_rule=rule)
    client = FakeClient(policy, num_blocks=12, block_size=4)
    for i in range(8):
        client.add(f"r{i}", 4 + 3 * i % 11, 2 + 2 * i)
    client.run(10)
    client.set_policy(replace(client.policy, max_num_seqs=2))
    client.run(30)
    ends = [client.latest.step.totals]
    client.start_run("run-2", client.policy)
    client.add("again", 9, 5)
    client.run(6)
    ends.append(client.latest.step.totals)
    counters = ("prefill_tokens", "decode_tokens", "recompute_tokens", "padding_tokens", "idle_slot_steps")
    summary = summary_of(client)
    for purpose, counter in zip(PURPOSES, counters, strict=True):
        told = sum(epoch.counts[purpose] for epoch in summary.epochs)
        assert told == sum(getattr(totals, counter) for totals in ends), purpose
    if batching == "static":
        assert sum(e.counts["padding"] for e in summary.epochs) > 0
        assert sum(e.counts["idle"] for e in summary.epochs) > 0


def test_a_restart_keeps_the_epoch_and_another_pool_begins_one(client):
    client.add("a", 4, 3)
    client.run(3)
    client.start_run("run-2", client.policy)
    client.add("b", 4, 3)
    client.run(3)
    (epoch,) = summary_of(client).epochs
    assert (epoch.restarts, epoch.steps, epoch.ended["finished"]) == (1, 6, 2)
    client.config = replace(client.config, num_blocks=64)
    client.start_run("run-3", client.policy)
    client.add("c", 4, 3)
    client.run(1)
    assert summary_of(client).epochs[-1].changes == (("num_blocks", 32, 64),)


def test_a_request_that_goes_on_after_a_restart_has_no_ttft_no_queue_time_and_is_not_judged(client):
    client.add("a", 4, 6)
    client.run(3)
    client.start_run("run-2", client.policy)
    from scheduler import Request, SamplingParams

    going_on = Request(
        "a", (1, 2, 3, 4), SamplingParams(max_tokens=6, ignore_eos=True), prior_output_token_ids=(7, 7, 7)
    )
    assert client.scheduler.add(going_on).accepted
    client.run(4)
    summary = summary_of(client)
    (epoch,), (row,) = summary.epochs, summary.requests
    assert (row.ttft_s, row.tpot_s, row.queue_s, row.spans) == (None, None, None, True)
    assert (epoch.spreads["ttft", False].n, epoch.spreads["queue", False].n) == (1, 1), "of its first life"
    good = goodput(epoch, summary.requests, 1e9, 1e9, whole_only=False)
    assert (good.good, good.judged, good.unknown, good.share) == (0, 0, 1, None)


def test_steps_that_nobody_followed_are_told_and_make_no_gap(client):
    client.add("a", 4, 12)
    client.run(12)
    book = EpochBook(client.request, Watch())
    for snapshot in client.history():
        if not 4 <= snapshot.step.step_id <= 6:
            book.add(snapshot)
    summary = book.summary()
    assert summary.missed_steps == 3
    assert max(summary.epochs[0].spreads["itl", False].curve) == pytest.approx(100)
    assert summary.epochs[0].counts["decode"] == client.latest.step.totals.decode_tokens


def test_goodput_by_hand(client):
    """Admitted one after the other, each with two tokens: TTFT 0.1, 0.3, 0.5 s, TPOT 0.1 s; 0.6 s in all."""
    for name in "abc":
        client.add(name, 4, 2)
    client.run(6)
    client.add("gone", 4, 2)
    client.scheduler.abort("gone")
    client.add("late", 4, 9)
    client.run(2)
    summary = summary_of(client)
    (epoch,) = summary.epochs
    good = goodput(epoch, summary.requests, 300.001, 100.001, whole_only=False)
    assert (good.good, good.judged, good.unknown, good.share) == (2, 4, 0, 0.5)
    assert good.per_s == pytest.approx(2 / epoch.duration_s)
    assert epoch.duration_s == pytest.approx(0.8)
    assert (dict(epoch.ended), epoch.unfinished) == ({"finished": 3, "aborted": 1, "rejected": 0}, 1)
    assert goodput(epoch, summary.requests, 300.001, 99.0, whole_only=False).good == 0
    assert goodput(epoch, summary.requests, 1e9, 1e9, whole_only=False).good == 3


def test_only_a_finished_request_within_both_limits_is_good():
    row = RequestRow("r", "run", 1, False, "finished", "length", 4, 2, 0.0, 0.2, 0.05, 0.3, 0, 0, 0, 0.0)
    assert is_good(row, 200, 50)
    assert not is_good(row, 199, 50)
    assert not is_good(row, 200, 49)
    assert not is_good(replace(row, outcome="aborted"), 200, 50)


def test_a_stop_string_found_by_the_reader_counts_as_finished(client):
    client.add("a", 4, 20)
    client.run(3)
    client.views["a"] = replace(client.views["a"], outcome="finished", reason="stop")
    client.scheduler.abort("a")
    client.add("b", 4, 1)
    client.run(1)
    rows = {row.request_id: row.outcome for row in summary_of(client).requests}
    assert rows["a"] == "finished"


def test_a_percentile_needs_a_sample_beyond_it():
    assert [needed(q) for q in QUANTILES] == [2, 10, 20, 100]
    samples = Reservoir()
    for i in range(99):
        samples.add(i / 1000, spans=False)
    assert samples.spread(whole_only=False).values[:3] == pytest.approx((49, 88.2, 93.1))
    assert samples.spread(whole_only=False).values[3] is None
    samples.add(0.099, spans=False)
    assert samples.spread(whole_only=False).values == pytest.approx((49.5, 89.1, 94.05, 98.01))


def test_a_reservoir_is_bounded_counts_all_and_keeps_early_and_late_alike():
    samples = Reservoir()
    for i in range(10 * CAPACITY):
        samples.add(float(i), spans=i % 2 == 0)
    spread = samples.spread(whole_only=False)
    assert (spread.n, spread.kept, spread.spanning) == (10 * CAPACITY, CAPACITY, 5 * CAPACITY)
    assert spread.curve[50] / 1000 == pytest.approx(5 * CAPACITY, rel=0.08)
    whole = samples.spread(whole_only=True)
    assert whole.n == 5 * CAPACITY
    assert whole.kept == pytest.approx(CAPACITY / 2, rel=0.1)


def test_the_book_stays_bounded_over_many_changes(client):
    client.add("a", 4, 100)
    for i in range(2 * KEPT_EPOCHS):
        client.set_policy(replace(client.policy, max_num_seqs=1 + i % 7))
        client.run(1)
    assert len(summary_of(client).epochs) == KEPT_EPOCHS


def test_a_summary_is_made_once_for_all_pages_and_at_most_once_a_second(client):
    now = [0.0]
    book = EpochBook(client.request, lambda: now[0])
    client.add("a", 4, 9)
    client.run(3)
    first, second, third = client.history()
    book.add(first)
    made = book.summary()
    book.add(second)
    assert book.summary() is made
    now[0] = 1.0
    newer = book.summary()
    assert newer is not made
    now[0] = 5.0
    assert book.summary() is newer, "nothing came"
    book.add(msgspec.structs.replace(third))
    assert book.summary().step_id == third.step.step_id
