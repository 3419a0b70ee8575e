"""The workload of a run, files in a folder, and ``python -m experiments export``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.exports import FORMATS, ExportError, export, workload_of
from experiments.record import encode_run
from experiments.trace import Trace, TraceOrigin, TraceRequest
from experiments.traces import read_trace
from tests.experiments.exports.made_runs import CONTINUOUS, RUNS, TIGHT, preempted_run, static_run, stopped_run
from tests.experiments.runs.fakes import virtual_run


@pytest.mark.parametrize("name", RUNS)
def test_the_workload_of_a_run_is_the_trace_it_was_made_of(name: str, tmp_path: Path) -> None:
    run = RUNS[name]()
    (path,) = export(run, tmp_path, ["workload"])
    trace = read_trace(path)
    assert trace.sha256 == run.trace_sha256
    assert (trace.name, trace.origin) == (run.trace_name, run.trace_origin)
    again, _ = virtual_run(trace, run.policy, TIGHT)
    if not run.stopped:
        assert again.requests == run.requests, "running it again gives the same run"


def test_a_run_does_not_keep_token_ids_and_its_workload_says_so() -> None:
    trace = Trace("t", (TraceRequest("a", 0.0, 2, 1, 0, (5, 6)),), TraceOrigin("test", ""))
    run, _ = virtual_run(trace, CONTINUOUS, TIGHT)
    assert workload_of(run).sha256 != run.trace_sha256
    assert run.trace_sha256 in dict(workload_of(run).origin.parameters)["differs"]


def test_export_writes_every_format_and_no_name_leaves_the_folder(tmp_path: Path) -> None:
    written = export(stopped_run(), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in written)
    assert {path.parent for path in written} == {tmp_path / "out"}
    ends = {path.name.removeprefix("odd_.._label-0.") for path in written}
    tables = {
        f"{name}.{kind}"
        for name in ("requests", "tokens", "steps", "scheduled", "events")
        for kind in ("csv", "parquet")
    }
    assert ends == {"perfetto.json", "vllm-bench.json", "workload.json"} | tables


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'excel', expected some of perfetto, vllm-bench, csv, parquet, workload"):
        export(static_run(), tmp_path / "out", ["csv", "excel"])
    with pytest.raises(ExportError, match=r"'', expected some of perfetto"):
        export(static_run(), tmp_path / "out", [])
    assert not (tmp_path / "out").exists()


def folder_of_runs(folder: Path) -> Path:
    (folder / "runs").mkdir(parents=True)
    for index, run in enumerate((replace(preempted_run(), label="b"), static_run())):
        (folder / "runs" / f"{index:03}-{run.label}-{run.repeat}.json").write_bytes(encode_run(run))
    return folder


def test_the_command_exports_one_run_or_all_of_a_folder(tmp_path: Path, capsys) -> None:
    folder = folder_of_runs(tmp_path / "experiment")
    assert main(["export", str(folder), "--format", "csv,vllm-bench", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 * (5 + 1)
    assert all(Path(line).is_file() for line in said)
    one = sorted((folder / "runs").iterdir())[0]
    assert main(["export", str(one), "--format", "perfetto", "--out", str(tmp_path / "one")]) == 0
    assert json.loads((tmp_path / "one" / "b-0.perfetto.json").read_bytes())["otherData"]["label"] == "b"
    assert len(FORMATS) == 5


def test_the_command_says_what_it_cannot_read(tmp_path: Path, capsys) -> None:
    (tmp_path / "bad.json").write_text('{"label": 3}')
    for source, reason in ((tmp_path / "bad.json", "is no run"), (tmp_path / "nowhere", "no run there")):
        assert main(["export", str(source), "--out", str(tmp_path / "out")]) == 2
        assert reason in capsys.readouterr().err
    folder = folder_of_runs(tmp_path / "twice")
    (folder / "runs" / "copy.json").write_bytes(encode_run(static_run()))
    assert main(["export", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "one name" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
