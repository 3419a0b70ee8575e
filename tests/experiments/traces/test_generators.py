"""Made workloads: the same bytes for the same seed, and the distributions they say they have."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from experiments.traces import (
    STYLES,
    GeneratorSpec,
    TraceError,
    arrival_of,
    generate,
    in_style_of,
    parse_arrivals,
    parse_lengths,
    read_trace,
    retime,
    trace_bytes,
)
from experiments.traces.arrivals import ARRIVALS
from experiments.traces.lengths import LENGTHS
from experiments.traces.portable import Stream
from experiments.traces.published import LEVELS, LOGNORMAL, QUANTILES


def spec(
    arrivals="poisson:rate=2", prompt="fixed:tokens=5", output="fixed:tokens=3", count=50, seed=1
) -> GeneratorSpec:
    return GeneratorSpec(count, seed, parse_arrivals(arrivals), parse_lengths(prompt), parse_lengths(output))


def times_of(arrivals: str, count: int, seed: int = 1) -> list[float]:
    return [request.arrival_s for request in generate(spec(arrivals, count=count, seed=seed)).requests]


def lengths_of(text: str, count: int = 20_000) -> np.ndarray:
    stream, lengths = Stream(9, 1), parse_lengths(text)
    return np.array([lengths.draw(stream) for _ in range(count)])


SPECS = {
    "gamma, lognormal, bimodal": spec(
        "gamma:rate=2,burstiness=0.5",
        "lognormal:median=90,sigma=0.8,high=512",
        "bimodal:short=8,long=200,share=0.2,spread=0.1",
    ),
    "bursts, uniform, capped": spec(
        "burst:size=8,every_s=3", "uniform:low=10,high=20", "capped-exponential:mean=128,cap=512"
    ),
    "azure-conv": in_style_of("azure-conv", 50, 7),
    "azure-code": in_style_of("azure-code", 50, 7, rate=1.0),
}
STORED = {
    "gamma, lognormal, bimodal": "f37db17754e081e16858a07c5278f1a3f5b8ef1fe044f418b56057056f1976c6",
    "bursts, uniform, capped": "18e410b64c531c205945cc941b800892315e00bf0d4adc3c0030829944a994a5",
    "azure-conv": "95bda5d43cbc855a02637378b1be8848f9b97c173242753232659e9d9fe2d075",
    "azure-code": "1b80d128e4f504b114f4e011dd481cb38a2562dbfb0d42f7612ded836974a3d3",
}
"""Hashes of the requests, written down once: a change here breaks every workload that was shared."""


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_and_a_seed_give_the_requests_that_were_written_down(name: str) -> None:
    assert generate(SPECS[name]).sha256 == STORED[name]
    assert trace_bytes(generate(SPECS[name])) == trace_bytes(generate(SPECS[name]))


def test_poisson_arrivals_are_sums_of_minus_log_of_pythons_random_numbers_in_exact_arithmetic() -> None:
    random_ = random.Random(1).random
    expected, now = [], Decimal(0)
    for _ in range(50):
        now -= Decimal(random_()).ln() / 2
        expected.append(float(round(now, 6)))
    assert times_of("poisson:rate=2", 50) == expected


@pytest.mark.parametrize("name", SPECS)
def test_a_generated_trace_reads_back_equal_and_another_seed_differs(name: str) -> None:
    trace = generate(SPECS[name])
    assert read_trace(trace_bytes(trace)) == trace
    assert generate(replace(SPECS[name], seed=8)).sha256 != trace.sha256
    times = [request.arrival_s for request in trace.requests]
    assert times == sorted(times)
    assert times[0] >= 0
    assert dict(trace.origin.parameters)["arrivals"] == str(SPECS[name].arrivals)


def test_another_distribution_leaves_the_numbers_of_the_others_as_they_are() -> None:
    one = generate(spec("poisson:rate=2", "uniform:low=1,high=900", "uniform:low=1,high=900"))
    other = generate(spec("steady:rate=1", "fixed:tokens=5", "uniform:low=1,high=900"))
    assert [r.output_len for r in one.requests] == [r.output_len for r in other.requests]
    assert [r.output_len for r in one.requests] != [r.prompt_len for r in one.requests]


def test_steady_bursts_and_all_at_once_are_as_worked_out_by_hand() -> None:
    assert times_of("steady:rate=4", 4) == [0.25, 0.5, 0.75, 1.0]
    assert times_of("burst:size=2,every_s=1.5", 5) == [0, 0, 1.5, 1.5, 3.0]
    assert times_of("burst", 3) == [0, 0, 0]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_is_vllms_burstiness_cv_1_over_its_root_and_ends_at_count_over_rate(burstiness: float) -> None:
    times = times_of(f"gamma:rate=5,burstiness={burstiness}", 8000)
    assert times[-1] == 1600.0
    gaps = np.diff([0.0, *times])
    assert gaps.std() / gaps.mean() == pytest.approx(1 / np.sqrt(burstiness), rel=0.06)
    assert times_of(f"gamma:rate=5,burstiness={burstiness}", 8000, seed=2)[-1] == 1600.0


def test_poisson_is_not_rescaled_so_that_seeds_differ_in_their_rate() -> None:
    ends = [times_of("poisson:rate=5", 500, seed)[-1] for seed in range(20)]
    assert np.mean(ends) == pytest.approx(100, rel=0.05)
    assert np.std(ends) == pytest.approx(np.sqrt(500) / 5, rel=0.5)


def test_capped_exponential_draws_again_what_is_above_the_cap_so_its_mean_is_below_the_one_named() -> None:
    values = lengths_of("capped-exponential:mean=128,cap=256")
    assert (values.min(), values.max()) == (1, 256)
    assert values.mean() == pytest.approx(128 - 256 / (np.exp(2) - 1), rel=0.02)
    assert np.mean(values == 256) < 0.002, "the cap is no pile"


def test_lengths_have_the_quantiles_of_their_formulas() -> None:
    uniform = lengths_of("uniform:low=10,high=13")
    assert np.unique(uniform, return_counts=True)[1] / len(uniform) == pytest.approx([0.25] * 4, abs=0.02)
    lognormal = lengths_of("lognormal:median=200,sigma=0.5,low=50,high=600")
    assert np.median(lognormal) == pytest.approx(200, rel=0.02)
    assert np.quantile(lognormal, 0.8413) == pytest.approx(200 * np.exp(0.5), rel=0.03)
    assert (lognormal.min(), lognormal.max()) == (50, 600)
    bimodal = lengths_of("bimodal:short=10,long=1000,share=0.25,spread=0.1")
    assert np.mean(bimodal > 500) == pytest.approx(0.25, abs=0.02)
    assert set(bimodal[bimodal < 500]) <= {9, 10, 11}


@pytest.mark.parametrize("table", QUANTILES)
def test_a_style_draws_the_quantiles_of_the_published_trace(table: str) -> None:
    values = lengths_of(f"quantiles:table={table}", 6000)
    assert values.min() >= QUANTILES[table][0]
    assert values.max() <= QUANTILES[table][-1]
    for level, tokens in list(zip(LEVELS, QUANTILES[table], strict=True))[1:-1]:
        assert np.mean(values <= tokens) >= level - 0.03
        assert np.mean(values < tokens) <= level + 0.03


def test_the_conversation_style_has_the_traces_rate_and_mean_lengths() -> None:
    trace = generate(in_style_of("azure-conv", 6000, 1))
    assert trace.requests[-1].arrival_s == pytest.approx(6000 / 5.53, rel=1e-6)
    assert np.mean([r.prompt_len for r in trace.requests]) == pytest.approx(1155, rel=0.06)
    assert np.mean([r.output_len for r in trace.requests]) == pytest.approx(211, rel=0.06)
    gaps = np.diff([r.arrival_s for r in trace.requests])
    assert gaps.std() / gaps.mean() == pytest.approx(1.15, abs=0.07), "as the origin says"
    thirds = [gap.mean() for gap in np.array_split(gaps, 3)]
    assert thirds[0] > 1.2 * thirds[1] < thirds[2], "the rate rises and falls"


def test_the_code_style_comes_in_bursts_between_silences() -> None:
    trace = generate(in_style_of("azure-code", 8819, 3))
    gaps = np.diff([r.arrival_s for r in trace.requests])
    silent = gaps[gaps > 10]
    assert 25 <= len(silent) <= 70
    assert silent.sum() / gaps.sum() == pytest.approx(0.69, abs=0.08)
    assert 8 < gaps.std() / gaps.mean() < 15


@pytest.mark.parametrize("style", STYLES)
def test_what_a_style_was_fitted_to_is_printed_and_a_rate_stretches_all_times_alike(style: str) -> None:
    trace = generate(in_style_of(style, 300, 5))
    stated = dict(trace.origin.parameters)
    table = f"azure2023_{style.removeprefix('azure-')}"
    mu, sigma = LOGNORMAL[f"{table}.prompt"]
    assert f"mu {mu:.2f}, sigma {sigma:.2f}" in stated["fitted_prompt"]
    assert f"p50 {QUANTILES[f'{table}.output'][12]}" in stated["fitted_output"]
    assert "not the trace itself" in stated["style"]
    rate = 5.53 if style == "azure-conv" else 2.57
    slower = generate(in_style_of(style, 300, 5, rate=rate / 4))
    assert [r.arrival_s for r in slower.requests] == pytest.approx([r.arrival_s * 4 for r in trace.requests], abs=1e-5)
    assert [r.prompt_len for r in slower.requests] == [r.prompt_len for r in trace.requests]


def test_retiming_keeps_requests_and_states_what_was_done() -> None:
    trace = generate(spec("burst", "uniform:low=1,high=99", count=5))
    again = retime(trace, parse_arrivals("steady:rate=2"), 3)
    assert [r.arrival_s for r in again.requests] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert [r.prompt_len for r in again.requests] == [r.prompt_len for r in trace.requests]
    assert dict(again.origin.parameters)["retimed"] == "steady:rate=2.0"


def test_the_rate_and_burstiness_of_a_trace_are_those_in_vllms_words() -> None:
    assert arrival_of(generate(spec("gamma:rate=2,burstiness=0.5"))) == (2.0, 0.5)
    assert arrival_of(generate(spec("steady:rate=2"))) == (2.0, float("inf"))
    assert arrival_of(generate(spec("burst"))) == (None, 1.0)


@pytest.mark.parametrize("kind", [*ARRIVALS, *LENGTHS])
def test_every_distribution_is_read_back_from_its_text(kind: type) -> None:
    texts = {
        "burst": "burst:size=2,every_s=0.5", "steady": "steady:rate=2.0", "poisson": "poisson:rate=0.1",
        "gamma": "gamma:rate=2.0,burstiness=0.5", "drift": "drift:rate=2.0,burstiness=1.0,low=1.0,high=3.0",
        "onoff": "onoff:rate=8.3,burst=192.0,silence_s=52.6,least_s=10.0", "fixed": "fixed:tokens=7",
        "uniform": "uniform:low=1,high=2", "lognormal": "lognormal:median=9.0,sigma=0.5,low=1,high=50",
        "bimodal": "bimodal:short=1,long=9,share=0.5,spread=0.0",
        "capped-exponential": "capped-exponential:mean=3.0,cap=9", "quantiles": "quantiles:table=azure2023_conv.prompt",
    }  # fmt: skip
    parse = parse_arrivals if kind in ARRIVALS else parse_lengths
    assert str(parse(texts[kind.kind])) == texts[kind.kind]


BAD = {
    "gama:rate=1": "expected one of burst",
    "gamma:burstiness=1": "rate: is missing",
    "gamma:rate=0": "rate is 0.0",
    "gamma:rate=nan": "rate is nan",
    "gamma:rate=1,rate=2": "'rate=2'",
    "gamma:rate=1,speed=2": "'speed=2'",
    "gamma:rate=x": "rate: is 'x'",
    "gamma:rate=1,burstiness=0": "burstiness is 0.0",
    "burst:size=1.5": "expected a whole number",
    "onoff:rate=1,burst=0,silence_s=1": "burst is 0.0",
    "drift:rate=1,burstiness=1,low=3,high=2": "low is 3.0",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_arrivals_are_refused_naming_the_field(text: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_arrivals(text)
    assert BAD[text] in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "fixed:tokens=0", "uniform:low=5,high=4", "lognormal:median=0,sigma=1", "lognormal:median=9,sigma=-1",
        "bimodal:short=9,long=1", "capped-exponential:mean=1e6,cap=1", "quantiles:table=mine", "fixed", "",
    ],
)  # fmt: skip
def test_bad_lengths_are_refused(text: str) -> None:
    with pytest.raises(TraceError):
        parse_lengths(text)


@pytest.mark.parametrize(
    ("field", "value"), [("num_requests", 0), ("num_requests", 2_000_001), ("seed", -1), ("seed", 2**64)]
)
def test_a_spec_out_of_range_is_refused_naming_the_field(field: str, value: int) -> None:
    with pytest.raises(TraceError, match=field):
        generate(replace(spec(), **{field: value}))
    with pytest.raises(TraceError, match="azure-conv"):
        in_style_of("azure", 1, 1)
