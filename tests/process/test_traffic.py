"""Traffic: the same for the same seed, on the engine's clock, never a flood."""

from __future__ import annotations

import math

import pytest
from helpers import FAKE_WORKER, wait_until

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.traffic import (
    MAX_BURST,
    MIXES,
    OUTPUT_TOKENS,
    PRIORITY_MIXES,
    Generator,
    Prompts,
    TrafficSource,
    TrafficSpec,
)
from scheduler import SchedulerPolicy

PROMPTS = Prompts.load()


def collect(spec, seconds, tick, waiting=0):
    taken = []
    source = TrafficSource(lambda arrival: taken.append(arrival) or True, spec=spec, prompts=PROMPTS)
    for _ in range(round(seconds / tick)):
        source.advance(tick, waiting)
    return taken, source


def test_same_seed_gives_the_same_arrivals_whatever_the_tick():
    spec = TrafficSpec(rate=5.0, output_mix="bimodal", priority_mix="uniform", seed=3)
    fine, _ = collect(spec, 40.0, 0.01)
    coarse, _ = collect(spec, 40.0, 0.5)
    count = min(len(fine), len(coarse))
    assert abs(len(fine) - len(coarse)) <= 1
    assert fine[:count] == coarse[:count]
    other, _ = collect(TrafficSpec(rate=5.0, output_mix="bimodal", priority_mix="uniform", seed=4), 40.0, 0.5)
    assert other != coarse


def test_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_burstiness():
    for burstiness, expected_cv in ((1.0, 1.0), (100.0, 0.1), (0.25, 2.0)):
        spec = TrafficSpec(rate=4.0, burstiness=burstiness)
        generator = Generator(1, PROMPTS)
        gaps = [generator.gap_s(spec) for _ in range(20_000)]
        mean = sum(gaps) / len(gaps)
        deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
        assert mean == pytest.approx(0.25, rel=0.06)
        assert deviation / mean == pytest.approx(expected_cv, rel=0.06)


@pytest.mark.parametrize("mix", MIXES)
def test_each_mix_draws_what_it_says(mix):
    arrivals, _ = collect(TrafficSpec(rate=50.0, prompt_mix=mix, output_mix=mix), 40.0, 0.1)
    long_share = sum(arrival.prompt in PROMPTS.long for arrival in arrivals) / len(arrivals)
    assert long_share == pytest.approx({"short": 0, "long": 1, "mixed": 0.35, "bimodal": 0.2}[mix], abs=0.04)
    lengths = [arrival.sampling.max_tokens for arrival in arrivals]
    if mix != "bimodal":
        low, high = OUTPUT_TOKENS[mix]
        assert min(lengths) >= low
        assert max(lengths) <= high
        assert len(set(lengths)) > 5
    else:
        assert any(n <= OUTPUT_TOKENS["short"][1] for n in lengths)
        assert any(n >= OUTPUT_TOKENS["long"][0] for n in lengths)
        assert not any(OUTPUT_TOKENS["short"][1] < n < OUTPUT_TOKENS["long"][0] for n in lengths)


def test_prompts_are_english_texts_of_varied_length():
    assert len(PROMPTS.short) >= 24
    assert len(PROMPTS.long) >= 8
    assert all(6 <= len(prompt.split()) <= 35 for prompt in PROMPTS.short)
    assert all(120 <= len(prompt.split()) <= 320 for prompt in PROMPTS.long)
    assert len(set(PROMPTS.short + PROMPTS.long)) == len(PROMPTS.short) + len(PROMPTS.long)


def test_arrivals_above_max_waiting_are_dropped_and_counted():
    taken, source = collect(TrafficSpec(rate=10.0, max_waiting=4), 20.0, 0.5, waiting=4)
    assert taken == []
    assert source.stats.dropped == source.stats.generated > 100
    taken, source = collect(TrafficSpec(rate=50.0, max_waiting=4), 0.5, 0.5)
    assert len(taken) == source.stats.submitted == 4


