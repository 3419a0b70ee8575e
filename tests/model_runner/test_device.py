"""Device, number type and threads, chosen or asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model_runner import device
from model_runner.config import RunnerConfig
from model_runner.device import choose_device
from model_runner.linear import KMajorLinear, LinearFactory, PackedLinear, PlainLinear, packing_works


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ("avx2 avx512f avx512_bf16", torch.bfloat16),
        ("amx_bf16 amx_tile", torch.bfloat16),
        ("avx2 avx512f", torch.float32),
    ],
)
def test_bfloat16_is_chosen_only_where_the_cpu_multiplies_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, dtype: torch.dtype
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : fpu {flags}\n")
    monkeypatch.setattr(device, "_CPUINFO", cpuinfo)
    assert choose_device(RunnerConfig(device="cpu")).dtype == dtype
    assert choose_device(RunnerConfig(device="cpu", dtype="float32")).dtype == torch.float32


def test_where_nothing_is_known_about_the_cpu_it_is_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_CPUINFO", tmp_path / "absent")
    assert choose_device(RunnerConfig(device="cpu")).dtype_name == "float32"


@pytest.mark.parametrize(("cores", "asked", "threads"), [(1, 0, 1), (2, 0, 1), (8, 0, 7), (2, 5, 5)])
def test_one_core_is_left_to_the_page(monkeypatch: pytest.MonkeyPatch, cores: int, asked: int, threads: int) -> None:
    monkeypatch.setattr(device, "usable_cores", lambda: cores)
    assert choose_device(RunnerConfig(device="cpu", threads=asked)).threads == threads


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 7, 130])
@pytest.mark.parametrize("kind", [KMajorLinear, PackedLinear, PlainLinear])
def test_every_kind_of_product_is_that_of_float64(kind: type, rows: int, dtype: torch.dtype) -> None:
    if kind is PackedLinear and not packing_works(dtype):
        assert LinearFactory(torch.device("cpu"), dtype).kind is KMajorLinear
        return
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randn(96, 160, generator=generator).to(dtype)
    x = torch.randn(rows, 160, generator=generator).to(dtype)
    with torch.inference_mode():
        found = kind(weight)(x).double()
    exact = x.double() @ weight.double().T
    # Rounding of the result to 8 bits in bfloat16; sums of 160 products in float32.
    tolerance = 1e-5 if dtype == torch.float32 else 2**-8
    torch.testing.assert_close(found, exact, rtol=tolerance, atol=tolerance * 20)


def test_a_gpu_takes_weights_as_they_are_and_a_tied_head_once() -> None:
    factory = LinearFactory(torch.device("meta"), torch.bfloat16)
    assert factory.kind is PlainLinear
    assert factory.steps.split(77) == [77]
    weight = torch.randn(6, 4)
    assert PlainLinear(weight)._weight is weight
