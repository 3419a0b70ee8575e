"""The command ``whatif`` and sweeps: same figures however they are computed, and inputs refused by name."""

from __future__ import annotations

import argparse
import importlib
import json

import pytest

from experiments.record import encode_run
from experiments.runs.driver import PoolShape
from experiments.trace import Trace
from experiments.traces.generators import generate, in_style_of
from experiments.traces.own_format import write_trace
from experiments.virtual.command import add_arguments, main
from experiments.virtual.cost import FittedCost
from experiments.virtual.fleet import FleetSpec, run_fleet
from experiments.virtual.simulate import simulate
from experiments.virtual.sweep import SweepError, run_all, run_in_parts, sweep
from scheduler import SchedulerPolicy
from tests.experiments.virtual.workloads import poisson_trace

COST = FittedCost((0.01, 0.001, 0.0, 0.0, 0.0, 0.0005, 1e-5, 0.002, 0.0, 0.0), "prices of a test")
POOL = PoolShape(60, 8, 512)


def whatif(capsys, *arguments: str) -> tuple[int, str, str]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    code = main(parser.parse_args([str(each) for each in arguments]))
    out, err = capsys.readouterr()
    return code, out, err


def figures(tally):
    return tally.finished, tally.steps, tally.output_tokens, tally.last_end_s, tally.spreads()["ttft_s"].p99


def test_arms_over_policies_and_seeds_are_each_simulated_and_written(capsys, tmp_path):
    path = tmp_path / "out.json"
    code, out, err = whatif(
        capsys, "--num-requests", "40", "--rate", "5", "--policy", "vllm-v1", "sarathi", "--seeds", "1", "2",
        "--out", path,
    )  # fmt: skip
    assert (code, err) == (0, "")
    report = json.loads(path.read_text())
    assert [(arm["policy"], arm["seed"]) for arm in report["arms"]] == [
        ("vllm-v1", 1), ("vllm-v1", 2), ("sarathi", 1), ("sarathi", 2)
    ]  # fmt: skip
    assert all(arm["finished"] + arm["rejected"] == 40 for arm in report["arms"])
    assert "entered, not measured" in out
    assert "NVIDIA H100" in out
    asked = generate(in_style_of("azure-conv", 40, 1, 5.0))
    tokens = sum(request.output_len for request in asked.requests)
    assert report["arms"][0]["output_tokens"] == report["arms"][2]["output_tokens"] == tokens


def test_a_trace_file_and_machines_entered_by_hand(capsys, tmp_path):
    trace = poisson_trace(3, 20, 5.0)
    write_trace(trace, tmp_path / "trace.json")
    code, out, _ = whatif(
        capsys, "--trace", tmp_path / "trace.json", "--gpu", "1000,100,24", "--model", "1.5,24,16,4,64",
        "--replicas", "2", "--routing", "least_outstanding",
    )  # fmt: skip
    assert code == 0
    assert "20 of 20 requests finished" in out
    assert "1,000 GB/s x 0.75, 100 TFLOPS" in out


def test_step_times_fitted_to_a_measured_run_and_its_pool(capsys, tmp_path):
    run = simulate(SchedulerPolicy(), poisson_trace(3, 60, 5.0), COST, POOL)
    path = tmp_path / "run.json"
    path.write_bytes(encode_run(run))
    code, _, err = whatif(capsys, "--fitted", path, "--num-requests", "5")
    assert code == 2
    assert "kind is 'simulated', expected a measured run" in err
    path.write_bytes(encode_run(run).replace(b'"kind":"simulated"', b'"kind":"measured"', 1))
    code, out, _ = whatif(
        capsys, "--fitted", path, "--num-requests", "30", "--arrivals", "gamma:rate=5,burstiness=1",
        "--prompt", "uniform:low=1,high=60", "--output", "fixed:tokens=10",
    )  # fmt: skip
    assert code == 0
    assert "held-out error over" in out
    assert "60 blocks of 8 tokens" in out
    path.write_bytes(b"{}")
    assert "not a run of this project" in whatif(capsys, "--fitted", path)[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu", "fast"], "--gpu is 'fast', expected one of A10"),
        (["--model", "7,32"], "--model is '7,32', expected one of"),
        (["--seeds", "0", "0"], "--seeds are 0 0, expected each once"),
        (["--policy", "static", "static"], "--policy is static static, expected each preset once"),
        (["--policy", "best"], "policy is 'best'"),
        (["--set", "max_num_seqs=0"], "max_num_seqs is 0"),
        (["--replicas", "0"], "--replicas is 0, expected a whole number from 1"),
        (["--replicas", "100000000"], "to 10,000"),
        (["--block-size", "0"], "--block-size is 0, expected a whole number from 1"),
        (["--num-blocks", "0"], "--num-blocks is 0, expected a whole number from 1"),
        (["--max-model-len", "1"], "--max-model-len is 1, expected a whole number from 2"),
        (["--jobs", "0"], "--jobs is 0, expected at least 1"),
        (["--trace", "x.json", "--rate", "3"], "--trace has its own arrivals"),
        (["--prompt", "fixed:tokens=5"], "belong together"),
        (["--rate", "-1"], "rate"),
        (["--trace", "/nowhere/at/all.json"], "/nowhere/at/all.json"),
        (["--set", "enable_prefix_caching=true"], "enable_prefix_caching is True"),
        (["--gpu", "L4", "--model", "Llama-3.1-70B"], "choose more GPUs"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_runs(capsys, arguments, words):
    code, out, err = whatif(capsys, "--num-requests", "5", *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_processes_give_the_figures_of_one_process():
    spec = FleetSpec(SchedulerPolicy(max_num_seqs=4), POOL, COST, num_replicas=2)
    source = poisson_trace(5, 40, 8.0)
    assert figures(run_in_parts(spec, source, jobs=2)) == figures(run_fleet(spec, source.requests))


def test_a_sweep_gives_its_results_in_the_order_of_the_arms():
    spec = FleetSpec(SchedulerPolicy(max_num_seqs=4), POOL, COST)
    sources: list[Trace] = [poisson_trace(seed, 10 * seed, 8.0) for seed in (3, 1, 2)]
    assert [tally.finished for tally in sweep([(spec, source) for source in sources])] == [30, 10, 20]


def test_ray_is_asked_for_by_its_install_command_where_it_is_missing(monkeypatch):
    real = importlib.import_module

    def without_ray(name, *more):
        if name.partition(".")[0] == "ray":
            raise ImportError("No module named 'ray'")
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", without_ray)
    with pytest.raises(SweepError, match=r"pip install 'ray\[default\]'"):
        run_all([(len, ((),)), (len, ((1,),))], backend="ray")
    with pytest.raises(SweepError, match="backend is 'threads', expected one of joblib, ray"):
        run_all([], backend="threads")


def test_no_latency_is_printed_where_no_request_was_served(capsys):
    code, out, _ = whatif(capsys, "--num-requests", "5", "--num-blocks", "1")
    assert code == 0
    assert "5 rejected" in out
    assert "ttft_s   of no request" in out
    assert "p50" not in out
