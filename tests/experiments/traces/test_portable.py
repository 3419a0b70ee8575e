"""The random numbers that do not depend on the machine: against exact arithmetic and against theory."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext

import numpy as np
import pytest

from experiments.traces.portable import Stream, exp, log


@pytest.mark.parametrize("seed", range(3))
def test_log_and_exp_agree_with_decimal_arithmetic(seed: int) -> None:
    rng = random.Random(seed)
    with localcontext() as context:
        context.prec = 40
        for _ in range(200):
            x = rng.random() * 10.0 ** rng.randint(-12, 12) or 1.0
            exact = float(Decimal(x).ln())
            assert abs(log(x) - exact) <= 4e-16 * max(abs(exact), 1), x
            y = rng.uniform(-30, 30)
            assert exp(y) == pytest.approx(float(Decimal(y).exp()), rel=4e-15), y


@pytest.mark.parametrize("shape", [0.25, 0.87, 1.0, 2.5, 40.0])
def test_gamma_has_the_mean_the_variance_and_the_skewness_of_its_shape(shape: float) -> None:
    stream = Stream(3, 0)
    values = np.array([stream.gamma(shape) for _ in range(20_000)])
    error = np.sqrt(shape / len(values))
    assert values.mean() == pytest.approx(shape, abs=5 * error)
    assert values.var() == pytest.approx(shape, rel=0.12)
    assert ((values - shape) ** 3).mean() / shape**1.5 == pytest.approx(2 / np.sqrt(shape), rel=0.25, abs=0.1)


def test_normal_is_standard() -> None:
    stream = Stream(4, 0)
    values = np.array([stream.normal() for _ in range(20_000)])
    assert (values.mean(), values.std()) == (pytest.approx(0, abs=0.03), pytest.approx(1, abs=0.03))
    assert np.quantile(values, 0.975) == pytest.approx(1.96, abs=0.05)


def test_streams_of_one_seed_are_apart_and_of_equal_seed_and_lane_equal() -> None:
    assert Stream(1, 0).uniform() == Stream(1, 0).uniform()
    assert len({Stream(seed, lane).uniform() for seed in range(20) for lane in range(4)}) == 80
