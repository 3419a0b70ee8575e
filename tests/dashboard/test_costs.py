"""What evictions cost, per event and summed, apart from useful work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.charts.theme import DARK
from dashboard.evictions import Costs, EvictionBook
from dashboard.i18n import translator
from dashboard.views.preemptions import duration, preemptions, size, summary
from dashboard.words import event_words
from scheduler import ResumeRecord, StepEvent, StepTimings
from tests.dashboard.fakes import FakeClient

EN, KO = translator("en"), translator("ko")
AGAIN = ResumeRecord("r1", "recompute", 3, 0.3, 6, 0.6, 8, 0.9, recompute_tokens=40, moved_blocks=0, work_s=0.25)
MOVED = ResumeRecord("r2", "swap", 4, 0.4, 6, 0.6, 6, 0.7, recompute_tokens=0, moved_blocks=10, work_s=0.05)


def evicted(request_id: str, step_id: int, reason: str = "newest", **numbers: int | str) -> StepEvent:
    told = {"for_request_id": "r0", "freed_blocks": 5, "recompute_tokens": 40, **numbers}
    return StepEvent(step_id, step_id / 10, "preempted", request_id, reason, told)


def book_of(*steps: tuple[tuple[StepEvent, ...], tuple[ResumeRecord, ...], StepTimings]) -> EvictionBook:
    client, book = FakeClient(), EvictionBook()
    client.run(1)
    for i, (events, resumes, timings) in enumerate(steps):
        step = replace(client.latest.step, step_id=3 + i, events=events, resumes=resumes, timings=timings)
        client.show(step)
        book.add(client.latest, {"r1": 1})
    return book


def test_each_eviction_gets_its_own_cost_and_all_of_them_are_summed_beside_useful_work():
    book = book_of(
        ((evicted("r1", 3),), (), StepTimings(execute_s=1.0)),
        ((evicted("r2", 4, mode="swap", moved_blocks=5),), (), StepTimings(execute_s=1.0, swap_out_s=0.02)),
        ((), (MOVED, AGAIN), StepTimings(execute_s=1.0, swap_in_s=0.03)),
    )
    second, first = book.list()
    assert (first.cost, second.cost) == (AGAIN, MOVED)
    costs = book.costs
    assert (costs.num_evictions, costs.recompute_tokens, costs.moved_blocks) == (2, 40, 10)
    assert costs.recompute_s == pytest.approx(0.25)
    assert costs.swap_s == pytest.approx(0.05)
    assert costs.useful_s == pytest.approx(3.0 - 0.25)
    assert costs.delay_s == pytest.approx((0.9 - 0.3) + (0.7 - 0.4))


def test_the_summary_splits_the_time_and_says_tokens_bytes_and_delay():
    costs = Costs(2, 40, 10, useful_s=9.0, recompute_s=0.9, swap_s=0.1, delay_s=3.0, num_steps=1204)
    shown = summary(costs, 2048, EN)
    assert "useful work 90.0%" in shown
    assert "recomputing 900 ms (40 tokens)" in shown
    assert "copying 100 ms (20.5 kB out and back)" in shown
    assert "In 1,204 iterations since the server began: 2 came back, each delayed by 1.5 s on average" in shown
    assert [f"width:{w}%" in shown for w in ("90.00", "9.00", "1.00")] == [True] * 3
    assert "유용한 계산 90.0%" in summary(costs, 2048, KO)
    assert "once a victim has caught up" in summary(Costs(), 2048, EN)


def test_an_eviction_says_its_mode_its_price_and_its_delay():
    book = book_of(
        ((evicted("r1", 3), evicted("r3", 3, host_free_blocks=1), evicted("r4", 3, "requested")), (), StepTimings()),
        ((evicted("r2", 4, mode="swap", moved_blocks=5),), (MOVED, AGAIN), StepTimings()),
    )
    shown = preemptions(book.list(), 2048, DARK, EN, 100)
    assert "5 blocks freed, 40 tokens to recompute · rule newest" in shown
    assert "cost: 40 tokens again in 250 ms; caught up 600 ms late" in shown
    assert "5 blocks freed, 5 copied to the host · rule newest" in shown
    assert "cost: 20.5 kB copied out and back in 50 ms; caught up 300 ms late" in shown
    assert "the host pool is full, so 40 tokens to recompute" in shown
    assert "iteration 3: r4 evicted by hand" in shown


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (evicted("r1", 3, mode="swap", moved_blocks=4), "r1 evicted for r0 (rule: newest): 5 blocks freed, 4 copied"),
        (evicted("r1", 3, host_free_blocks=2), "the host pool has only 2 free, so 40 tokens to recompute"),
        (evicted("r1", 3, "requested", for_request_id=""), "r1 evicted by hand: 5 blocks freed, 40 tokens"),
        (evicted("r1", 3, "requested", mode="swap", moved_blocks=4), "r1 evicted by hand: 5 blocks freed, 4 copied"),
        (evicted("r0", 3), "r0 gave up its own blocks"),
        (evicted("r0", 3, mode="swap", moved_blocks=4), "r0 gave up its own blocks (rule: newest): 5 freed, 4 copied"),
        (
            StepEvent(3, 0.3, "swapped_out", "r1", "", {"num_blocks": 4, "host_free_blocks": 60}),
            "r1: 4 blocks moved out to the host pool; free there: 60",
        ),
        (StepEvent(3, 0.3, "swapped_in", "r1", "", {"num_blocks": 4, "host_free_blocks": 64}), "4 blocks moved back"),
    ],
)
def test_evictions_and_copies_read_as_what_they_were(event, words):
    assert words in event_words(event, EN)


def test_a_proposal_of_a_policy_of_ones_own_that_was_refused_names_its_file_and_who_decided():
    numbers = {"field": "preemption_victim", "name": "mine", "file": "mine.py", "instead": "newest"}
    reason = "preemption_victim mine (mine.py): choose() raised ValueError: no; newest decides in this step"
    event = StepEvent(3, 0.3, "policy_refused", "", reason, numbers)
    assert (
        event_words(event, EN)
        == "mine (mine.py) was refused: choose() raised ValueError: no. newest decided in its place."
    )


def test_small_and_large_amounts_stay_readable():
    assert [duration(s) for s in (0.0004, 0.05, 2.0)] == ["0.4 ms", "50 ms", "2.0 s"]
    assert [size(n) for n in (12, 20_480, 3_100_000, 4.2e9)] == ["12 B", "20.5 kB", "3.1 MB", "4.2 GB"]


def test_a_changed_policy_is_told_in_the_words_of_the_controls():
    changes = {"version": 3, "kv_block_limit": "72 -> None", "enable_chunked_prefill": "True -> False"}
    event = StepEvent(1, 0.0, "policy_changed", "", "", changes)
    assert event_words(event, EN) == "Policy v3 in force: kv_block_limit 72 → all; enable_chunked_prefill off."
