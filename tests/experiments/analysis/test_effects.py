"""Shares of a gain add up to it, whatever the figures; effects are those of the textbook."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.analysis.attribution import VALID_LABELS, attribute
from experiments.analysis.bootstrap import Interval
from experiments.analysis.effects import KEYS, complete, edges, effects, gain, printed, shapley
from experiments.analysis.factorial import LABELS, arms, largest_valid
from experiments.analysis.samples import Slo
from experiments.record import Run
from scheduler import SchedulerPolicy
from scheduler.workload import WorkloadRequest
from tests.experiments.analysis.made import simulated

FIGURES = st.fixed_dictionaries(
    {label: st.floats(-1e12, 1e12, allow_nan=False, allow_infinity=False) for label in VALID_LABELS}
)


def by_orders(values: dict[str, float]) -> dict[str, Fraction]:
    """Shapley's definition itself: the mean over all 24 orders of switching on."""
    of = complete(values)
    shares = dict.fromkeys(KEYS, Fraction(0))
    for order in permutations(range(4)):
        label = "0000"
        for index in order:
            after = label[:index] + "1" + label[index + 1 :]
            shares[KEYS[index]] += (of[after] - of[label]) / 24
            label = after
    return shares


@given(FIGURES)
@settings(max_examples=40, deadline=None)
def test_shares_are_those_of_all_orders_and_add_up_to_the_gain_exactly(values: dict[str, float]):
    shares = shapley(values)
    assert shares == by_orders(values)
    assert sum(shares.values()) == gain(values) == Fraction(values["1111"]) - Fraction(values["0000"])


