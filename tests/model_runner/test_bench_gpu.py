"""The benchmark for GPUs, run on the CPU with a tiny model: what it counts, not what it measures."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_gpu.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_runs_and_its_floor_is_bytes_over_the_measured_bandwidth(bench: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    sizes = ["--context", "20", "--steps", "6", "--copy-mib", "1"]
    bench.main(["--device", "cpu", "--models", "tiny", "--batches", "1", "3", *sizes, "--out", str(out)])
    report = json.loads(out.read_text())
    one, three = report["results"][0]["rows"]
    # Two layers of q 64 x 64, k and v 32 x 64, o 64 x 64, three of 160 x 64, and a head of as many rows as tokens.
    info, vocabulary = report["results"][0]["runner"], bench.MODELS["tiny"].vocab_size
    matrices = 2 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 160 * 64) + vocabulary * 64
    norms = 5 * 64
    key_value_bytes = 2 * 2 * 2 * 16 * 2
    assert info["kv_bytes_per_token"] == key_value_bytes
    for row in (one, three):
        read = 2 * matrices + 4 * norms + row["context_tokens"] * key_value_bytes
        assert row["floor_ms"] == pytest.approx(read / report["copy_bandwidth_gb_per_s"] / 1e6)
        assert row["share_of_roofline"] == pytest.approx(row["floor_ms"] / row["step_ms"])
        assert row["tokens_per_s"] == pytest.approx(row["batch"] / row["step_ms"] * 1e3)
    assert three["context_tokens"] == 3 * one["context_tokens"]
    assert report["logit_difference_over_spread"] == 0.0


@pytest.mark.parametrize(("name", "parameters"), [("0.6B", 596_049_920), ("1.7B", 1_720_574_976)])
def test_its_models_have_the_shapes_of_qwen3(bench: ModuleType, name: str, parameters: int) -> None:
    """Numbers of elements in the published files of Qwen3-0.6B and Qwen3-1.7B, a tied head counted once."""
    config = bench.MODELS[name]
    counted = sum(bench.torch.Size(shape).numel() for _, shape in bench.tensor_shapes(config))
    assert counted == parameters
