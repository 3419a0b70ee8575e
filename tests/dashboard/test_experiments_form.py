"""What is filled in on the page of experiments becomes a spec that the command line reads, or is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.experiments.form import LIVE, ArmChoice, Form, sizes_of, spec_of, toml_of
from dashboard.experiments.plan import plan_of
from dashboard.experiments.uploads import read_upload
from experiments.runs.arms import arms_of
from experiments.runs.spec import SpecError, read_spec
from experiments.traces import TraceError
from scheduler import PRESETS, SchedulerPolicy
from tests.dashboard.experiment_folders import COST, TINY

POLICY = SchedulerPolicy(max_num_seqs=3, prefill_mix="prefill_first", step_delay_ms=50.0, paused=True)
VIDUR = b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,10,4\n1.5,20,8\n2.5,3000,8\n"


@pytest.mark.parametrize("kind", ["ab", "factorial", "chunk"])
def test_the_written_spec_is_read_back_as_it_was(kind, tmp_path):
    spec = spec_of(replace(TINY, kind=kind), POLICY)
    (tmp_path / "spec.toml").write_bytes(toml_of(spec))
    assert read_spec(tmp_path / "spec.toml") == spec
    assert len(arms_of(spec)) == {"ab": 2, "factorial": 12, "chunk": 4}[kind]


def test_the_live_policy_is_an_arm_without_its_pace():
    spec = spec_of(replace(TINY, b=ArmChoice(LIVE, max_num_batched_tokens=64)), POLICY)
    arm = arms_of(spec)[1]
    assert arm.label == LIVE
    assert (arm.policy.max_num_seqs, arm.policy.prefill_mix) == (3, "prefill_first")
    assert arm.policy.max_num_batched_tokens == 64
    assert (arm.policy.paused, arm.policy.step_delay_ms) == (False, 0.0)


def test_arms_of_one_preset_are_told_apart_by_what_differs():
    choices = ArmChoice("vllm-v1", 4), ArmChoice("vllm-v1", 16)
    arms = arms_of(spec_of(replace(TINY, a=choices[0], b=choices[1]), POLICY))
    assert [(arm.label, arm.policy.max_num_seqs) for arm in arms] == [("vllm-v1-4", 4), ("vllm-v1-16", 16)]
    same = arms_of(spec_of(replace(TINY, a=ArmChoice("static"), b=ArmChoice("static")), POLICY))
    assert [arm.label for arm in same] == ["static-a", "static-b"]


@pytest.mark.parametrize("text", ["16, x", "-4", "1.5", "9999999999"])
def test_sizes_that_are_no_whole_numbers_are_refused_with_what_was_written(text):
    with pytest.raises(SpecError, match=r"chunk\.sizes"):
        sizes_of(text)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"repeats": 0}, "repeats"),
        ({"ttft_s": -1.0}, "ttft_s"),
        ({"num_requests": 0}, "num_requests"),
        ({"source": "style", "style": "nobody's"}, "style"),
        ({"arrivals": "gamma:rate=-1.0,burstiness=1.0"}, "rate"),
        ({"source": "file"}, "no file"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_field(change, named):
    with pytest.raises(SpecError, match=named):
        plan_of(spec_of(replace(TINY, **change), POLICY), Path(), None, None)


def test_a_plan_counts_runs_and_estimates_from_the_step_times():
    spec = spec_of(TINY, POLICY)
    plan = plan_of(spec, Path(), None, COST)
    slow = plan_of(spec, Path(), None, replace(COST, coefficients=tuple(10 * each for each in COST.coefficients)))
    assert (plan.runs, len(plan.trace.requests), plan.labels) == (4, 24, ("static", "vllm-v1"))
    assert plan.least_s <= plan.seconds < slow.seconds
    assert plan_of(spec, Path(), None, None).seconds is None


def test_an_uploaded_file_is_scaled_and_its_cuts_are_counted():
    found = read_upload("some.csv", VIDUR, 0.05, "toy")
    assert (found.trace.origin.source, len(found.trace.requests), found.size) == ("vidur", 3, len(VIDUR))
    plan = plan_of(spec_of(replace(TINY, source="file"), POLICY), Path(), found.trace, None)
    assert plan.trace.origin.truncated == 1
    assert max(r.prompt_len + r.output_len for r in plan.trace.requests) == 128


def test_a_wrong_file_is_refused_with_line_and_field():
    with pytest.raises(TraceError) as error:
        read_upload("some.csv", VIDUR.replace(b"1.5,20,8", b"1.5,x,8"), 0.05, "toy")
    assert (error.value.line, error.value.field) == (3, "num_prefill_tokens")


def test_every_preset_can_be_an_arm_of_the_form_as_it_is_at_first():
    for name in PRESETS:
        assert plan_of(spec_of(replace(Form(), b=ArmChoice(name, 4)), POLICY), Path(), None, None).runs == 8
