"""The bench JSON: vLLM's fields, and figures that are those of the run's rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.exports import ExportError, bench_result
from tests.experiments.exports.made_runs import preempted_run, static_run, stopped_run

REAL = json.loads((Path(__file__).parents[2] / "model_runner" / "vllm_serve_result.json").read_text(encoding="utf-8"))
"""Written by vLLM's own tool."""
OURS = {"kind", "trace", "trace_sha256", "repeat", "measured_where"}


def test_the_fields_are_those_of_a_file_that_vllm_wrote_and_ours_beside_them() -> None:
    found = bench_result(preempted_run(), percentiles=(50, 99))
    assert found.keys() - OURS == REAL.keys() - {"generated_texts"}
    json.dumps(found, allow_nan=False)


def test_figures_are_those_worked_out_from_the_rows_with_numpy() -> None:
    run = preempted_run()
    found = bench_result(run)
    done = [row for row in run.requests if row.outcome == "finished"]
    assert (found["num_prompts"], found["completed"], found["failed"]) == (15, 14, 1)
    assert found["total_output_tokens"] == sum(row.num_output_tokens for row in done) == run.totals.output_tokens
    assert found["total_input_tokens"] == sum(row.prompt_len for row in done)
    assert found["duration"] == run.wall_s
    assert found["output_throughput"] == pytest.approx(run.totals.output_tokens / run.wall_s)
    ttft = [row.token_times_s[0] - row.due_s for row in done]
    gaps = np.concatenate([np.diff(row.token_times_s) for row in done])
    tpot = [
        (row.token_times_s[-1] - row.token_times_s[0]) / (len(row.token_times_s) - 1)
        for row in done
        if len(row.token_times_s) > 1
    ]
    for name, values in {"ttft": ttft, "itl": gaps, "tpot": tpot}.items():
        assert found[f"p99_{name}_ms"] == pytest.approx(np.percentile(values, 99) * 1000)
        assert found[f"mean_{name}_ms"] == pytest.approx(np.mean(values) * 1000)
    assert found["queue_times"] == pytest.approx([*(row.first_scheduled_s - row.due_s for row in done), 0.0])


def test_the_rate_and_burstiness_are_those_the_trace_was_made_with_and_the_date_is_the_runs() -> None:
    found = bench_result(preempted_run())
    assert (found["request_rate"], found["burstiness"], found["date"]) == (0.9, 0.5, "20260102-030405")
    assert bench_result(static_run())["request_rate"] == "inf", "all at once"


def test_what_was_rejected_or_did_not_finish_is_failed_with_its_reason_and_gives_no_tokens() -> None:
    run = stopped_run()
    found = bench_result(run)
    done = [row for row in run.requests if row.outcome == "finished"]
    assert found["completed"] == len(done)
    assert found["failed"] == len(run.requests) - len(done) > 0
    assert found["total_output_tokens"] == sum(row.num_output_tokens for row in done)
    assert any(error.startswith("unfinished") for error in found["errors"])
    assert bench_result(preempted_run())["errors"][-1].startswith("rejected: ")


def test_a_simulated_run_cannot_be_taken_for_a_measured_one() -> None:
    run = preempted_run()
    assert bench_result(run)["backend"] == "batchscope (simulated)"
    measured = replace(run, conditions=replace(run.conditions, kind="measured"))
    assert bench_result(measured)["backend"] == "batchscope"


def test_a_run_that_lasted_no_time_has_no_rates() -> None:
    with pytest.raises(ExportError, match="wall_s is 0"):
        bench_result(replace(preempted_run(), wall_s=0.0))
