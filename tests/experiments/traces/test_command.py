"""``python -m experiments trace``: files in, files out, and a reason where nothing can be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.traces import read_trace
from tests.experiments.traces.files import DATA

MAKE = ["trace", "make", "--num-requests", "20", "--seed", "4"]


def run(*arguments: object) -> int:
    return main([str(one) for one in arguments])


def test_a_made_trace_is_written_and_the_same_command_writes_the_same_bytes(tmp_path: Path, capsys) -> None:
    flags = [
        "--arrivals",
        "gamma:rate=2,burstiness=0.5",
        "--prompt",
        "lognormal:median=90,sigma=1",
        "--output",
        "fixed:tokens=9",
    ]
    for name in ("one", "two"):
        assert run(*MAKE, *flags, "--out", tmp_path / name) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    said = capsys.readouterr().out
    for part in ("20 requests", "gamma:rate=2.0,burstiness=0.5", "seed: 4", "truncated: 0", "dropped: 0", "rescaled"):
        assert part in said


def test_a_style_says_what_it_was_fitted_to(capsys) -> None:
    assert run(*MAKE, "--style", "azure-code", "--rate", 1) == 0
    said = capsys.readouterr().out
    for part in ("fitted_arrivals", "mu 7.00, sigma 1.36", "not the trace itself", "1 a second instead of 2.57"):
        assert part in said


def test_a_published_trace_is_read_scaled_and_written(tmp_path: Path, capsys) -> None:
    out = tmp_path / "scaled.json"
    flags = ["--max-model-len", 512, "--fit", 0.8, "--tokens-per-s", 1000, "--load", 0.5, "--max-requests", 5]
    assert run("trace", "scale", DATA / "azure_2023_code.csv", *flags, "--out", out) == 0
    trace = read_trace(out)
    assert len(trace.requests) == 5
    assert max(r.prompt_len + r.output_len for r in trace.requests) <= 512
    assert trace.origin.truncated == 1, "of five one may not fit"
    assert trace.origin.dropped == 2
    work = sum(r.prompt_len + r.output_len for r in trace.requests)
    assert work / trace.requests[-1].arrival_s == pytest.approx(500, rel=1e-6)
    assert "scale.time_factor" in capsys.readouterr().out


def test_texts_are_counted_with_the_models_tokenizer(capsys) -> None:
    assert run("trace", "read", DATA / "sharegpt.json", "--model", "toy") == 0
    said = capsys.readouterr().out
    assert "2 requests" in said
    assert f"max {len('What is KV?')}" in said, "the toy has a token a byte"


def test_lengths_without_arrivals_get_some(tmp_path: Path) -> None:
    out = tmp_path / "timed.json"
    assert run("trace", "scale", DATA / "vidur_lengths.csv", "--arrivals", "steady:rate=2", "--out", out) == 0
    assert [r.arrival_s for r in read_trace(out).requests] == [0.5, 1.0]


BAD = [
    (["trace", "read", DATA / "nothing.csv"], "no such file"),
    (["trace", "read", DATA / "README.md"], "none of"),
    (["trace", "read", DATA / "steps.json"], "seconds_per_step"),
    (["trace", "read", DATA / "sharegpt.json"], "--model"),
    (["trace", "read", DATA / "sharegpt.json", "--model", "no/such/folder"], "no/such/folder"),
    (["trace", "read", DATA / "vidur.csv", "--limit", 0], "limit"),
    (["trace", "scale", DATA / "vidur.csv", "--time-factor", -1], "time_factor"),
    (["trace", "scale", DATA / "vidur.csv", "--fit", 0.5], "--fit: needs --max-model-len"),
    (["trace", "scale", DATA / "vidur.csv", "--load", 0.5], "--load: needs --tokens-per-s"),
    (["trace", "scale", DATA / "vidur.csv", "--too-long", "drop"], "--too-long: needs --max-model-len"),
    (["trace", "scale", DATA / "vidur.csv", "--seed", 3], "--seed: needs --arrivals"),
    (["trace", "scale", DATA / "vidur.csv", "--tokens-per-s", 0], "--tokens-per-s: is 0, expected above 0"),
    ([*MAKE, "--arrivals", "burst"], "--prompt"),
    ([*MAKE, "--style", "azure-conv", "--prompt", "fixed:tokens=1"], "--style"),
    ([*MAKE, "--arrivals", "burst", "--prompt", "fixed:tokens=1", "--output", "fixed:tokens=x"], "--output"),
]


@pytest.mark.parametrize(("arguments", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_bad_input_gives_the_reason_and_leaves_what_was_there(
    arguments: list, reason: str, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "out.json"
    out.write_text("before")
    assert run(*arguments, "--out", out) == 2
    assert reason in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.json", "before")]


def test_an_output_that_cannot_be_written_is_told(tmp_path: Path, capsys) -> None:
    assert run("trace", "read", DATA / "vidur.csv", "--out", tmp_path / "no" / "folder.json") == 2
    assert "folder.json" in capsys.readouterr().err
