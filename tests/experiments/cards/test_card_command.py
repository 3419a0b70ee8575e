"""``python -m experiments card FOLDER``: the card of what a folder holds, finished or not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from experiments.cards import command, from_folder
from experiments.cards.encode import from_json
from experiments.cards.from_folder import card_of
from experiments.record import Run
from experiments.runs.arms import order_of_runs
from experiments.runs.folder import ExperimentFolder, Manifest
from experiments.runs.spec import parse_spec
from tests.experiments.cards.hand import baseline, candidate

SPEC = """
kind = "ab"
name = "By | hand"
[trace.generate]
num_requests = 120
arrivals = "steady:rate=2"
prompt = "fixed:length=20"
output = "fixed:length=20"
[a]
label = "static"
[b]
label = "continuous"
[slo]
ttft_s = 1.0
tpot_s = 0.1
[claim]
tuned = false
tuning = "defaults"
headline = "ttft_p50_s"
"""


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """For speed; the number of draws is not what these tests are about."""
    monkeypatch.setattr(from_folder, "build_card", partial(from_folder.build_card, resamples=20))


def filled(path: Path, runs: Sequence[Run], spec: str = SPEC) -> Path:
    """A folder as ``python -m experiments run`` leaves it after these runs."""
    labels = ["single"] if 'kind = "single"' in spec else ["static", "continuous"]
    planned = order_of_runs(labels, 2)
    folder = ExperimentFolder(path)
    folder.runs_folder.mkdir(parents=True)
    folder.write("experiment.json", Manifest(parse_spec(spec), "f" * 64, planned))
    for run in runs:
        folder.save(next(p for p in planned if (p.label, p.repeat) == (run.label, run.repeat)), run)
    return path


def called(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.main(parser.parse_args(arguments))


def test_a_whole_folder_gives_a_headline(tmp_path, capsys):
    folder = filled(tmp_path / "whole", [*baseline(), *candidate()])
    assert called(str(folder)) == 0
    text = capsys.readouterr().out
    assert text.startswith("# By \\| hand\n\n**ttft_p50_s -64.6 %")
    assert "no: defaults" in text


def test_a_card_of_a_folder_is_written_in_korean_and_as_json(tmp_path, capsys):
    folder = filled(tmp_path / "whole", [*baseline(), *candidate()])
    out = tmp_path / "card"
    assert called(str(folder), "--language", "ko", "--out", str(out)) == 0
    assert "## 이 결과로 주장할 수 없는 것" in out.read_text(encoding="utf-8")
    assert called(str(folder), "--format", "json", "--out", str(out)) == 0
    assert from_json(out.read_bytes()) == card_of(folder)
    assert capsys.readouterr().out == ""


def test_a_folder_that_broke_off_says_what_is_missing_and_ends_with_1(tmp_path, capsys):
    folder = filled(tmp_path / "part", [*baseline(), candidate()[0]])
    assert called(str(folder)) == 1
    told = capsys.readouterr()
    assert "no headline: Repeats: 3 of 4 planned runs are there" in told.err
    assert "**No headline number. It needs:**" in told.out


def test_a_folder_without_any_run_still_says_what_it_lacks(tmp_path, capsys):
    assert called(str(filled(tmp_path / "none", []))) == 1
    assert "there is no run of static, continuous" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["no folder at all", "one arm"])
def test_what_compares_nothing_is_refused(tmp_path, capsys, text):
    folder = tmp_path / "nothing"
    if text == "one arm":
        spec = SPEC.replace('"ab"', '"single"').replace('[a]\nlabel = "static"\n[b]\nlabel = "continuous"\n', "")
        filled(folder, [], spec)
    assert called(str(folder)) == 2
    assert ("experiment.json" if text == "no folder at all" else "expected 'ab'") in capsys.readouterr().err


def test_a_card_that_cannot_be_written_names_the_option_and_the_path_that_was_given(tmp_path, capsys):
    folder = filled(tmp_path / "whole", [*baseline(), *candidate()])
    assert called(str(folder), "--out", str(tmp_path / "nowhere" / "card.md")) == 2
    assert f"--out {tmp_path / 'nowhere' / 'card.md'}: No such file or directory" in capsys.readouterr().err
