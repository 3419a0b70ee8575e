"""Step times: fitted prices against known ones, entered ones against a roofline worked out by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from experiments.virtual.cost import TERMS, FittedCost, Gpu, ModelShape, RooflineCost
from experiments.virtual.fit import FitError, features, fit, non_negative
from experiments.virtual.hardware import GPUS, MODELS
from experiments.virtual.work import StepWork, decode_work, pairs_of

PRICES = dict(zip(TERMS, (0.03, 1e-4, 2e-4, 0.0, 1e-4, 0.0, 3e-6, 0.002, 4e-8, 0.0), strict=True))


def some_work(rng: random.Random) -> StepWork:
    decode = rng.randint(0, 16)
    chunk = rng.choice((0, 0, rng.randint(1, 200)))
    context = decode * rng.randint(10, 400)
    rows = decode + (1 if chunk else 0)
    if not rows:
        return decode_work(1, 50)
    return StepWork(chunk, decode, 0, 0, context + chunk, rows, pairs_of(chunk, chunk) if chunk else 0)


def measured(count: int, noise: float, seed: int = 1) -> tuple[list[StepWork], list[float]]:
    rng = random.Random(seed)
    model = FittedCost(tuple(PRICES.values()), "known prices")
    works = [some_work(rng) for _ in range(count)]
    return works, [model.seconds(work) * rng.uniform(1 - noise, 1 + noise) for work in works]


def test_the_price_of_a_step_is_the_sum_over_its_terms():
    model = FittedCost(tuple(PRICES.values()), "known prices")
    works = [some_work(random.Random(seed)) for seed in range(50)]
    by_matrix = features(works) @ np.array(tuple(PRICES.values()))
    assert [model.seconds(work) for work in works] == pytest.approx(list(by_matrix))


def test_prices_behind_noisy_steps_are_found_and_disturbed_steps_do_not_move_them():
    works, seconds = measured(600, 0.05)
    seconds[::60] = [30 * each for each in seconds[::60]]  # another process took the machine
    fitted = fit(works, seconds, "a test")
    clean = FittedCost(tuple(PRICES.values()), "known prices")
    fresh = [some_work(random.Random(10_000 + seed)) for seed in range(200)]
    expected = sum(clean.seconds(work) for work in fresh)
    assert sum(fitted.model.seconds(work) for work in fresh) == pytest.approx(expected, rel=0.03)
    error = fitted.held_out_error
    assert error.num_outliers == 10
    assert error.median_step < 0.05
    assert error.total_time < 0.05


def test_steps_that_take_something_else_than_their_work_show_a_large_held_out_error():
    works, _ = measured(300, 0.0)
    rng = random.Random(3)
    error = fit(works, [rng.choice((0.001, 0.1)) for _ in works], "a test").held_out_error
    assert error.mean_step > 0.5


def test_non_negative_least_squares_meet_the_conditions_of_the_least():
    rng = np.random.default_rng(5)
    for _ in range(30):
        matrix, target = rng.normal(size=(40, 6)), rng.normal(size=40)
        x = non_negative(matrix, target)
        gradient = matrix.T @ (target - matrix @ x)  # Karush, Kuhn, Tucker
        assert (x >= 0).all()
        assert (gradient <= 1e-7).all()
        assert np.abs(gradient[x > 0]).max(initial=0.0) < 1e-7


def test_too_few_steps_are_refused_with_how_many_are_needed():
    works, seconds = measured(29, 0.0)
    with pytest.raises(FitError, match="29 computed something and were timed, at least 30"):
        fit(works, seconds, "a test")


def test_the_roofline_is_the_larger_of_bytes_and_operations():
    gpu = Gpu("toy", bandwidth=1000.0, flops=10_000.0, memory=10_000.0, source="made up")
    model = ModelShape("toy", parameters=100, layers=2, heads=4, kv_heads=2, head_dim=8, source="made up")
    cost = RooflineCost(gpu, model, bandwidth_share=0.5, flops_share=0.5, overhead_s=1.0)
    # KV of a position: 2 x 2 layers x 2 heads x 8 x 2 bytes = 128. Two decodes that read 30 positions and write 2:
    # 200 + 32 x 128 = 4296 bytes at 500 a second; 2 x 100 x 2 + 4 x 2 x 4 x 8 x 30 = 8080 operations at 5000.
    assert model.kv_bytes_per_token() == 128
    assert cost.seconds(decode_work(2, 30)) == pytest.approx(1.0 + 4296 / 500)
    # A prompt of 40: 200 + 80 x 128 bytes; 2 x 100 x 40 + 256 x 820 pairs operations.
    work = StepWork(prefill=40, context=40, rows=1, pairs=pairs_of(40, 40))
    assert work.pairs == 820
    assert cost.seconds(work) == pytest.approx(1.0 + (8000 + 256 * 820) / 5000)


def test_twice_the_gpus_halve_everything_but_the_overhead():
    gpu, model = GPUS["H100-SXM"], MODELS["Llama-3.1-70B"]
    one, two = RooflineCost(gpu, model, overhead_s=0.0), RooflineCost(gpu, model, 2, overhead_s=0.0)
    work = decode_work(64, 64_000)
    assert two.seconds(work) == pytest.approx(one.seconds(work) / 2)


def test_a_decode_of_an_8b_model_on_an_h100_takes_at_least_the_reading_of_its_weights():
    cost = RooflineCost(GPUS["H100-SXM"], MODELS["Llama-3.1-8B"], overhead_s=0.0, bandwidth_share=1.0)
    assert cost.seconds(decode_work(1, 1)) == pytest.approx(16.06e9 / 3350e9, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"flops_share": 0.0}, "flops_share is 0.0"), ({"num_gpus": 0}, "num_gpus is 0"), ({"overhead_s": -1.0}, "over")],
)
def test_an_impossible_number_is_named(change, words):
    with pytest.raises(ValueError, match=words):
        RooflineCost(GPUS["L4"], MODELS["Qwen2.5-7B"], **change)


def test_a_model_that_does_not_fit_is_refused_with_both_sizes():
    with pytest.raises(ValueError, match=r"Llama-3.1-70B needs 141.2 GB, 1 x L4 have 21.6 GB"):
        RooflineCost(GPUS["L4"], MODELS["Llama-3.1-70B"]).num_blocks(16)


def test_every_gpu_and_model_names_its_source():
    assert all(item.source for item in (*GPUS.values(), *MODELS.values()))
