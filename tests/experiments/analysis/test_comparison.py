"""A comparison says what differs, how sure that is, what got worse, and whether the arms are comparable at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.analysis.bootstrap import Interval
from experiments.analysis.comparison import compare
from experiments.analysis.metrics import METRICS, Counts
from experiments.analysis.ratio import _fieller
from experiments.analysis.samples import Slo, table
from experiments.analysis.saturation import saturation
from experiments.record import RequestRow, Run
from tests.experiments.analysis.made import row, run

SLO = Slo(ttft_s=1.0, tpot_s=0.2)


def served(seed: int, wait: float, gap: float, count: int = 60, label: str = "a") -> Run:
    """Requests every tenth of a second, answered after about ``wait`` with tokens about ``gap`` apart."""
    generator = np.random.default_rng(seed)
    rows: list[RequestRow] = []
    for i in range(count):
        first = i / 10 + wait * generator.uniform(0.9, 1.1)
        times = first + np.cumsum([0.0, *(gap * generator.uniform(0.9, 1.1, size=4))])
        rows.append(row(f"r{i:03}", i / 10, times, first_scheduled_s=i / 10 + wait / 2))
    return run(rows, label=label)


def test_quicker_first_tokens_at_the_price_of_slower_streams_are_better_and_worse():
    made = compare([served(1, 0.5, 0.05)], [served(2, 0.2, 0.08, label="b")], SLO)
    assert {"ttft_p50_s", "ttft_mean_s", "queue_mean_s"} <= set(made.named("better"))
    assert {"itl_p50_s", "itl_p99_s", "tpot_mean_s"} <= set(made.worse)
    assert made.differences["preemptions_per_request"].verdict == "unclear"
    ttft = made.differences["ttft_mean_s"]
    assert ttft.difference == pytest.approx(-0.3, abs=0.02)
    assert ttft.ratio == pytest.approx(0.4, abs=0.02)
    assert ttft.difference_interval is not None
    assert ttft.difference_interval.low <= ttft.difference <= ttft.difference_interval.high < 0
    assert ttft.ratio_interval is not None
    assert ttft.ratio_interval.low <= ttft.ratio <= ttft.ratio_interval.high
    assert (ttft.count_a, ttft.count_b) == (60, 60)
    assert (made.differences["itl_p99_s"].count_a, made.method) == (240, "requests")


def test_swapping_the_arms_swaps_better_and_worse():
    a, b = [served(1, 0.5, 0.05)], [served(2, 0.2, 0.08)]
    forth, back = compare(a, b, SLO), compare(b, a, SLO)
    assert forth.named("better") == back.named("worse")
    assert forth.named("worse") == back.named("better")
    for name in METRICS:
        one, other = forth.differences[name].difference, back.differences[name].difference
        assert one == (None if other is None else -other)


def test_a_run_against_itself_is_unclear_throughout():
    made = compare([served(1, 0.5, 0.05)], [served(1, 0.5, 0.05)], SLO)
    assert made.named("better") == made.named("worse") == ()
    assert made.differences["ttft_p99_s"].ratio == 1.0


def test_five_repeats_an_arm_are_compared_over_repeats_with_their_spread():
    a = [replace(served(seed, 0.5 + seed / 100, 0.05, count=12), repeat=seed) for seed in range(5)]
    b = [replace(served(seed + 9, 0.8 + seed / 100, 0.05, count=12), repeat=seed) for seed in range(5)]
    made = compare(a, b, SLO)
    assert made.method == "repeats"
    ttft = made.differences["ttft_mean_s"]
    means = [np.mean([each.token_times_s[0] - each.due_s for each in one.requests]) for one in a]
    assert ttft.a == pytest.approx(np.mean(means))
    assert ttft.spread_a == pytest.approx(np.std(means, ddof=1))
    assert ttft.verdict == "worse"
    assert made.a.runs == made.b.runs == 5
    assert (ttft.count_a, ttft.count_b) == (12, 12), "samples of one run, however often it is repeated"


def test_the_same_runs_and_seed_give_the_same_comparison():
    arms = [served(1, 0.5, 0.05)], [served(2, 0.4, 0.05)]
    assert compare(*arms, SLO, seed=3) == compare(*arms, SLO, seed=3)
    assert compare(*arms, SLO, seed=3) != compare(*arms, SLO, seed=4)


def test_sets_that_differ_between_the_arms_are_named():
    a, b = served(1, 0.5, 0.05), served(2, 0.5, 0.05)
    refused = replace(
        b.requests[7], outcome="rejected", token_times_s=(), first_scheduled_s=None, last_scheduled_s=None, end_s=None
    )
    cut = replace(b.requests[9], outcome="unfinished")
    kept = [each for each in b.requests if each.request_id not in ("r007", "r009")]
    made = compare([a], [run([*kept, refused, cut])], SLO)
    assert made.only_a == ("r007",)
    assert made.only_b == ()
    assert made.admitted_both == 59
    assert made.different_finished == ("r007", "r009")
    assert made.b.counts == (Counts(60, 58, 1, 1),)
    assert (made.a.admitted, made.b.admitted) == (60, 59)


def test_arms_with_different_traces_say_so_and_are_not_drawn_in_the_same_blocks():
    other = replace(served(2, 0.5, 0.05, count=40), trace_sha256="1")
    assert not compare([served(1, 0.5, 0.05)], [other]).same_requests
    assert compare([served(1, 0.5, 0.05)], [served(2, 0.5, 0.05)]).same_requests


def test_a_metric_that_one_arm_has_no_sample_of_is_unclear_and_has_no_difference():
    lone = run([row("r000", 0.0, (1.0,))])
    made = compare([lone], [lone])
    assert made.differences["tpot_mean_s"].a is None
    assert made.differences["tpot_mean_s"].verdict == "unclear"
    assert made.differences["goodput_rps"].difference is None


def test_an_arm_without_runs_is_refused():
    with pytest.raises(ValueError, match="expected at least 1 in each"):
        compare([served(1, 0.5, 0.05)], [])


def queueing(service: float, count: int = 60) -> Run:
    """One server, a request a second."""
    rows, free = [], 0.0
    for i in range(count):
        start = max(float(i), free)
        free = start + service
        rows.append(row(f"r{i:03}", float(i), (free,), first_scheduled_s=start))
    return run(rows)


@pytest.mark.parametrize(("service", "state"), [(0.5, "no"), (0.99, "no"), (1.3, "yes"), (3.0, "yes")])
def test_a_server_slower_than_its_arrivals_is_saturated(service: float, state: str):
    assert saturation(table(queueing(service))).state == state


def test_waiting_by_hand():
    # Ten requests a second apart, each scheduled 3 s after it is due: of the 9 s window the queue is 1, 2, then 3 long.
    rows = [row(f"r{i}", float(i), (i + 4.0,), first_scheduled_s=i + 3.0) for i in range(10)]
    found = saturation(table(run(rows)))
    assert found.waiting == pytest.approx((2.0, 3.0, 3.0))
    assert (found.window_s, found.drain_s, found.state) == (9.0, 3.0, "no")


def test_requests_that_all_come_at_once_are_a_burst_and_few_of_them_tell_nothing():
    assert saturation(table(run([row(f"r{i}", 0.0, (i + 1.0,)) for i in range(8)]))).state == "burst"
    assert saturation(table(run([row("a", 0.0, (1.0,))]))).state == "unknown"


def test_requests_that_were_never_scheduled_keep_the_queue_from_emptying():
    kept = queueing(0.5, 20).requests
    never = [
        row(f"x{i}", float(i), (), outcome="unfinished", first_scheduled_s=None, last_scheduled_s=None)
        for i in range(5, 20)
    ]
    found = saturation(table(run([*kept, *never], 20.0)))
    assert (found.state, found.drain_s) == ("yes", None)


@pytest.mark.parametrize("repeats", [1, 2, 3, 4, 5])
def test_the_intervals_of_the_change_and_of_the_difference_call_the_same_metrics_different(repeats: int):
    """A card prints the interval of the change beside the verdict, which is made from that of the difference."""
    generator = np.random.default_rng(repeats)
    arms = [
        [served(int(generator.integers(1000)), wait * generator.uniform(0.8, 1.2), gap * generator.uniform(0.8, 1.2))
         for _ in range(repeats)]
        for wait, gap in ((0.5, 0.05), (0.3, 0.06))
    ]  # fmt: skip
    made = compare(*arms, SLO).differences.values()
    known = [each for each in made if each.ratio_interval is not None and each.difference_interval is not None]
    assert len(known) > 20
    for each in known:
        low, high = each.ratio_interval.low, each.ratio_interval.high  # type: ignore[union-attr]
        assert 0 <= low <= high, each
        if each.difference_interval.low < -1e-9 and each.difference_interval.high > 1e-9:  # type: ignore[union-attr]
            assert low < 1 < high, each
        if each.difference_interval.low > 1e-9 or each.difference_interval.high < -1e-9:  # type: ignore[union-attr]
            assert low > 1 or high < 1, each


def test_the_interval_of_a_ratio_is_the_one_of_fieller_worked_by_hand():
    """Means 10 and 20, variances 1 and 4, no covariance, reach 2: (20 - 10 r)^2 = 4 (4 + r^2) at r = 1.5 and 8 / 3."""
    a, b = np.array([9.0, 9.0, 11.0, 11.0]), np.array([18.0, 22.0, 18.0, 22.0])
    made = _fieller(a, b, 2.0, 0.95)
    assert made is not None
    assert (made.low, made.high) == pytest.approx((1.5, 8 / 3))
    assert _fieller(a, b, 10.0, 0.95) is None, "10 - 10 x 1 holds 0"
    assert _fieller(b, np.zeros(4), 2.0, 0.95) == Interval(0.0, 0.0), "all of it is gone"
