"""Workload files and the replay command: what is written, and what is refused, with the place named."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.__main__ import main
from scheduler.workload import WorkloadError, parse_workload

ROOT = Path(__file__).resolve().parents[2]
GOOD = {
    "config": {"num_blocks": 8, "block_size": 4, "max_model_len": 64, "max_num_seqs": 4, "max_num_batched_tokens": 16},
    "requests": [
        {"id": "a", "arrival_step": 1, "prompt_len": 5, "output_len": 3},
        {"id": "b", "arrival_step": 3, "prompt_len": 2, "output_len": 1, "priority": 2},
    ],
}
ROW = {"id": "a", "arrival_step": 0, "prompt_len": 1, "output_len": 1}

BAD = {
    "": ["line 1 column 1"],
    '{"requests": [\n  {"id": "a",}\n]}': ["line 2 column"],
    "[]": ["the file holds []"],
    '{"requests": {}}': ["requests is {}", "a list"],
    '{"config": 5, "requests": []}': ["config is 5"],
    '{"requests": [7]}': ["requests[0] is 7"],
    json.dumps({"requests": [ROW, {**ROW, "id": ""}]}): ["requests[1].id is ''"],
    json.dumps({"requests": [ROW, ROW]}): ["requests[1].id is 'a'", "requests[0]"],
    json.dumps({"requests": [{**ROW, "prompt_len": 0}]}): ["requests[0].prompt_len is 0", "from 1"],
    json.dumps({"requests": [{**ROW, "output_len": "9"}]}): ["requests[0].output_len is '9'"],
    json.dumps({"requests": [{**ROW, "arrival_step": -1}]}): ["requests[0].arrival_step is -1"],
    json.dumps({"requests": [{**ROW, "priority": True}]}): ["requests[0].priority is True"],
    json.dumps({"requests": [{**ROW, "prompt_length": 4}]}): ["requests[0].prompt_length"],
    '{"requests": [{"id": "a", "id": "b"}]}': ["'id' is given twice"],
    '{"requests": [{"id": "a", "prompt_len": NaN, "output_len": 1}]}': ["requests[0].prompt_len is nan"],
    "[" * 100_000: ["workload:"],
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_bad_workload_is_refused_with_line_or_field(text: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(text)
    for word in BAD[text]:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 500


def test_mutated_files_are_read_or_refused_but_never_crash() -> None:
    rng = random.Random(9)
    good = json.dumps(GOOD)
    for _ in range(1_000):
        text = list(good)
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len(text))
            text[position] = rng.choice(("", '"', "{", "]", "-", "9", "null", "\x00", ",", "é"))
        try:
            workload = parse_workload("".join(text))
        except WorkloadError:
            continue
        assert all(request.prompt_len >= 1 and request.output_len >= 1 for request in workload.requests)


def run(tmp_path: Path, data: object, *flags: str) -> tuple[int, list[dict]]:
    path, out = tmp_path / "workload.json", tmp_path / "steps.jsonl"
    path.write_text(json.dumps(data), encoding="utf-8")
    code = main(["replay", str(path), "--out", str(out), *flags])
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return code, [json.loads(line) for line in lines]


def test_replay_writes_each_step_from_zero_also_those_without_work(tmp_path: Path) -> None:
    code, steps = run(tmp_path, GOOD)
    assert code == 0
    assert [step["num_scheduled_tokens"] for step in steps] == [{}, {"a": 5}, {"a": 1}, {"a": 1, "b": 2}]
    assert steps[1] == {
        "step": 1,
        "num_scheduled_tokens": {"a": 5},
        "new": ["a"],
        "resumed": [],
        "preempted": [],
        "running": ["a"],
        "waiting": [],
        "finished": [],
        "block_ids": {"a": [1, 2]},
        "used_blocks": 2,
        "computed": {"a": 5},
    }
    assert steps[3]["finished"] == ["a", "b"]
    assert steps[3]["running"] == ["a", "b"]


def test_a_flag_wins_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    assert run(tmp_path, GOOD)[1][1]["num_scheduled_tokens"] == {"a": 5}
    assert run(tmp_path, GOOD, "--set", "max_num_batched_tokens=2")[1][1]["num_scheduled_tokens"] == {"a": 2}
    assert run(tmp_path, GOOD, "--block-size", "1", "--num-blocks", "9")[1][1]["used_blocks"] == 5
    static = run(tmp_path, GOOD, "--policy", "static", "--set", "max_num_seqs=2")[1]
    assert [step["finished"] for step in static] == [[], [], [], ["a"], ["b"]]


def test_vllms_names_are_understood(tmp_path: Path) -> None:
    config = {**GOOD["config"], "max_num_seqs": 1, "policy": "priority", "watermark": 0.1}
    config |= {"scheduler_reserve_full_isl": False, "enable_chunked_prefill": True, "enable_prefix_caching": False}
    rows = [{**ROW, "id": "low", "priority": 5}, {**ROW, "id": "high", "priority": 1}]
    code, steps = run(tmp_path, {"config": config, "requests": rows})
    assert code == 0
    assert [step["new"] for step in steps] == [["high"], ["low"]]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--policy", "orca"], "policy is 'orca'"),
        (["--set", "max_num_seqs"], "expected field=value"),
        (["--set", "max_num_seqs=0"], "max_num_seqs is 0"),
        (["--set", "speed=9"], "'speed' is not a known field"),
        (["--set", "paused=true"], "'paused' is not a known field"),
        (["--set", "policy=lifo"], "policy is 'lifo'"),
        (["--num-blocks", "0"], "num_blocks is 0"),
        (["--max-model-len", "1"], "max_model_len is 1"),
    ],
)
def test_a_wrong_flag_is_refused_by_name(
    flags: list[str], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(tmp_path, GOOD, *flags)
    assert code == 2
    assert word in capsys.readouterr().err


def test_what_can_never_run_is_reported_and_the_rest_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**ROW, "id": "huge", "prompt_len": 40}, {**ROW, "id": "fine"}]
    code, steps = run(tmp_path, {**GOOD, "requests": rows})
    assert (code, len(steps)) == (0, 1)
    assert "huge rejected: prompt_token_ids has 40 tokens" in capsys.readouterr().err


def test_limits_that_strand_a_request_end_the_replay_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**ROW, "id": "cut", "prompt_len": 20}]
    code, _ = run(tmp_path, {**GOOD, "requests": rows}, "--set", "enable_chunked_prefill=false")
    message = capsys.readouterr().err
    assert code == 3
    assert "enable_chunked_prefill is False and max_num_batched_tokens is 16" in message
    assert "cut waits: token_budget" in message


def test_a_missing_file_and_an_unwritable_place_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "none.json"), "--out", str(tmp_path / "x")]) == 2
    assert "none.json" in capsys.readouterr().err
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    assert main(["replay", str(path), "--out", str(tmp_path / "no" / "x")]) == 2
    assert "no/x" in capsys.readouterr().err


def test_the_command_runs_without_any_third_party_package(tmp_path: Path) -> None:
    path, out = tmp_path / "workload.json", tmp_path / "steps.jsonl"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import runpy; "
               f"sys.argv[1:] = ['replay', {str(path)!r}, '--out', {str(out)!r}]; "
               "runpy.run_module('scheduler', run_name='__main__')"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(out.read_text(encoding="utf-8").splitlines()) == 4


def test_a_workload_with_prompts_is_read_by_their_length_and_a_wrong_length_is_named() -> None:
    row = {"id": "a", "prompt": [7, 8, 9], "output_len": 2}
    (request,) = parse_workload(json.dumps({"requests": [row]})).requests
    assert request.prompt_len == 3
    with pytest.raises(WorkloadError, match=r"requests\[0\].prompt_len is 4, but prompt has 3 tokens"):
        parse_workload(json.dumps({"requests": [{**row, "prompt_len": 4}]}))
    with pytest.raises(WorkloadError, match=r"requests\[0\].prompt is 'text', expected a list of token ids"):
        parse_workload(json.dumps({"requests": [{**row, "prompt": "text"}]}))
