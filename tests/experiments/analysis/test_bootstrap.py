"""Intervals hold what they promise: two arms without a difference are told apart about as often as the level says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments.analysis import student
from experiments.analysis.bootstrap import (
    block_length,
    circular_blocks,
    draw,
    draw_sample,
    interval,
    make_plan,
    num_blocks,
    weighted,
)
from experiments.analysis.metrics import METRICS
from experiments.analysis.samples import Sample, Table, moments, table
from tests.experiments.analysis.made import row, run

T_TABLE = {(0.975, 1): 12.706, (0.975, 4): 2.776, (0.975, 8): 2.306, (0.95, 30): 1.697, (0.995, 5): 4.032}


@pytest.mark.parametrize(("key", "value"), T_TABLE.items())
def test_quantiles_of_students_t_are_those_of_the_printed_table(key: tuple[float, int], value: float):
    assert student.quantile(*key) == pytest.approx(value, abs=5e-4)
    assert student.cdf(-student.quantile(*key), key[1]) == pytest.approx(1 - key[0])


def test_a_probability_that_students_t_is_not_asked_for_is_refused():
    with pytest.raises(ValueError, match=r"probability is 1\.0"):
        student.quantile(1.0, 3)


def test_weights_are_whole_blocks_of_neighbours_around_the_circle():
    weights = circular_blocks(27, 50, np.random.default_rng(0))
    assert weights.shape == (50, 27)
    assert (weights.sum(axis=1) == num_blocks(27) * block_length(27)).all()
    one = circular_blocks(10, 400, np.random.default_rng(0))
    assert block_length(10) == 3
    for drawn in one[:20]:
        runs = np.diff(np.concatenate([drawn, drawn[:1]]))
        assert (runs != 0).any() or (drawn == drawn[0]).all()
    assert one.mean(axis=0) == pytest.approx(np.full(10, 1.2), abs=0.15)


@pytest.mark.parametrize("quantile", [None, 0.0, 0.5, 0.9, 0.99, 1.0])
def test_a_weighted_figure_is_that_of_the_values_repeated(quantile: float | None):
    generator = np.random.default_rng(3)
    owner = generator.integers(12, size=40)
    sample = Sample(generator.exponential(size=40), owner)
    weights = circular_blocks(12, 30, generator)
    found = weighted(sample, weights, [quantile, None])[0]
    for index, drawn in enumerate(weights):
        values = np.repeat(sample.values, drawn[owner])
        expected = values.mean() if quantile is None else np.quantile(values, quantile)
        assert found[index] == pytest.approx(expected)


def test_a_resample_without_any_request_of_the_sample_has_no_value_and_gives_no_interval():
    sample, weights = Sample(np.array([1.0]), np.array([0])), np.array([[1, 0], [0, 1]])
    found = weighted(sample, weights, [0.5])[0]
    assert found[0] == 1.0
    assert math.isnan(found[1])
    plan = make_plan([[arm()], [arm()]], resamples=2)
    assert interval(plan, found) is None


BLANK = table(run([row(f"r{i:03}", i / 10, [i / 10 + 1, i / 10 + 2]) for i in range(60)], 6.0))


def arm(generator: np.random.Generator | None = None, shift: float = 0.0) -> Table:
    """A run whose requests arrive every tenth of a second and whose latencies are related among neighbours."""
    generator = generator or np.random.default_rng(1)
    noise = np.convolve(generator.normal(size=62), np.full(3, 1 / math.sqrt(3)), "valid")
    first = BLANK.due + np.exp(noise / 2) + shift
    gaps = generator.exponential(0.2, size=60)
    return replace(BLANK, first_token=first, last_token=first + gaps, gaps=gaps)


def coverage(runs: int, name: str, experiments: int, shift: float = 0.0) -> float:
    """Share of comparisons whose interval holds the true difference of nothing."""
    held = 0
    for seed in range(experiments):
        generator = np.random.default_rng([9, seed])
        effects = generator.normal(scale=0.5, size=(2, runs)) if runs > 1 else np.zeros((2, 1))
        arms = [[arm(generator, shift=3 + each) for each in side] for side in effects]
        if shift:
            arms[1] = [arm(generator, shift=3 + shift + each) for each in effects[1]]
        plan = make_plan(arms, resamples=200, seed=seed)
        a, b = (draw(plan, index, tables, [METRICS[name]])[name] for index, tables in enumerate(arms))
        found = interval(plan, b - a)
        assert found is not None
        held += found.low <= 0 <= found.high
    return held / experiments


@pytest.mark.parametrize("name", ["ttft_mean_s", "ttft_p50_s"])
def test_two_equal_arms_of_one_run_differ_in_about_one_of_twenty_comparisons(name: str):
    assert 0.89 <= coverage(1, name, 120) <= 0.995


def test_two_equal_arms_of_five_runs_differ_in_about_one_of_twenty_comparisons():
    assert 0.90 <= coverage(5, "ttft_mean_s", 120) <= 0.995


def test_two_or_three_runs_an_arm_are_never_more_sure_than_promised():
    assert coverage(2, "ttft_mean_s", 60) >= 0.93


def test_a_difference_that_is_there_is_found():
    assert coverage(1, "ttft_mean_s", 20, shift=1.0) <= 0.2
    assert coverage(5, "ttft_mean_s", 10, shift=3.0) <= 0.1


def test_rates_of_two_equal_arms_differ_in_about_one_of_twenty_comparisons():
    held = 0
    for seed in range(120):
        generator = np.random.default_rng([7, seed])
        arms = []
        for _ in range(2):
            times = generator.uniform(0, 30, size=generator.poisson(300))
            arms.append([replace(BLANK, token_times=times, wall_s=30.0)])
        plan = make_plan(arms, resamples=200, seed=seed)
        a, b = (draw(plan, i, tables, [METRICS["output_tokens_per_s"]]) for i, tables in enumerate(arms))
        found = interval(plan, b["output_tokens_per_s"] - a["output_tokens_per_s"])
        assert found is not None
        held += found.low <= 0 <= found.high
    assert 0.89 <= held / 120 <= 0.995


def test_enough_repeats_are_drawn_whole_and_fewer_by_requests():
    generator = np.random.default_rng(4)
    assert make_plan([[arm(generator) for _ in range(5)]] * 2).method == "repeats"
    assert make_plan([[arm(generator) for _ in range(4)], [arm(generator) for _ in range(9)]]).method == "requests"


def test_repeats_that_are_the_same_to_the_last_digit_count_as_one():
    alike = [[arm()] * 6, [arm(shift=1.0)] * 6]
    once = [each[:1] for each in alike]
    plan, single = make_plan(alike), make_plan(once)
    assert (plan.method, plan.runs) == (single.method, single.runs) == ("requests", (1, 1))
    for index in range(2):
        many = draw(plan, index, alike[index], METRICS.values())
        few = draw(single, index, once[index], METRICS.values())
        assert all(np.array_equal(many[name], few[name]) for name in few)
        assert many.keys() == few.keys()


def test_the_same_seed_draws_the_same_and_another_seed_another():
    arms = [[arm()], [arm(shift=1.0)]]
    metric = METRICS["ttft_mean_s"]
    one, two, other = (draw(make_plan(arms, seed=s), 0, arms[0], [metric])[metric.name] for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_arms_with_the_same_requests_are_drawn_in_the_same_blocks():
    arms = [[arm()], [arm(shift=2.0)]]
    plan = make_plan(arms)
    a, b = (draw(plan, i, each, [METRICS["ttft_mean_s"]])["ttft_mean_s"] for i, each in enumerate(arms))
    assert b - a == pytest.approx(np.full(len(a), 2.0))


def test_the_events_behind_a_rate_add_up_to_it():
    made = arm()
    assert moments(made, "output_tokens", None)[1].sum() == made.delivered.sum()
    assert moments(made, "all_tokens", None)[1].sum() == (made.delivered + made.prompt).sum()
    assert moments(made, "finished", None)[1].sum() == 60


@pytest.mark.parametrize(
    ("arms", "options", "named"),
    [([[], [arm()]], {}, "arms have"), ([[arm()]], {"level": 1.0}, "level is"), ([[arm()]], {"resamples": 0}, "resam")],
)
def test_a_plan_that_cannot_be_made_is_refused_by_name(arms: list, options: dict, named: str):
    with pytest.raises(ValueError, match=named):
        make_plan(arms, **options)


def test_one_unit_gives_no_interval():
    lone = [[table(run([row("a", 0.0, (1.0, 2.0))]))]]
    plan = make_plan(lone, resamples=5)
    drawn = draw_sample(plan, 0, lone[0], [Sample(np.array([1.0]), np.array([0]))], [0.5])
    assert drawn is not None
    assert interval(plan, drawn[0]) is None
