"""The result file against the fields vLLM's own tool writes, and figures worked out by hand."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import pytest

from model_runner.__main__ import main
from model_runner.bench_result import RequestTimes, detailed, serve_result

VLLM_FIELDS = [
    "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id",
    "num_prompts", "request_rate", "burstiness", "max_concurrency", "duration", "completed",
    "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
    "output_throughput", "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests", "rtfx",
    *(f"{part}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for part in ("mean", "median", "std", "p99")),
]  # fmt: skip
"""Of a file written by vLLM 0.32's ``vllm bench serve --save-result --percentile-metrics ttft,tpot,itl,e2el``."""

REAL = json.loads((Path(__file__).parent / "vllm_serve_result.json").read_text(encoding="utf-8"))
"""Written by vLLM 0.32's own tool, which sent 16 prompts of 64 tokens to ``python -m model_runner serve``:
``--backend openai --dataset-name random --ignore-eos --save-result --save-detailed --metric-percentiles 50,99``. Its
generated texts are taken out."""

TIMES = {
    "a": RequestTimes(10, 0.0, [0.5, 0.6, 0.8]),
    "b": RequestTimes(20, 0.0, [1.0]),
    "c": RequestTimes(30, 1.0, [1.5, 2.5]),
    "none": RequestTimes(5, 0.0),
}


def result(**more) -> dict:
    values = {"model": "m", "label": "vllm-v1", "rejected": {"d": "too long"}, "duration_s": 2.5, "all_at_once": True}
    return serve_result(TIMES, **values | more)


def test_the_fields_are_vllms_in_its_order() -> None:
    assert list(result()) == VLLM_FIELDS
    json.dumps(result())


def real_times() -> dict[str, RequestTimes]:
    """The requests of the real file, each token at the moment its client saw it."""
    rows = zip(REAL["input_lens"], REAL["start_times"], REAL["ttfts"], REAL["itls"], strict=True)
    times = {}
    for index, (num_prompt, began, ttft, gaps) in enumerate(rows):
        start = began - REAL["start_times"][0]
        times[str(index)] = RequestTimes(num_prompt, start, [start + at for at in accumulate([ttft, *gaps])])
    return times


def test_from_the_times_of_a_real_file_come_the_figures_of_that_file() -> None:
    found = serve_result(
        real_times(), model="smollm2", label="x", rejected={}, duration_s=REAL["duration"], all_at_once=True,
        percentiles=(50, 99),
    )  # fmt: skip
    lists = [name for name, value in REAL.items() if isinstance(value, list)]
    assert sorted([*found, *lists]) == sorted(REAL)
    for name, value in found.items():
        if name not in ("date", "endpoint_type", "backend", "label"):
            expected = REAL[name] if not isinstance(REAL[name], float) else pytest.approx(REAL[name], rel=1e-6)
            assert value == expected, name
            assert type(value) is type(REAL[name]), name
    assert len(found["date"]) == len(REAL["date"])


def test_details_are_those_of_a_real_file_but_for_the_texts() -> None:
    found = detailed(real_times(), {})
    assert found.keys() | {"generated_texts"} == {name for name, value in REAL.items() if isinstance(value, list)}
    for name in ("input_lens", "output_lens", "ttfts", "latencies", "errors"):
        expected = REAL[name] if name == "errors" else pytest.approx(REAL[name], rel=1e-6)
        assert found[name] == expected, name
    for ours, theirs in zip(found["itls"], REAL["itls"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_figures_are_those_worked_out_by_hand() -> None:
    found = result(percentiles=(50, 90.5))
    assert (found["completed"], found["failed"], found["num_prompts"]) == (3, 2, 5)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (60, 6)
    assert found["request_throughput"] == pytest.approx(1.2)
    assert found["output_throughput"] == pytest.approx(2.4)
    assert found["total_token_throughput"] == pytest.approx(26.4)
    assert found["mean_ttft_ms"] == pytest.approx((500 + 1000 + 500) / 3)
    assert found["median_ttft_ms"] == found["p50_ttft_ms"] == pytest.approx(500)
    assert found["p90.5_ttft_ms"] == pytest.approx(500 + 500 * (0.905 * 2 - 1))
    assert found["mean_tpot_ms"] == pytest.approx((150 + 1000) / 2), "a request of one token has no time per token"
    assert found["mean_itl_ms"] == pytest.approx((100 + 200 + 1000) / 3)
    assert found["std_e2el_ms"] == pytest.approx(294.392, abs=1e-3)  # of 800, 1000 and 1500
    # Seconds 0, 1 and 2 hold 3, 2 and 1 tokens; a and b are under way in the first, b (its end) and c in the second.
    assert (found["max_output_tokens_per_s"], found["max_concurrent_requests"]) == (3.0, 2)


def test_details_have_one_entry_a_request() -> None:
    found = detailed(TIMES, {"d": "too long"})
    assert {len(values) for values in found.values()} == {5}
    assert found["errors"] == ["", "", "", "", "too long"]
    assert found["itls"][0] == pytest.approx([0.1, 0.2])


def test_nothing_measured_gives_zeros() -> None:
    found = serve_result({}, model="m", label="", rejected={}, duration_s=1.0, all_at_once=False)
    assert (found["mean_ttft_ms"], found["max_concurrent_requests"], found["request_rate"]) == (0, 0, None)


def test_a_run_writes_what_vllm_writes_and_more(tmp_path: Path) -> None:
    rows = [{"id": f"r{i}", "prompt": [40 + i] * 5, "output_len": 4 + i, "arrival_step": i} for i in range(4)]
    workload, out = tmp_path / "workload.json", tmp_path / "out.json"
    workload.write_text(json.dumps({"requests": rows}))
    flags = ["--model", "toy", "--dtype", "float32", "--workload", str(workload), "--out", str(out)]
    assert main(["bench", *flags, "--save-detailed", "--metric-percentiles", "50,99"]) == 0
    found = json.loads(out.read_text())
    assert set(VLLM_FIELDS) <= found.keys()
    assert found["output_lens"] == [4, 5, 6, 7]
    assert (found["completed"], found["total_input_tokens"], found["total_output_tokens"]) == (4, 20, 22)
    assert found["duration"] >= max(found["latencies"])
    assert found["start_times"] == sorted(found["start_times"])
    assert all(len(gaps) == length - 1 for gaps, length in zip(found["itls"], found["output_lens"], strict=True))


@pytest.mark.parametrize("text", ["", "high", "101", "50,-1"])
def test_a_wrong_percentile_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--workload", "w", "--out", "o", "--metric-percentiles", text])
    assert "from 0 to 100" in capsys.readouterr().err
