"""Goodput at every pair of limits is what a measurement under those limits would have said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.analysis.goodput_plane import default_limits, gaming, plane, race
from experiments.analysis.metrics import measure
from experiments.analysis.samples import Slo
from experiments.record import Run, StepRow
from tests.experiments.analysis.made import row, run
from tests.experiments.analysis.test_ledger import step


def served(seed: int, wait: float, gap: float, count: int = 60) -> Run:
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        first = i / 10 + wait * generator.lognormal(sigma=0.3)
        rows.append(row(f"r{i:03}", i / 10, first + np.cumsum([0.0, *generator.exponential(gap, size=i % 6)])))
    rows[3] = replace(rows[3], outcome="unfinished")
    rows[4] = replace(rows[4], outcome="rejected", token_times_s=())
    return run(rows)


def test_the_plane_is_the_goodput_metric_at_each_pair_of_limits():
    made = served(1, 0.5, 0.1)
    ttft, tpot = default_limits([made], points=7)
    found = plane([made], ttft, tpot).goodput_rps
    for i, x in enumerate(ttft):
        for j, y in enumerate(tpot):
            assert found[i, j] == pytest.approx(
                measure(made, Slo(ttft_s=float(x), tpot_s=float(y)))["goodput_rps"].value
            )


def test_a_limit_that_is_just_met_is_met():
    made = run([row("a", 0.0, (1.0, 1.5))], 2.0)
    found = plane([made], np.array([0.99, 1.0]), np.array([0.49, 0.5])).goodput_rps
    assert found.tolist() == [[0.0, 0.0], [0.0, 0.5]]


def test_goodput_never_falls_when_a_limit_is_relaxed_and_ends_at_all_that_finished():
    made = served(2, 0.5, 0.1)
    found = plane([made], *default_limits([made])).goodput_rps
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.diff(found, axis=1) >= 0).all()
    assert found[-1, -1] == pytest.approx(58 / made.wall_s)


def test_the_winner_changes_where_one_arm_has_the_shorter_wait_and_the_other_the_shorter_gaps():
    a, b = [served(1, 0.9, 0.05, 150)], [served(1, 0.3, 0.15, 150)]
    made = race(a, b, *default_limits([*a, *b], points=24))
    quick_first = made.winner[np.searchsorted(made.a.ttft_limits_s, 0.5), -1]
    quick_gaps = made.winner[-1, np.searchsorted(made.a.tpot_limits_s, 0.05)]
    assert (quick_first, quick_gaps) == (1, -1)
    assert (made.difference == made.b.goodput_rps - made.a.goodput_rps).all()
    assert made.contour


def test_points_of_the_contour_lie_between_neighbours_with_different_winners():
    a, b = [served(1, 0.9, 0.05)], [served(2, 0.3, 0.15)]
    made = race(a, b, *default_limits([*a, *b], points=12))
    x, y = np.array(made.a.ttft_limits_s), np.array(made.a.tpot_limits_s)
    for line in made.contour:
        for px, py in line:
            i, j = np.searchsorted(x, px, side="right") - 1, np.searchsorted(y, py, side="right") - 1
            around = made.difference[i : i + 2, j : j + 2]
            assert around.min() < 0 < around.max()


def test_an_arm_against_itself_has_no_winner_and_no_contour():
    a = [served(1, 0.9, 0.05)]
    made = race(a, a, *default_limits(a))
    assert not made.winner.any()
    assert made.contour == ()


def test_two_arms_without_a_difference_have_few_false_winners():
    false = [
        race([served(s, 0.5, 0.1)], [served(s + 99, 0.5, 0.1)], np.array([0.5]), np.array([0.1])).winner[0, 0] != 0
        for s in range(60)
    ]
    assert np.mean(false) <= 0.15


def test_repeats_are_averaged():
    a, b = served(1, 0.9, 0.05), served(2, 0.3, 0.15)
    limits = default_limits([a, b], points=5)
    both = plane([a, b], *limits).goodput_rps
    assert both == pytest.approx((plane([a], *limits).goodput_rps + plane([b], *limits).goodput_rps) / 2)


@pytest.mark.parametrize(
    ("ttft", "tpot", "named"),
    [([1.0, 1.0], [1.0], "ttft_limits"), ([1.0], [0.0], "tpot_limits"), ([1.0], [], "tpot_limits")],
)
def test_limits_that_do_not_rise_above_nothing_are_refused_by_name(ttft: list, tpot: list, named: str):
    with pytest.raises(ValueError, match=named):
        plane([served(1, 0.5, 0.1)], np.array(ttft), np.array(tpot))


def test_runs_without_figures_have_no_limits_to_choose_from():
    with pytest.raises(ValueError, match="no finished request with two tokens"):
        default_limits([run([row("a", 0.0, (1.0,))])])
    with pytest.raises(ValueError, match="runs has none"):
        plane([], np.array([1.0]), np.array([1.0]))


def test_holding_back_first_tokens_would_have_made_a_request_good_and_so_it_is_said():
    # Limits 5 s and 1 s. a: first at 1, last at 7, 2 gaps: TPOT 3. Held back to 5 it is (7 - 5) / 2 = 1: good.
    # b: last at 8: (8 - 5) / 2 = 1.5, lost either way. c is good as it is.
    made = run([row("a", 0.0, (1.0, 6.0, 7.0)), row("b", 0.0, (1.0, 6.0, 8.0)), row("c", 0.0, (1.0, 2.0))], 10.0)
    found = {each.kind: each for each in gaming(made, Slo(ttft_s=5.0, tpot_s=1.0))}
    assert found["delay"].requests == 1
    assert found["delay"].goodput_rps == pytest.approx(0.1)
    assert found["delay"].could_be_rps == pytest.approx(0.2)
    held = run([row("a", 0.0, (5.0, 6.0, 7.0)), *made.requests[1:]], 10.0)
    assert measure(held, Slo(ttft_s=5.0, tpot_s=1.0))["goodput_rps"].value == found["delay"].could_be_rps
    assert "delay" not in {each.kind for each in gaming(held, Slo(ttft_s=5.0, tpot_s=1.0))}


def steps() -> tuple[StepRow, ...]:
    return (
        step(0, 1, scheduled=(("a", 10, "prefill"),), prefill_tokens=10),
        step(3, 4, scheduled=(("a", 1, "decode"), ("b", 10, "prefill")), prefill_tokens=10, decode_tokens=1),
        step(5, 6, scheduled=(("a", 1, "decode"), ("b", 1, "decode")), decode_tokens=2),
    )


def test_work_for_requests_whose_limit_had_passed_is_counted_token_by_token():
    # TTFT limit 2 s: b's passed at 2, so its 11 tokens from the step at 3 on were for nothing. a keeps its limits.
    made = run([row("a", 0.0, (1.0, 4.0, 6.0)), row("b", 0.0, (4.0, 6.0))], 6.0, steps=steps())
    (found,) = gaming(made, Slo(ttft_s=2.0))
    assert (found.kind, found.requests, found.tokens) == ("abandon", 1, 11)
    assert found.share == pytest.approx(11 / 23)
    assert found.goodput_rps == found.could_be_rps == pytest.approx(1 / 6)


def test_a_tpot_that_can_no_longer_be_kept_makes_later_work_hopeless():
    # a: first at 1, 2 gaps, limit 1.5: lost for good at 4. Only the step at 5 comes after that.
    made = run([row("a", 0.0, (1.0, 4.0, 6.0)), row("b", 0.0, (4.0, 5.0))], 6.0, steps=steps())
    (found,) = gaming(made, Slo(tpot_s=1.5))
    assert (found.requests, found.tokens) == (1, 1)


def test_a_run_in_which_all_keep_their_limits_has_nothing_to_warn_of():
    assert gaming(run([row("a", 0.0, (1.0, 2.0))], steps=steps()[:1]), Slo(ttft_s=2.0, tpot_s=2.0)) == ()
    assert gaming(run([]), Slo(ttft_s=1.0, tpot_s=1.0)) == ()
