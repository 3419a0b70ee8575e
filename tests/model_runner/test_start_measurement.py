"""Number type and threads are decided by figures alone, and what was asked for is not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from model_runner import device, opening
from model_runner.config import RunnerConfig
from model_runner.device import choose_device
from model_runner.model_cache import SMOLLM2, cache_folder, load_packaged
from model_runner.opening import choose_for_model
from model_runner.runner import ModelRunner
from model_runner.start_measurement import (
    BF16_GAIN,
    THREAD_GAIN,
    Candidate,
    ProductShapes,
    faster_dtype,
    fewest_good_threads,
    measure_products,
    thread_numbers,
)
from model_runner.timings_line import timings_line

F32, BF16 = torch.float32, torch.bfloat16


@pytest.mark.parametrize(
    ("float32", "bfloat16", "chosen"),
    [(20.0, 10.0, BF16), (10.0 * BF16_GAIN, 10.0, BF16), (11.9, 10.0, F32), (10.0, 10.0, F32), (1.0, 50.0, F32)],
)
def test_bfloat16_is_taken_only_where_it_gains_clearly(float32: float, bfloat16: float, chosen: torch.dtype) -> None:
    assert faster_dtype({F32: float32, BF16: bfloat16}) == chosen
    assert faster_dtype({F32: float32}) == F32


@pytest.mark.parametrize(
    ("decode_ms", "cores", "chosen"),
    [
        ({1: 30.0}, 1, 1),
        ({1: 30.0, 2: 5.0}, 2, 1),
        ({1: 30.0, 2: 16.0, 3: 12.0, 4: 1.0}, 4, 3),
        ({1: 30.0, 2: 28.0, 4: 12.0, 8: 11.5, 15: 11.0, 16: 1.0}, 16, 4),
        ({1: 30.0, 2: 30.0 / THREAD_GAIN, 3: 25.0, 4: 25.0}, 4, 2),
        ({1: 1.0, 2: 3.0, 3: 9.0, 4: 9.0}, 4, 1),
    ],
)
def test_more_threads_only_where_they_gain_and_never_the_core_of_the_page(
    decode_ms: Mapping[int, float], cores: int, chosen: int
) -> None:
    assert fewest_good_threads(decode_ms, cores) == chosen


def test_numbers_worth_timing_hold_one_thread_and_all_cores() -> None:
    assert [thread_numbers(n) for n in (1, 2, 3, 6, 8)] == [(1,), (1, 2), (1, 2, 3), (1, 2, 4, 5, 6), (1, 2, 4, 7, 8)]


class Tape:
    """Answers with figures of a made-up machine, and keeps what was asked."""

    def __init__(self, bf16_gain: float, efficiency: float = 0.9) -> None:
        self.asked: list[Candidate] = []
        self._gain, self._efficiency = bf16_gain, efficiency

    def __call__(self, candidates: Sequence[Candidate]) -> dict[Candidate, float]:
        self.asked += candidates
        return {
            c: 40.0 / (self._gain if c.dtype == BF16 else 1.0) / (1 + self._efficiency * (c.threads - 1))
            for c in candidates
        }


@pytest.fixture
def four_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("flags : avx512_bf16\n")
    monkeypatch.setattr(device, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(device, "usable_cores", lambda: 4)


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(("gain", "dtype"), [(1.9, "bfloat16"), (1.0, "float32")])
def test_the_choice_follows_the_figures_and_keeps_all_of_them(gain: float, dtype: str) -> None:
    choice = choose_device(RunnerConfig(device="cpu"), Tape(gain))
    assert (choice.dtype_name, choice.threads) == (dtype, 3)
    assert {(t.dtype, t.threads) for t in choice.timings} == {
        (name, threads) for name in ("float32", "bfloat16") for threads in (1, 2, 3, 4)
    }
    assert all(t.decode_ms > 0 for t in choice.timings)


@pytest.mark.usefixtures("four_cores")
def test_what_was_asked_for_is_kept_and_not_measured() -> None:
    tape = Tape(1.9)
    choice = choose_device(RunnerConfig(device="cpu", dtype="float32", threads=4), tape)
    assert (choice.dtype_name, choice.threads, choice.timings, tape.asked) == ("float32", 4, (), [])
    assert choose_device(RunnerConfig(device="cpu", dtype="float32"), tape).threads == 3
    assert {c.dtype for c in tape.asked} == {F32}
    tape = Tape(1.9)
    assert choose_device(RunnerConfig(device="cpu", threads=4), tape).threads == 4
    assert {c.threads for c in tape.asked} == {4}


def test_without_bfloat16_hardware_it_is_not_even_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_CPUINFO", tmp_path / "absent")
    choose_device(RunnerConfig(device="cpu"), tape := Tape(9.0))
    assert BF16 not in {c.dtype for c in tape.asked}


@pytest.mark.usefixtures("four_cores")
def test_a_restart_decides_by_the_figures_of_the_first_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else noise could change the number type under requests that go on, and with it their tokens."""
    monkeypatch.setattr(opening, "measure_products", lambda shapes, candidates: Tape(1.9)(candidates))
    first = choose_for_model(RunnerConfig(model="toy", device="cpu"), lambda *_: None)
    known = {(t.dtype, t.threads): t.decode_ms for t in first.timings}
    monkeypatch.setattr(opening, "measure_products", lambda shapes, candidates: Tape(1.0)(candidates))
    assert choose_for_model(RunnerConfig(model="toy", device="cpu"), lambda *_: None, known) == first
    partly = dict(list(known.items())[:-1])
    assert choose_for_model(RunnerConfig(model="toy", device="cpu"), lambda *_: None, partly).dtype == F32


def test_real_products_are_timed_and_the_figures_reach_what_the_runner_says_of_itself() -> None:
    candidates = [Candidate(F32, 1), Candidate(BF16, 1)]
    before = torch.get_num_threads()
    try:
        found = measure_products(ProductShapes(64, 160, 2), candidates)
        info = ModelRunner.load(RunnerConfig(model="toy", device="cpu", num_blocks=4)).info
    finally:
        torch.set_num_threads(before)
    assert set(found) == set(candidates)
    assert all(ms > 0 for ms in found.values())
    assert info.threads <= max(1, device.usable_cores() - 1)
    if device.usable_cores() > 1:
        assert (info.dtype, info.threads) in {(t.dtype, t.threads) for t in info.start_timings}
        line = timings_line(info.threads, info.start_timings)
        assert all(f"{t.dtype} x {t.threads}: {t.decode_ms:.3g} ms" in line for t in info.start_timings)


@pytest.mark.model
def test_shapes_known_before_the_default_model_is_read_are_its_own() -> None:
    config = load_packaged(SMOLLM2, BF16, lambda *_: None).config
    assert cache_folder(SMOLLM2, BF16).exists()
    shapes = ProductShapes(config.hidden_size, config.intermediate_size, config.num_hidden_layers)
    assert shapes == SMOLLM2.shapes
