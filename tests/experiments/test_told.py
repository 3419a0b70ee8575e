"""What packages word in English reads in Korean where a Korean page or card shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.analysis.metrics import METRICS
from experiments.analysis.rosetta import DEFINITIONS
from experiments.i18n.told import told
from experiments.runs.arms import arms_of
from experiments.runs.spec import SpecError, parse_spec
from experiments.runs.workload import check_fits, trace_of
from experiments.traces import STYLES, TraceError, generate, in_style_of, parse_arrivals, parse_lengths
from experiments.virtual.cost import FittedCost, RooflineCost
from experiments.virtual.fit import HeldOutError
from experiments.virtual.hardware import GPUS, MODELS
from tests.experiments.traces.files import DATA, FILES, read
from tests.experiments.traces.test_bad_files import BAD

ENGLISH = re.compile(r"\b(is|are|was|the|expected|has|at most|there|not|with|of|from|each)\b")
"""Words of a sentence: names of fields, formats and distributions have none of them."""

AB = """
kind = "ab"
[a]
[b]
[trace.generate]
num_requests = 3
arrivals = "burst:size=0"
prompt = "fixed:tokens=4"
output = "fixed:tokens=2"
"""
SPECS = {
    "labels": AB.replace("[a]", '[a]\nlabel = "b"'),
    "no admission": AB.replace("[a]", "[a]\nset.admission_paused = true"),
    "whole prompts": AB.replace("[a]", "[a]\nset.enable_chunked_prefill = false\nset.max_num_batched_tokens = 8")
    + "[model]\nmax_model_len = 64",
    "chunks": 'kind = "chunk"\n[policy]\npreset = "static"\n[chunk]\nsizes = [8, 9]\nlong_prompt_len = 4\n'
    + AB.partition("[b]")[2],
    "lengths": AB.replace("tokens=4", "tokens=0"),
    "too long": AB.replace("tokens=4", "tokens=4000"),
}


def korean(text: str) -> str:
    """The Korean of a text, of which nothing may be left in English but what is quoted."""
    words = told(text, "ko")
    assert re.search("[가-힣]", words), text
    assert not ENGLISH.search(re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*\)", "", words)), words
    return words


@pytest.mark.parametrize("what", BAD)
def test_every_refusal_of_a_trace_reads_in_korean(what: str):
    text = BAD[what][0]
    with pytest.raises(TraceError) as caught:
        read(text.encode())
    if "no JSON" not in str(caught.value) and "CSV: " not in str(caught.value):  # what a library says stays
        korean(str(caught.value))
    assert told(str(caught.value), "en") == str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "gamma:rate=0,burstiness=1",
        "gamma:rate=1,burstiness=0",
        "onoff:rate=1,burst=2,silence_s=0,least_s=1",
        "other:x=1",
    ],
)
def test_every_refusal_of_arrivals_reads_in_korean(text: str):
    with pytest.raises(TraceError) as caught:
        parse_arrivals(text)
    korean(str(caught.value))


@pytest.mark.parametrize(
    "text",
    ["uniform:low=9,high=3", "lognormal:median=0,sigma=1", "bimodal:short=9,long=3", "fixed:tokens=x", "fixed:size=4",
     "capped-exponential:mean=500,cap=1", "uniform:low=1"],
)  # fmt: skip
def test_every_refusal_of_lengths_reads_in_korean(text: str):
    with pytest.raises(TraceError) as caught:
        parse_lengths(text)
    korean(str(caught.value))


@pytest.mark.parametrize("what", SPECS)
def test_refusals_of_a_spec_read_in_korean(what: str):
    with pytest.raises(SpecError) as caught:
        planned(SPECS[what])
    korean(str(caught.value))


def planned(text: str) -> None:
    """As the page does before it runs anything."""
    spec = parse_spec(text)
    arms_of(spec)
    check_fits(trace_of(spec, Path()), max_model_len=512, pool_tokens=640, vocab_size=99)


@pytest.mark.parametrize("style", STYLES)
def test_where_a_made_workload_comes_from_reads_in_korean(style: str):
    origin = generate(in_style_of(style, 5, 1, 2.0)).origin
    for text in (origin.description, *(value for _, value in origin.parameters)):
        if ENGLISH.search(text):
            korean(text)


@pytest.mark.parametrize("file", FILES)
def test_where_a_file_comes_from_reads_in_korean(file: str):
    origin = read(DATA / file).origin
    for text in (origin.description, *(value for _, value in origin.parameters)):
        if ENGLISH.search(text) and not text.startswith("not used: {"):
            korean(text)


def test_step_times_and_their_error_read_in_korean():
    korean(RooflineCost(GPUS["L4"], MODELS["Qwen2.5-7B"]).describe())
    korean(FittedCost((0.01,) * 10, "run ab-12").describe())
    korean(HeldOutError(100, 0.01, 0.02, 0.03, 0).describe())


def test_what_tools_do_otherwise_and_formulas_of_metrics_read_in_korean():
    for each in DEFINITIONS:
        if each.difference:
            korean(each.difference)
    for metric in METRICS.values():
        korean(metric.formula)


def test_a_text_that_nobody_knows_stays_as_it_came():
    assert told("something {new} came", "ko") == "something {new} came"
    assert told("x" * 5000, "ko") == "x" * 5000