@given(FIGURES, st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_printed_shares_add_up_to_the_printed_gain_and_none_is_off_by_a_unit(values: dict[str, float], digits: int):
    shares = shapley(values)
    shown = printed(shares, digits)
    assert sum(shown.values()) == Decimal(round(gain(values) * 10**digits)).scaleb(-digits)
    assert all(abs(Fraction(shown[key]) - shares[key]) < Fraction(1, 10**digits) for key in KEYS)


def additive(label: str) -> float:
    return 10 + sum(part for bit, part in zip(largest_valid(label), (1, 2, 4, 8), strict=True) if bit == "1")


def test_factors_that_only_add_get_what_they_add_and_do_not_interact():
    # Without the dependence of the third on the second: iteration 1, chunked 8. The second opens the way for the
    # third, so the 4 of both together is shared: 2 + 2 and 2.
    values = {label: additive(label) for label in VALID_LABELS}
    assert shapley(values) == {"iteration": 1, "paged": 4, "optimistic": 2, "chunked": 8}
    found = effects(values)
    assert found["iteration",] == 1
    assert found["chunked",] == 8
    assert found["iteration", "chunked"] == 0
    assert found["paged", "optimistic"] == 2
    assert found["paged",] == 2 + 2
    assert found["optimistic",] == 2


def test_effects_by_hand_for_two_factors_that_help_only_together():
    values = {label: float(label[0] == label[3] == "1") for label in VALID_LABELS}
    found = effects(values)
    assert found["iteration",] == found["chunked",] == found["iteration", "chunked"] == Fraction(1, 2)
    assert all(effect == 0 for members, effect in found.items() if not set(members) <= {"iteration", "chunked"})
    assert shapley(values) == {"iteration": Fraction(1, 2), "paged": 0, "optimistic": 0, "chunked": Fraction(1, 2)}


@given(FIGURES)
@settings(max_examples=20, deadline=None)
def test_effects_tell_every_arm_again(values: dict[str, float]):
    of, found = complete(values), effects(values)
    mean = sum(of.values()) / 16
    assert len(found) == 15
    for label in LABELS:
        total = mean
        for members, effect in found.items():
            total += effect / 2 * (-1) ** sum(label[KEYS.index(key)] == "0" for key in members)
        assert total == of[label]


def test_a_factor_is_only_judged_between_arms_that_exist():
    values = {label: float(int(label, 2)) for label in VALID_LABELS}
    steps = edges(values)
    assert len(steps) == 20
    assert all(step.off in VALID_LABELS and step.on in VALID_LABELS for step in steps)
    assert {step.change for step in steps if step.factor == "chunked"} == {1}
    assert {step.change for step in steps if step.factor == "paged"} == {4}


def test_a_missing_arm_is_named():
    values = {label: 1.0 for label in VALID_LABELS if label != "0110"}
    with pytest.raises(ValueError, match="no value for the arms 0110"):
        shapley(values)


REQUESTS = [WorkloadRequest(f"r{i:02}", i // 2, 3 + 7 * (i % 3), 2 + 5 * (i % 4)) for i in range(24)]


def run_arms(requests: list[WorkloadRequest]) -> list[Run]:
    made = arms(SchedulerPolicy(max_num_seqs=6, max_num_batched_tokens=8), 32)
    return [
        simulated(arm.policy, requests, arm.label, num_blocks=20, block_size=4, max_model_len=32)
        for arm in made
        if not arm.why_invalid
    ]


RUNS = run_arms(REQUESTS)
FOUND = attribute(RUNS, Slo(ttft_s=8.0, tpot_s=1.5), resamples=200)


@pytest.mark.parametrize("name", FOUND.attributions)
def test_shares_of_real_schedules_add_up_to_what_changed_between_none_and_all(name: str):
    made = FOUND.attributions[name]
    assert sum(part.change for part in made.shares) == made.gain.change
    assert made.gain.change == made.values["1111"] - made.values["0000"]
    whole = FOUND.before_after.differences[name]
    assert made.gain.value == pytest.approx(whole.difference)
    assert [part.members for part in made.shares] == [(key,) for key in KEYS]
    assert len(made.effects) == 15


def test_the_interval_of_each_part_holds_its_own_figure_and_decides_its_verdict():
    for made in FOUND.attributions.values():
        for part in (made.gain, *made.shares, *made.effects):
            assert isinstance(part.interval, Interval)
            reach = part.interval.high - part.interval.low
            assert part.interval.low - reach <= part.value <= part.interval.high + reach
            assert (part.verdict == "unclear") != part.interval.excludes_zero


def test_continuous_paged_scheduling_is_seen_to_raise_throughput_and_what_it_costs_is_said():
    throughput = FOUND.attributions["output_tokens_per_s"]
    assert throughput.gain.change > 0
    assert FOUND.method == "requests"
    lines = {(line.group, line.name): line for line in FOUND.ledgers}
    assert lines["tokens", "recompute"].after > lines["tokens", "recompute"].before
    assert set(FOUND.harm) == set(KEYS)
    assert FOUND.before_after.a.label == "0000"
    for key, names in FOUND.harm.items():
        for name in names:
            share = next(part for part in FOUND.attributions[name].shares if part.members == (key,))
            assert share.verdict == "worse"


def test_repeats_are_averaged_exactly_and_make_the_intervals_where_there_are_five():
    runs = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        moved = [WorkloadRequest(r.request_id, r.arrival_step + int(generator.integers(3)), r.prompt_len, r.output_len)
                 for r in REQUESTS[:10]]  # fmt: skip
        runs.extend(run_arms(moved))
    found = attribute(runs, metrics=["ttft_mean_s"], resamples=200)
    assert found.method == "repeats"
    made = found.attributions["ttft_mean_s"]
    assert sum(part.change for part in made.shares) == made.gain.change
    assert set(found.runs.values()) == {5}


def test_a_metric_without_samples_is_left_out_with_the_reason():
    found = attribute(RUNS, metrics=["goodput_rps", "itl_p99_s"], resamples=50)
    assert set(found.attributions) == {"itl_p99_s"}
    assert found.left_out["goodput_rps"].startswith("no sample in the arms 0000")


@pytest.mark.parametrize(
    ("runs", "metrics", "named"),
    [
        (RUNS[:-1], ["itl_p99_s"], "no run of the arms 1111"),
        ([*RUNS, replace(RUNS[0], label="b")], ["itl_p99_s"], "label is 'b'"),
        (RUNS, ["speed"], "metrics has 'speed'"),
    ],
)  # fmt: skip
def test_runs_that_are_no_factorial_are_refused_by_name(runs: list, metrics: list[str], named: str):
    with pytest.raises(ValueError, match=named):
        attribute(runs, metrics=metrics)
