"""A report says what the runs say, for each kind of experiment, also while runs are missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.analysis.metrics import measure
from experiments.runs.arms import arms_of, order_of_runs
from experiments.runs.folder import ExperimentFolder, Manifest
from experiments.runs.report import report_of
from experiments.runs.report_text import render
from experiments.runs.spec import parse_spec
from tests.experiments.runs.fakes import trace_of, virtual_run

GENERATE = '[trace]\nfile = "t"\n[model]\nmax_model_len = 64\n[slo]\nttft_s = 4.0\n'
SPECS = {
    "single": 'kind = "single"\n',
    "ab": 'kind = "ab"\n[a]\nlabel = "static"\npreset = "static"\nset.max_num_seqs = 3\n[b]\nlabel = "new"\n',
    "factorial": 'kind = "factorial"\n[policy]\nset.max_num_seqs = 3\nset.max_num_batched_tokens = 16\n',
    "chunk": 'kind = "chunk"\n[chunk]\nsizes = [8, 16, 32]\nlong_prompt_len = 20\n',
}
ROWS = [(0.4 * index, 24 if index % 4 == 0 else 4 + index % 5, 2 + index % 6) for index in range(16)]


def folder_of(path: Path, kind: str, *, leave_out: int = 0) -> list:
    """A folder as an experiment leaves it, its runs made on the virtual clock."""
    spec, trace, folder, runs = parse_spec(SPECS[kind] + GENERATE), trace_of(*ROWS), ExperimentFolder(path), []
    arms = {arm.label: arm for arm in arms_of(spec)}
    order = order_of_runs(tuple(arms), 2)
    with folder.working():
        folder.begin(Manifest(spec, trace.sha256, order))
        for planned in order[: len(order) - leave_out]:
            run, _ = virtual_run(trace, arms[planned.label].policy)
            runs.append(replace(run, label=planned.label, repeat=planned.repeat, position=planned.position))
            folder.save(planned, runs[-1])
    return runs


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, tuple[list, dict]]:
    """(runs, report) of each kind."""
    found = {}
    for kind in SPECS:
        path = tmp_path_factory.mktemp(kind)
        found[kind] = (folder_of(path, kind), report_of(path))
    return found


@pytest.mark.parametrize("kind", SPECS)
def test_a_report_has_the_metrics_of_every_run(kind: str, reports):
    runs, report = reports[kind]
    text = render(report)
    for run in runs:
        assert run.label in text
        found = report["arms"][run.label][run.repeat]["metrics"]
        assert found["ttft_p50_s"]["value"] == measure(run)["ttft_p50_s"].value
    assert "ttft_p50_s" in text
    assert report["notes"] == [], "nothing to warn of"
    assert "queue_recent_p99_s" in render(report, everything=True)
    assert json.loads(json.dumps(report)) == report


def test_an_ab_report_names_what_changed_and_where_the_work_went(reports):
    runs, report = reports["ab"]
    text = render(report)
    assert "new against static" in text
    static = [run for run in runs if run.label == "static"]
    padding = sum(run.totals.padding_tokens for run in static) / len(static)
    line = next(line for line in text.splitlines() if line.startswith("tokens padding (waste)"))
    assert line.split()[-3:] == [f"{padding:.4g}", "0", "tokens"]


def test_a_factorial_report_shares_the_gain_out(reports):
    report = reports["factorial"][1]
    found = report["attribution"]["attributions"]["output_tokens_per_s"]
    assert sum(share["change"] for share in found["shares"]) == pytest.approx(found["gain"]["change"])
    assert "share of iteration" in render(report)
    # Every step of these runs takes one second, so no decision can have changed a gap between tokens.
    equal = report["attribution"]["attributions"]["itl_p99_s"]
    assert {part["verdict"] for part in (equal["gain"], *equal["shares"], *equal["effects"])} == {"unclear"}


def test_a_chunk_report_has_a_point_for_each_size(reports):
    report = reports["chunk"][1]
    assert [point["chunk_tokens"] for point in report["microscope"]["points"]] == [8, 16, 32]
    assert report["microscope"]["long_tokens"] == 20
    assert "knee: none, " in render(report)


def test_the_command_prints_text_or_json(tmp_path: Path, capsys):
    folder_of(tmp_path, "single")
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == render(report_of(tmp_path)) + "\n"
    assert main(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report_of(tmp_path)


def test_a_report_of_half_an_experiment_says_what_is_missing(tmp_path: Path, capsys):
    folder_of(tmp_path, "factorial", leave_out=13)
    assert main(["report", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "11 of 24 runs" in text
    assert "13 runs are missing" in text
    assert "no run of the arms 1111" in text


def test_a_folder_without_results_is_answered_with_the_command_that_makes_them(tmp_path: Path, capsys):
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "python -m experiments run" in capsys.readouterr().err


def test_a_name_from_a_spec_moves_no_cursor_and_turns_no_text_of_a_terminal(tmp_path: Path):
    folder_of(tmp_path, "single")
    report = report_of(tmp_path) | {"name": "a\x1b[2Jb\u202ec\nd"}
    assert render(report).startswith("a[U+001B][2Jb[U+202E]c d: 2 of 2 runs\n")
