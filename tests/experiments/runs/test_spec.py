"""A spec is checked when it is read: an error names table and field, the value, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.runs.arms import arms_of, order_of_runs
from experiments.runs.spec import SpecError, parse_spec, read_spec
from experiments.runs.workload import check_fits, trace_of
from tests.experiments.runs.fakes import trace_of as rows
from tests.test_import_arrows import HEAVY, reachable

SPECS = sorted((Path(__file__).resolve().parents[3] / "experiments" / "specs").glob("*.toml"))

GENERATE = """
[trace.generate]
num_requests = 3
arrivals = "burst:size=0"
prompt = "fixed:tokens=4"
output = "fixed:tokens=2"
"""
CHUNK = 'kind = "chunk"\n[chunk]\nlong_prompt_len = 4\nsizes = '
AB = f'kind = "ab"\n[a]\npreset = "static"\n[b]\n{GENERATE}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind = ", ["s.toml", "nvalid value"]),
        ("", ["kind is missing"]),
        ('kind = "abc"', ["kind is 'abc'", "one of single, ab, factorial, chunk"]),
        ('kind = "ab"', ["trace is missing"]),
        ('kind = "ab"\n[trace]\nfile = "x"', ["[a] is missing", "[a] and [b]"]),
        (AB + '[chunk]\nsizes = [1, 2]\nlong_prompt_len = 4', ["[chunk] is there", "'ab'"]),
        ("repeats = 0\n" + AB, ["repeats is 0", ">= 1"]),
        ("repeats = true\n" + AB, ["repeats is True", "int"]),
        ("speed = 1\n" + AB, ["speed is not a field", "repeats"]),
        (AB + "[model]\nthread = 1", ["model.thread is not a field", "threads"]),
        (AB + '[model]\nthreads = "two"', ["model.threads is 'two'", "int"]),
        (AB + "[model]\nthreads = 100000", ["model.threads is 100000", "<= 1024"]),
        (AB + '[model]\ndevice = "tpu"', ["model.device is 'tpu'", "auto, cpu, cuda or cuda:N"]),
        (AB + '[model]\ndtype = "int8"', ["model.dtype is 'int8'", "one of auto, float32, bfloat16"]),
        (AB + '[model]\nmodel = "smolm"', ["model.model is 'smolm'", "smollm2, toy or a folder"]),
        (AB + '[claim]\nheadline = "speed"', ["claim.headline is 'speed'", "output_tokens_per_s"]),
        (f'name = "{"n" * 201}"\n' + AB, ["name is 'nnn", "<= 200"]),
        (AB + '[slo]\nttft_s = -1.0', ["slo.ttft_s is -1.0", "> 0"]),
        (AB + "[a.set]\nmax_num_seqs = 0", ["max_num_seqs"]),
        (AB.replace("[b]", '[b]\nlabel = "A b"'), ["b.label is 'A b'", "a-z, 0-9"]),
        (AB.replace(GENERATE, "[trace]"), ["trace needs either file or [trace.generate]"]),
        (AB.replace("[trace.generate]", '[trace]\nfile = "t"\n[trace.generate]'), ["and not both"]),
        ('kind = "factorial"\n' + GENERATE, ["model.max_model_len is missing"]),
        (CHUNK + "[8, 8]\n" + GENERATE, ["chunk.sizes is [8, 8]", "once"]),
        (CHUNK + '[8, 9]\nfield = "max"\n' + GENERATE, ["chunk.field is 'max'", "long_prefill_token_threshold"]),
        (CHUNK + "[8, 0]\n" + GENERATE, ["chunk.sizes[1] is 0", ">= 1"]),
    ],
)  # fmt: skip
def test_a_wrong_spec_is_refused_naming_field_and_value(text: str, words: list[str]):
    with pytest.raises(SpecError) as caught:
        arms_of(parse_spec(text, "s.toml"))
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("preset", "sttic"), ["[a]", "'sttic'", "vllm-v1"]),
        (("set", "{nosuch = 1}"), ["[a]", "nosuch"]),
        (("set", "{num_blocks = 8}"), ["a.set.num_blocks belongs to [model]"]),
        (("set", "{paused = true}"), ["paused"]),
        (("set", "{admission_paused = true}"), ["arm a", "admission_paused", "nobody"]),
        (("label", "'b'"), ["both 'b'"]),
    ],
)
def test_a_wrong_arm_is_refused_naming_its_table(change: tuple[str, str], words: list[str]):
    name, value = change
    line = f'{name} = "{value}"' if name == "preset" else f"{name} = {value}"
    text = AB.replace('preset = "static"', line)
    with pytest.raises(SpecError) as caught:
        arms_of(parse_spec(text))
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"fixed:tokens=4"', '"fixed:tokens=x"', ["trace.generate.prompt", "x"]),
        ('arrivals = "burst:size=0"', "", ["trace.generate.arrivals is missing"]),
        ('arrivals = "burst:size=0"', 'style = "azure-conv"', ["style comes with arrivals"]),
        ("[trace.generate]", "[trace.scale]\nfactor = 2\n[trace.generate]", ["trace.scale.factor is not a field"]),
        ("[trace.generate]", "[trace.scale]\ntime_factor = 'x'\n[trace.generate]", ["trace.scale.time_factor is 'x'"]),
        ("[trace.generate]", "[trace.scale]\ntime_factor = -1\n[trace.generate]", ["time_factor", "-1"]),
    ],
)  # fmt: skip
def test_a_wrong_workload_is_refused_naming_its_table(old: str, new: str, words: list[str]):
    with pytest.raises(SpecError) as caught:
        trace_of(parse_spec(AB.replace(old, new)), Path())
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_model_may_be_a_folder(tmp_path: Path):
    assert parse_spec(AB + f'[model]\nmodel = "{tmp_path}"').model.model == str(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(SpecError, match=r"nothing\.toml: No such file"):
        read_spec(tmp_path / "nothing.toml")
    spec = parse_spec(AB.replace(GENERATE, '[trace]\nfile = "nothing.csv"'))
    with pytest.raises(SpecError, match=r"nothing\.csv"):
        trace_of(spec, tmp_path)


def test_requests_that_the_engine_would_cut_are_refused_so_that_all_arms_do_the_same_work():
    trace = rows((0.0, 10, 7))
    check_fits(trace, max_model_len=17, pool_tokens=16, vocab_size=9)
    for limits in ({"max_model_len": 16, "pool_tokens": 99}, {"max_model_len": 99, "pool_tokens": 15}):
        with pytest.raises(SpecError, match="r0 is 10 prompt and 7 output tokens long, the engine takes 16"):
            check_fits(trace, vocab_size=9, **limits)


def test_the_order_is_forwards_and_backwards_in_turn():
    order = order_of_runs(["a", "b"], 4)
    assert "".join(planned.label for planned in order) == "abbaabba"
    assert [planned.repeat for planned in order] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [planned.label for planned in order_of_runs(["x", "y", "z"], 2)] == ["x", "y", "z", "z", "y", "x"]
    for repeats in (2, 4):  # linear drift favours nobody over an even number of repeats
        order = order_of_runs(["x", "y", "z"], repeats)
        assert len({sum(one.position for one in order if one.label == label) for label in "xyz"}) == 1


def test_the_arms_of_a_chunk_microscope_differ_in_the_size_alone():
    text = 'kind = "chunk"\n[policy]\npreset = "sarathi"\n[chunk]\nsizes = [16, 64]\nlong_prompt_len = 4\n' + GENERATE
    small, large = arms_of(parse_spec(text))
    assert (small.label, small.policy.max_num_batched_tokens) == ("chunk-16", 16)
    assert (large.label, large.policy.max_num_batched_tokens) == ("chunk-64", 64)
    with pytest.raises(SpecError, match="enable_chunked_prefill"):
        arms_of(parse_spec(text.replace("sarathi", "orca-max")))
    text = text.replace("[16, 64]", '[16, 65]\nfield = "long_prefill_token_threshold"')
    with pytest.raises(SpecError, match=r"chunk\.sizes has 65, above max_num_batched_tokens \(64\)"):
        arms_of(parse_spec(text))


def test_a_factorial_runs_the_valid_combinations_only():
    text = 'kind = "factorial"\n[model]\nmax_model_len = 64\n' + GENERATE
    labels = [arm.label for arm in arms_of(parse_spec(text))]
    assert labels[0] == "0000"
    assert labels[-1] == "1111"
    assert len(labels) == 12
    assert all(label[1] == "1" for label in labels if label[2] == "1"), "optimistic admission needs pages"


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_specs_that_come_along_can_be_run(path: Path):
    spec = read_spec(path)
    trace = trace_of(spec, path.parent)
    check_fits(
        trace,
        max_model_len=spec.model.max_model_len or 0,
        pool_tokens=spec.model.num_blocks * spec.model.block_size,
        vocab_size=1,
    )
    assert len(arms_of(spec)) >= 2
    assert spec.name
    assert spec.claim.tuned is not None


@pytest.mark.parametrize("module", ["folder", "progress", "spec_text", "report", "workload", "driver"])
def test_what_a_page_reads_experiments_with_loads_no_model_library(module: str):
    seen = reachable(f"experiments.runs.{module}")
    heavy = {name: seen[name] for name in seen if name.partition(".")[0] in HEAVY}
    assert not heavy, f"experiments.runs.{module} loads {heavy}"
