"""``python -m model_runner bench``: counts that can be worked out by hand, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model_runner.__main__ import main
from scheduler import Request, SamplingParams
from tests.model_runner.driving import alone, toy_runner

OUTPUT_LENGTHS = (40, 3, 25, 5, 60, 4, 18, 6, 33, 2, 50, 8)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    rows = [{"id": f"r{i}", "prompt": [40 + i], "output_len": length} for i, length in enumerate(OUTPUT_LENGTHS)]
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"requests": rows}))
    return path


def bench(workload: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    out = workload.parent / "result.json"
    common = ["--model", "toy", "--dtype", "float32", "--device", "cpu", "--block-size", "8", "--num-blocks", "64"]
    code = main(["bench", *common, "--workload", str(workload), "--out", str(out), *flags])
    return code, json.loads(out.read_text()) if out.exists() else {}


@pytest.mark.parametrize(("policy", "steps"), [("static", 150), ("vllm-v1", 83)])
def test_f61_uneven_lengths_take_the_known_number_of_iterations(
    workload: Path, tmp_path: Path, policy: str, steps: int
) -> None:
    """Twelve requests on four slots: 150 iterations static (40 + 60 + 50), 83 continuous; the tokens are the same."""
    requests = [
        Request(f"r{i}", (40 + i,), SamplingParams(max_tokens=length, ignore_eos=True))
        for i, length in enumerate(OUTPUT_LENGTHS)
    ]
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps(alone(toy_runner(block_size=8), requests)))
    code, result = bench(workload, "--policy", policy, "--set", "max_num_seqs=4", "--golden", str(golden))
    assert result["steps"] == steps
    assert result["output_tokens"] == sum(OUTPUT_LENGTHS) == 254
    assert result["golden"] == {"compared": 12, "identical": 12, "different": []}
    assert code == 0
    # Every slot of every static iteration computes: what is no output token is padding.
    assert result["padding_tokens"] == (4 * 150 - 254 if policy == "static" else 0)


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_what_evictions_cost_is_told_by_mode(workload: Path, mode: str) -> None:
    """Twelve requests of up to eight blocks in a pool of ten: the rows of the report must agree with each other."""
    flags = ("--num-blocks", "10", "--set", "admission_rule=next_chunk", "--set", f"preemption_mode={mode}")
    code, result = bench(workload, *flags, "--set", "max_num_seqs=12", "--num-host-blocks", "100")
    other = {"recompute": "swap", "swap": "recompute"}[mode]
    assert code == 0
    assert result["preemptions"] == result["preemptions_by_mode"][mode] > 0
    assert result["preemptions_by_mode"][other] == result["resume_work_ms"][other] == 0
    assert result["resume_work_ms"][mode] > 0
    assert result["resume_delay_ms"]["max"] >= result["resume_delay_ms"]["min"] > 0
    # Two layers, keys and values, two heads of 16 numbers of four bytes, 8 tokens a block.
    assert result["swapped_out_bytes"] == result["swapped_out_blocks"] * 2 * 2 * 2 * 16 * 4 * 8
    assert result["swapped_in_bytes"] == result["swapped_out_bytes"]
    assert (result["recompute_tokens"] > 0) == (mode == "recompute")
    for figure in ("swapped_out_blocks", "swap_out_ms", "swap_in_ms"):
        assert (result[figure] > 0) == (mode == "swap")


def test_the_prefix_cache_is_told_in_tokens(workload: Path) -> None:
    """Six prompts of which five repeat the first one's 16 tokens, two whole blocks: the last token is computed."""
    rows = [{"id": f"r{i}", "prompt": list(range(40, 57)), "output_len": 2, "arrival_step": i} for i in range(6)]
    workload.write_text(json.dumps({"requests": rows}))
    assert bench(workload)[1]["prefix_cache_queries"] == 0
    result = bench(workload, "--set", "enable_prefix_caching=true")[1]
    assert (result["prefix_cache_queries"], result["prefix_cache_hits"]) == (6 * 17, 5 * 16)


def test_other_tokens_than_the_golden_ones_are_reported(workload: Path, tmp_path: Path) -> None:
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps({"r1": [1, 2, 3]}))
    code, result = bench(workload, "--golden", str(golden))
    assert (code, result["golden"]["different"]) == (1, ["r1"])


def test_shares_of_time_add_up_and_versions_are_there(workload: Path) -> None:
    code, result = bench(workload, "--profile")
    assert code == 0
    assert sum(result["share_of_time"].values()) == pytest.approx(1, abs=1e-3)
    assert 0 < result["share_of_step"]["matmul"] < 1
    assert result["machine"]["torch"]
    assert result["runner"]["is_toy"] is True


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "requests is empty"),
        ([{"id": "a", "prompt": [], "output_len": 3}], "'a': prompt must be a list of token ids below 258"),
        ([{"id": "a", "prompt": [258], "output_len": 3}], "prompt must be a list of token ids below 258"),
        ([{"id": "a", "prompt_len": 4, "output_len": 0}], "output_len is 0"),
        ("none", "expected a JSON object with a list of requests"),
    ],
)
def test_a_workload_that_cannot_be_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: object, message: str
) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"requests": rows}))
    assert bench(path)[0] == 2
    assert message in capsys.readouterr().err


def test_an_unknown_command_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fly"]) == 2
    assert "prepare" in capsys.readouterr().err


def test_an_output_folder_that_is_not_there_is_named_before_anything_is_measured(
    workload: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(options: Any) -> Any:
        raise AssertionError("measured in vain")

    monkeypatch.setattr("model_runner.bench._measure", measure)
    missing = tmp_path / "nowhere"
    assert main(["bench", "--model", "toy", "--workload", str(workload), "--out", str(missing / "x.json")]) == 2
    assert f"the folder {missing} does not exist" in capsys.readouterr().err
