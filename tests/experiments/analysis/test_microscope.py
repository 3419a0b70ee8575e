"""The microscope tells long prompts from the others, finds a knee that is there and none that is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from experiments.analysis.bootstrap import Interval
from experiments.analysis.microscope import chunk_of, default_long_tokens, distance_below_chord, microscope
from experiments.record import Run
from scheduler import SchedulerPolicy
from tests.experiments.analysis.made import row, run

SIZES = (16, 32, 64, 128, 256)


def at(chunk: int, long_ttft: float, gap: float, seed: int = 0) -> Run:
    """A long prompt every tenth request, whose first token takes ``long_ttft``; the others stream every ``gap``."""
    generator = np.random.default_rng([seed, chunk])
    rows = []
    for i in range(60):
        long = i % 10 == 0
        first = i + (long_ttft if long else 0.1) * generator.uniform(0.97, 1.03)
        times = first + np.cumsum([0.0, *(gap * generator.uniform(0.97, 1.03, size=5))])
        rows.append(row(f"r{i:02}", float(i), times, prompt_len=500 if long else 20))
    return run(rows, policy=SchedulerPolicy(max_num_batched_tokens=chunk), label=f"chunk{chunk}")


def runs(curve: Callable[[int], tuple[float, float]]) -> list[Run]:
    return [at(size, *curve(index)) for index, size in enumerate(SIZES)]


def bent(index: int) -> tuple[float, float]:
    """Long TTFT falls fast and then hardly; gaps hardly rise and then fast: the knee is in the middle."""
    return (9.0, 5.0, 1.5, 1.3, 1.0)[index], (0.10, 0.12, 0.15, 0.5, 0.9)[index]


def test_the_knee_of_a_bent_curve_is_where_it_bends():
    made = microscope(runs(bent), resamples=200)
    assert made.knee.chunk_tokens == 64
    assert (made.knee.low_tokens, made.knee.high_tokens, made.knee.agreement) == (64, 64, 1.0)
    assert made.knee.why_none == ""
    assert [point.chunk_tokens for point in made.points] == list(SIZES)
    assert made.long_tokens == 500


def test_points_hold_the_median_of_the_long_and_the_p99_of_the_others_with_intervals():
    made = microscope(runs(bent), resamples=200)
    for point, source in zip(made.points, runs(bent), strict=True):
        long = [r.token_times_s[0] - r.due_s for r in source.requests if r.prompt_len == 500]
        gaps = np.concatenate([np.diff(r.token_times_s) for r in source.requests if r.prompt_len < 500])
        assert point.long_ttft_s == pytest.approx(np.median(long))
        assert point.others_itl_p99_s == pytest.approx(np.quantile(gaps, 0.99))
        assert (point.long_count, point.gap_count, point.runs) == (6, 270, 1)
        for value, between in (
            (point.long_ttft_s, point.long_ttft_interval),
            (point.others_itl_p99_s, point.others_itl_interval),
        ):
            assert isinstance(between, Interval)
            assert between.low <= value <= between.high


def test_intervals_of_times_end_at_0_and_counts_are_of_a_run():
    """Two runs far from each other: mean - t x standard error is far below 0."""
    twice = [*runs(bent), *(replace(each, repeat=1) for each in runs(lambda i: tuple(9 * v for v in bent(i))))]
    made = microscope(twice, resamples=200)
    for point in made.points:
        assert (point.long_count, point.gap_count, point.runs) == (6, 270, 2)
        for value, between in (
            (point.long_ttft_s, point.long_ttft_interval),
            (point.others_itl_p99_s, point.others_itl_interval),
        ):
            assert between.low == 0 <= value <= between.high


@pytest.mark.parametrize(
    ("curve", "reason"),
    [
        (lambda index: (5.0 - index, 0.1 + 0.1 * index), "bends by"),
        (lambda index: (1.0 + index, 0.1 + 0.1 * index), "neither time is traded"),
        (lambda index: ((9.0, 8.8, 8.4, 7.0, 1.0)[index], (0.1, 0.5, 0.8, 0.85, 0.9)[index]), "bends by"),
    ],
)
def test_a_straight_curve_one_that_trades_nothing_and_one_that_bulges_out_have_no_knee(curve: Callable, reason: str):
    made = microscope(runs(curve), resamples=100)
    assert made.knee.chunk_tokens is None
    assert reason in made.knee.why_none


def test_three_sizes_are_too_few_for_a_knee():
    assert "3 chunk sizes" in microscope(runs(bent)[:3], resamples=50).knee.why_none


@pytest.mark.parametrize("seed", range(4))
def test_a_knee_that_the_resamples_do_not_agree_on_is_none(seed: int):
    # Seven sizes in between lie equally far below the chord, so that noise alone picks one of them.
    inner = np.linspace(0.1, 0.6, 7)
    u, v = [1.0, *inner[::-1], 0.0], [0.0, *inner, 1.0]
    made = [at(16 * (i + 1), 5 + 4 * u[i], 0.5 + 0.4 * v[i], seed) for i in range(9)]
    found = microscope(made, resamples=200).knee
    assert found.chunk_tokens is None
    assert found.bend > 0.1
    assert found.low_tokens is not None
    assert found.high_tokens is not None
    assert f"from {found.low_tokens} to {found.high_tokens} tokens" in found.why_none


def test_two_neighbours_that_share_the_knee_are_both_said():
    u, v = (1.0, 0.7, 0.15, 0.1, 0.05, 0.0), (0.0, 0.05, 0.1, 0.15, 0.7, 1.0)
    made = [at(16 << i, 5 + 4 * u[i], 0.5 + 0.4 * v[i], seed=1) for i in range(6)]
    found = microscope(made, resamples=200).knee
    assert found.chunk_tokens in (64, 128)
    assert (found.low_tokens, found.high_tokens) == (64, 128)


def test_distances_to_the_chord_by_hand_whatever_the_units():
    x, y = np.array([10.0, 0.0, 5.0, 0.0]), np.array([0.0, 0.0, 2.0, 4.0])
    below, why = distance_below_chord(x, y)
    assert why == ""
    assert below == pytest.approx([0.0, np.sqrt(0.5), 0.0, 0.0])
    assert distance_below_chord(x * 7, y / 3)[0] == pytest.approx(below)
    assert distance_below_chord(x[::-1], y[::-1])[0] == pytest.approx(below[::-1])


def test_an_axis_that_does_not_change_or_a_missing_point_gives_no_distance():
    line = np.arange(4.0)
    assert "does not change" in distance_below_chord(line, np.ones(4))[1]
    assert "no sample" in distance_below_chord(line, np.array([1.0, np.nan, 2.0, 3.0]))[1]


def test_repeats_of_one_size_are_one_point():
    made = microscope([at(size, *bent(i), seed=s) for i, size in enumerate(SIZES) for s in range(5)], resamples=100)
    assert made.method == "repeats"
    assert {point.runs for point in made.points} == {5}
    assert made.knee.chunk_tokens == 64


def test_the_chunk_of_a_policy_is_its_budget_or_the_threshold_below_it():
    policy = SchedulerPolicy(max_num_batched_tokens=128, long_prefill_token_threshold=32)
    assert chunk_of(run([], policy=policy)) == 32
    assert chunk_of(run([], policy=replace(policy, long_prefill_token_threshold=0))) == 128


@pytest.mark.parametrize(
    ("made", "long_tokens", "named"),
    [
        (list, None, "runs have no requests"),
        (lambda: runs(bent), 900, "long_tokens is 900 and 0 of 300"),
        (lambda: runs(bent), 1, "long_tokens is 1 and 300 of 300"),
        (
            lambda: [run([], policy=SchedulerPolicy(enable_chunked_prefill=False))],
            None,
            "enable_chunked_prefill is False",
        ),
    ],
)
def test_runs_that_show_no_chunks_or_no_long_prompts_are_refused_by_name(
    made: Callable, long_tokens: int | None, named: str
):
    with pytest.raises(ValueError, match=named):
        microscope(made(), long_tokens)


def test_long_prompts_are_the_longest_tenth_unless_told_otherwise():
    assert default_long_tokens([run([row(f"r{i}", 0.0, (1.0,), prompt_len=i + 1) for i in range(100)])]) == 91