def test_a_reader_that_was_away_does_not_flood_the_engine():
    source = TrafficSource(lambda arrival: True, spec=TrafficSpec(rate=50.0, max_waiting=10**6), prompts=PROMPTS)
    assert source.advance(3600.0, 0) < 200


def test_off_and_rate_zero_bring_nothing_and_a_burst_brings_exactly_its_number():
    for spec in (TrafficSpec(enabled=False), TrafficSpec(rate=0.0)):
        taken, source = collect(spec, 100.0, 1.0)
        assert taken == []
        assert source.burst(7) == 7
        assert len(taken) == 7
        assert source.burst(10**9) == MAX_BURST
        assert source.burst(-1) == 0


def test_illegal_specs_are_refused_by_field_and_change_nothing():
    source = TrafficSource(lambda arrival: True, prompts=PROMPTS)
    before = source.spec
    for fields, name in (
        ({"rate": -1.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": 51.0}, "rate"),
        ({"burstiness": 0.0}, "burstiness"),
        ({"prompt_mix": "huge"}, "prompt_mix"),
        ({"output_mix": ""}, "output_mix"),
        ({"priority_mix": "x"}, "priority_mix"),
        ({"temperature": float("inf")}, "temperature"),
        ({"max_waiting": -1}, "max_waiting"),
    ):
        reasons = source.set(TrafficSpec(**fields))
        assert len(reasons) == 1
        assert reasons[0].startswith(name)
        assert source.spec is before


def test_priorities_follow_their_mix():
    for mix, allowed in zip(PRIORITY_MIXES, ({0}, {-1, 0}, {-1, 0, 1}), strict=True):
        taken, _ = collect(TrafficSpec(rate=20.0, priority_mix=mix), 20.0, 1.0)
        assert {arrival.priority for arrival in taken} == allowed


@pytest.mark.process
def test_traffic_runs_on_the_engines_clock_and_stands_still_while_paused():
    spec = TrafficSpec(rate=40.0, prompt_mix="short", output_mix="short", max_waiting=500)
    config = RunnerConfig(model="toy", num_blocks=512)
    with RunnerClient(config, SchedulerPolicy(), traffic=spec, worker_command=FAKE_WORKER) as client:
        wait_until(lambda: client.traffic.stats.submitted > 20)
        engine_time = client.latest.engine_time
        assert client.traffic.stats.generated < 40.0 * (engine_time + 1.0) * 1.8 + 20
        client.set_policy(SchedulerPolicy(paused=True))
        wait_until(lambda: client.state.phase == "paused")
        wait_until(lambda: client.latest.heartbeat)
        before = client.traffic.stats.generated
        seq = client.latest.seq
        wait_until(lambda: client.latest.seq >= seq + 3)
        assert client.traffic.stats.generated == before
        client.traffic.burst(5)
        assert client.traffic.stats.generated == before + 5
        client.set_policy(SchedulerPolicy())
        wait_until(lambda: client.traffic.stats.generated > before + 20)
        client.traffic.set(TrafficSpec(enabled=False))
        before = client.traffic.stats.generated
        seq = client.latest.seq
        wait_until(lambda: client.latest.seq >= seq + 3)
        assert client.traffic.stats.generated == before
        texts = [mark.text for mark in client.marks if mark.kind == "traffic"]
        assert texts[0] == "burst of 5"
        assert "enabled True -> False" in texts[1]


def test_what_lies_ahead_is_what_then_arrives_and_looking_draws_nothing():
    taken = []
    source = TrafficSource(lambda arrival: taken.append(arrival) or True, spec=TrafficSpec(rate=3.0, seed=5))
    source.advance(1.3, 0)
    taken.clear()
    ahead = source.ahead(10.0)
    assert ahead == source.ahead(10.0)
    assert [at for at, _ in ahead] == sorted(at for at, _ in ahead)
    for _ in range(100):
        source.advance(0.1, 0)
    assert taken == [arrival for _, arrival in ahead]
    source.set(TrafficSpec(enabled=False))
    assert source.ahead(10.0) == ()
