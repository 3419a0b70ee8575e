"""Experiments with a real (toy) model: same requests in every arm, results that survive, one folder one experiment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from experiments.__main__ import COMMANDS, main
from experiments.record import Run
from experiments.runs import measured
from experiments.runs.arms import order_of_runs
from experiments.runs.folder import Brief, ExperimentFolder, load_manifest, load_runs
from experiments.runs.measured import CancelledError, StopWish, run_experiment
from experiments.runs.progress import ask_to_cancel, read_progress, seconds_left
from experiments.runs.spec import Spec, SpecError, parse_spec
from experiments.runs.workload import trace_of
from experiments.traces import read_trace
from model_runner.runner import ModelRunner
from scheduler import ScheduleStep, StepResult

ROOT = Path(__file__).resolve().parents[3]

TEXT = """
kind = "ab"
name = "two policies"
repeats = 2
seed = 3
[model]
model = "toy"
device = "cpu"
dtype = "float32"
threads = 1
block_size = 4
num_blocks = 64
max_model_len = 64
[trace.generate]
num_requests = 8
seed = 5
arrivals = "burst:size=2,every_s=0.03"
prompt = "uniform:low=2,high=20"
output = "uniform:low=1,high=9"
[a]
label = "static"
preset = "static"
set.max_num_seqs = 3
[b]
label = "continuous"
set.max_num_seqs = 3
"""


def begun(folder: Path, text: str = TEXT, say=lambda line: None, stop: StopWish | None = None) -> tuple[Run, ...]:
    spec = parse_spec(text)
    run_experiment(spec, trace_of(spec, ROOT), ExperimentFolder(folder), stop or StopWish(folder), say=say)
    return load_runs(folder)


@dataclass
class Fed:
    """Tokens fed to the model, by request and position, of each run in turn."""

    runs: list[dict[str, dict[int, int]]] = field(default_factory=list)
    steps: list[ScheduleStep] = field(default_factory=list)

    def note(self, step: ScheduleStep, result: StepResult) -> None:
        if step.step_id == 1:
            self.runs.append({})
        for name, tokens in step.token_ids.items():
            places = self.runs[-1].setdefault(name, {})
            places.update(enumerate(tokens, start=step.positions_start[name]))


@pytest.fixture(scope="module")
def ab(tmp_path_factory) -> tuple[Path, tuple[Run, ...], Fed]:
    folder, fed, execute = tmp_path_factory.mktemp("ab"), Fed(), ModelRunner.execute

    def noted(self, step):
        result = execute(self, step)
        if step.step_id > 0:
            fed.note(step, result)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelRunner, "execute", noted)
        runs = begun(folder)
    return folder, runs, fed


def test_an_ab_makes_its_runs_in_abba_order_under_the_policies_of_its_arms(ab):
    _, runs, _ = ab
    assert [(run.label, run.repeat, run.position) for run in runs] == [
        ("static", 0, 0),
        ("continuous", 0, 1),
        ("continuous", 1, 2),
        ("static", 1, 3),
    ]
    assert [run.policy.batching for run in runs] == ["static", "continuous", "continuous", "static"]


def test_static_and_continuous_see_the_same_requests_and_the_model_is_fed_the_same_tokens(ab):
    _, runs, fed = ab
    asked = [[(row.request_id, row.due_s, row.prompt_len, row.output_len) for row in run.requests] for run in runs]
    assert len({run.trace_sha256 for run in runs}) == 1
    assert all(rows == asked[0] for rows in asked)
    measured_runs = [tokens for tokens in fed.runs if not any(name.startswith("warm-up") for name in tokens)]
    warm_ups = [tokens for tokens in fed.runs if any(name.startswith("warm-up") for name in tokens)]
    assert len(measured_runs) == len(warm_ups) == 4
    assert all(tokens == measured_runs[0] for tokens in measured_runs)
    assert all(tokens == warm_ups[0] for tokens in warm_ups)
    for row in runs[0].requests:
        assert len(measured_runs[0][row.request_id]) == row.prompt_len + row.output_len - 1


def test_the_driver_keeps_to_the_wall_clock(ab):
    _, runs, _ = ab
    for run in runs:
        assert all(row.outcome == "finished" for row in run.requests)
        assert all(row.first_scheduled_s >= row.due_s for row in run.requests)
        assert run.wall_s >= run.requests[-1].due_s
        spent = [step.schedule_s + step.build_s + step.execute_s + step.sample_s + step.update_s for step in run.steps]
        assert all(0 < part <= step.end_s - step.start_s for part, step in zip(spent, run.steps, strict=True))


def test_conditions_are_complete(ab):
    _, runs, _ = ab
    for run in runs:
        conditions = run.conditions
        assert conditions.kind == "measured"
        assert (conditions.model, conditions.dtype, conditions.device, conditions.threads) == (
            "toy",
            "float32",
            "cpu",
            1,
        )
        assert (conditions.num_blocks, conditions.block_size, conditions.max_model_len) == (64, 4, 64)
        assert len(conditions.model_sha256) == 64
        assert 0 < conditions.overhead_share < 1
        assert set(conditions.versions) == {"batchscope", "python", "torch", "numpy"}
        assert {"processor", "cores", "system", "load"} <= set(conditions.machine)
        assert "3 requests" in conditions.warm_up
        assert run.began_at


def test_rerunning_a_finished_experiment_makes_no_run_and_loads_no_model(ab, monkeypatch):
    folder, runs, _ = ab
    monkeypatch.setattr(ModelRunner, "load", lambda *_: pytest.fail("nothing is to be run"))
    assert begun(folder) == runs
    assert read_progress(folder).state == "done"
    assert read_trace(folder / "trace.json").sha256 == runs[0].trace_sha256


def test_a_spec_that_changed_since_is_refused_naming_the_field(ab):
    folder, runs, _ = ab
    with pytest.raises(SpecError, match="repeats was 2, is 3"):
        begun(folder, TEXT.replace("repeats = 2", "repeats = 3"))
    with pytest.raises(SpecError, match=r"b\.set\.max_num_seqs was 3, is 4"):
        begun(folder, TEXT[::-1].replace("3 = sqes_mun_xam", "4 = sqes_mun_xam", 1)[::-1])
    spec = parse_spec(TEXT)
    other = msgspec.structs.replace(spec, seed=4)
    with pytest.raises(SpecError, match="seed was 3, is 4"):
        run_experiment(other, trace_of(other, ROOT), ExperimentFolder(folder), StopWish(folder))
    assert load_runs(folder) == runs


def test_same_spec_and_seed_give_the_same_schedule_where_arrivals_are_determined_by_steps(tmp_path: Path):
    text = TEXT.replace("burst:size=2,every_s=0.03", "burst:size=0").replace("num_blocks = 64", "num_blocks = 16")
    runs = begun(tmp_path, text)
    for first, second in ((0, 3), (1, 2)):
        one, other = (msgspec.json.encode([step.scheduled for step in runs[place].steps]) for place in (first, second))
        assert one == other, runs[first].label


def test_the_time_left_is_that_of_the_arms_earlier_runs_less_what_the_current_one_took():
    order = order_of_runs(["a", "b"], 2)
    first = {order[0]: Brief("a", 10.0)}
    assert seconds_left({}, order, 5.0, 0.05) is None
    assert seconds_left({}, order, 5.0, 0.25) == 4 * 20.0 - 5.0
    assert seconds_left(first, order[1:]) == 30.0
    both = first | {order[1]: Brief("b", 30.0)}
    assert seconds_left(both, order[2:], 12.0) == (30.0 + 10.0) - 12.0
    assert seconds_left(both, order[2:], 99.0) == 10.0
    assert seconds_left(both, ()) == 0.0


def test_cancel_by_file_keeps_what_is_finished_and_the_next_start_makes_the_rest(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(measured, "EVERY_S", 0.0)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("[1/4]"):
            ask_to_cancel(tmp_path)

    with pytest.raises(CancelledError, match="the file cancel"):
        begun(tmp_path, say=say)
    assert (read_progress(tmp_path).state, read_progress(tmp_path).done) == ("cancelled", 1)
    first = load_runs(tmp_path)
    assert [run.label for run in first] == ["static"]
    runs = begun(tmp_path)
    assert runs[:1] == first
    assert len(runs) == 4


def started(folder: Path, spec: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "experiments", "run", str(spec), "--out", str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def files(folder: Path) -> Mapping[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted((folder / "runs").glob("[!.]*.json"))}


def wait_for_runs(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(files(folder)) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.process
def test_after_kill_9_the_same_command_makes_exactly_the_missing_runs(tmp_path: Path):
    spec, folder = tmp_path / "s.toml", tmp_path / "out"
    spec.write_text(TEXT.replace("every_s=0.03", "every_s=0.1"), encoding="utf-8")
    with started(folder, spec) as process:
        wait_for_runs(folder, 1, process)
        with pytest.raises(SpecError, match="another process"), ExperimentFolder(folder).working():
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
    after_kill = files(folder)
    assert 1 <= len(after_kill) < 4
    assert read_progress(folder).state == "interrupted"
    (folder / "runs" / ".003-static-1.json.tmp").write_text("half of a run")
    assert main(["run", str(spec), "--out", str(folder)]) == 0
    assert files(folder).items() >= after_kill.items(), "finished runs are not made again"
    assert [run.position for run in load_runs(folder)] == [0, 1, 2, 3]
    assert (read_progress(folder).state, read_progress(folder).done) == ("done", 4)
    assert not list(folder.rglob("*.tmp"))


def test_sigterm_cancels_and_says_how_to_go_on(tmp_path: Path, monkeypatch, capsys):
    spec, save = tmp_path / "s.toml", ExperimentFolder.save
    spec.write_text(TEXT, encoding="utf-8")

    def saved(self, planned, run):
        save(self, planned, run)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ExperimentFolder, "save", saved)
    before = signal.getsignal(signal.SIGTERM)
    assert main(["run", str(spec), "--out", str(tmp_path / "out")]) == 3
    assert "SIGTERM; the same command goes on" in capsys.readouterr().err
    assert len(files(tmp_path / "out")) == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_arms_that_can_never_run_are_found_before_any_is_measured(tmp_path: Path):
    text = TEXT.replace("max_model_len = 64", "").replace(
        'preset = "static"', 'preset = "static"\nset.enable_chunked_prefill = false'
    )
    with pytest.raises(
        SpecError, match="arm static: enable_chunked_prefill is False and max_num_batched_tokens is 128"
    ):
        begun(tmp_path, text)
    assert files(tmp_path) == {}
    assert "arm static" in read_progress(tmp_path).message


def test_requests_longer_than_the_engine_takes_are_refused(tmp_path: Path):
    with pytest.raises(SpecError, match="the engine takes 16 together"):
        begun(tmp_path, TEXT.replace("max_model_len = 64", "max_model_len = 16"))


def test_a_damaged_result_is_named(tmp_path: Path):
    spec: Spec = parse_spec(TEXT)
    folder = ExperimentFolder(tmp_path)
    with folder.working():
        (folder.runs_folder / "000-static-0.json").write_text("{")
        with pytest.raises(SpecError, match=r"holds runs, but no experiment\.json"):
            folder.begin(measured.Manifest(spec, "0", ()))
    (tmp_path / "experiment.json").write_bytes(
        msgspec.json.encode(measured.Manifest(spec, "0", (measured.PlannedRun(0, "static", 0),)))
    )
    with pytest.raises(SpecError, match=r"000-static-0\.json.*remove the file"):
        folder.finished(load_manifest(tmp_path))
    with pytest.raises(SpecError, match="no folder of results"):
        load_runs(tmp_path / "nothing")


def test_bad_input_on_the_command_line_is_answered_with_2(tmp_path: Path, capsys):
    assert main(["run", str(tmp_path / "no.toml"), "--out", str(tmp_path)]) == 2
    assert "no.toml" in capsys.readouterr().err
    assert main(["nothing"]) == 2
    assert main(["--help"]) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_its_arguments(name: str, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m experiments {name}" in capsys.readouterr().out
