"""Very many requests: the same decisions as step by step, on one replica or several, in little memory."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from experiments.runs.driver import PoolShape
from experiments.trace import TraceRequest
from experiments.virtual.cost import FittedCost
from experiments.virtual.fleet import FleetSpec, Replica, Tally, run_fleet
from experiments.virtual.simulate import simulate
from experiments.virtual.streaming import RELATIVE_ERROR, LogHistogram
from scheduler import PRESETS, Request, SamplingParams, Scheduler, SchedulerPolicy, StepResult
from scheduler.invariants import check
from scheduler.simulate import VirtualClock
from scheduler.unwatched import UnwatchedScheduler
from tests.experiments.virtual.workloads import poisson_trace

COST = FittedCost((0.01, 0.001, 0.0, 0.0, 0.0, 0.0005, 1e-5, 0.002, 0.0, 0.001), "prices of a test")
POOL = PoolShape(60, 8, 512, 20)
POLICIES = {
    **PRESETS,
    "few_blocks": SchedulerPolicy(admission_rule="next_chunk", max_num_seqs=32, max_num_batched_tokens=64),
    "swap": SchedulerPolicy(preemption_mode="swap", admission_rule="next_chunk", max_num_seqs=32),
    "skip": SchedulerPolicy(head_of_line="skip", max_num_seqs=5, kv_watermark=0.1),
    "shortest": SchedulerPolicy(admission_order="shortest_job", max_num_seqs=6, allocation="buddy"),
}


class Kept(Tally):
    """A tally that keeps every record."""

    def __init__(self) -> None:
        super().__init__()
        self.records = {}

    def ended(self, record):
        self.records[record.request_id] = record
        super().ended(record)


def alone(policy, requests, pool=POOL) -> Kept:
    tally = Kept()
    replica = Replica(0, FleetSpec(policy, pool, COST), tally)
    for asked in requests:
        replica.advance(asked.arrival_s)
        replica.add(asked)
    replica.finish()
    return tally


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("rate", [0.4, 20.0])
def test_every_time_and_count_is_that_of_the_step_by_step_simulation(name, rate):
    """At the low rate most steps are skipped over, at the high one the pool is short."""
    trace = poisson_trace(6, 50, rate, longest_prompt=90, longest_output=120)
    run = simulate(POLICIES[name], trace, COST, POOL)
    tally = alone(POLICIES[name], trace.requests)
    assert tally.finished == sum(row.outcome == "finished" for row in run.requests) == 50
    for row in run.requests:
        record = tally.records[row.request_id]
        found = (record.first_scheduled_time, record.first_token_time, record.last_token_time, record.num_preemptions)
        assert found == (row.first_scheduled_s, row.token_times_s[0], row.token_times_s[-1], row.num_preemptions)
    assert tally.steps == sum(bool(row.scheduled or row.swapped_out_blocks) for row in run.steps)
    assert tally.output_tokens == run.totals.output_tokens
    assert tally.preemptions == run.totals.preemptions
    assert tally.last_end_s == run.wall_s


def test_a_skip_leaves_the_state_that_its_steps_one_by_one_would():
    rng = random.Random(2)
    skipped = 0
    for seed in range(30):
        policy = SchedulerPolicy(
            max_num_seqs=rng.choice((2, 4, 8)),
            head_of_line=rng.choice(("strict", "skip")),
            admission_rule=rng.choice(("next_chunk", "full_sequence", "worst_case")),
            allocation=rng.choice(("paged", "paged", "exact")),
            kv_watermark=rng.choice((0.0, 0.2)),
        )
        clock = VirtualClock()
        sizes = {"num_blocks": rng.randint(20, 60), "block_size": rng.choice((1, 4, 8)), "max_model_len": 160}
        pair = UnwatchedScheduler(policy, clock=clock, **sizes), Scheduler(policy, clock=clock, **sizes)
        for n in range(12):
            sampling = SamplingParams(max_tokens=rng.randint(10, 60), ignore_eos=True)
            request = Request(f"r{n}", (0,) * rng.randint(1, 30), sampling)
            assert len({scheduler.add(request).accepted for scheduler in pair}) == 1
        for _ in range(4000):
            if not pair[0].has_unfinished:
                break
            count = rng.randint(1, max(1, pair[0].num_sure()))
            skip = pair[0].num_sure() > 0
            skipped += count if skip else 0
            if skip:
                pair[0].skip(count, clock.now + count)
            for _ in range(count):
                clock.now += 1.0
                for scheduler in pair[1:] if skip else pair:
                    step = scheduler.schedule()
                    scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 0)))
            assert pair[0].computed_tokens == pair[1].computed_tokens, seed
            assert pair[0].block_tables == pair[1].block_tables
            assert pair[0].waiting_ids == pair[1].waiting_ids
            assert pair[0].totals == pair[1].totals
            check(pair[0])
        assert not pair[1].has_unfinished
    assert skipped > 200


def test_parts_of_a_fleet_add_up_to_the_whole():
    spec = FleetSpec(POLICIES["vllm-v1"], POOL, COST, num_replicas=3)
    requests = poisson_trace(8, 90, 15.0).requests
    whole = run_fleet(spec, requests)
    both = run_fleet(spec, requests, part=(0, 2))
    both.merge(run_fleet(spec, requests, part=(1, 2)))
    for name, spread in whole.spreads().items():
        other = both.spreads()[name]
        assert replace(other, mean=0.0) == replace(spread, mean=0.0)
        assert other.mean == pytest.approx(spread.mean)
    for name in ("submitted", "finished", "steps", "output_tokens", "last_end_s", "busy_s"):
        assert getattr(both, name) == getattr(whole, name), name
    with pytest.raises(ValueError, match="only round_robin can be run in parts"):
        run_fleet(replace(spec, routing="two_choices"), requests, part=(0, 2))


def test_round_robin_on_two_replicas_is_each_half_alone():
    requests = poisson_trace(8, 60, 12.0).requests
    both = run_fleet(FleetSpec(POLICIES["sarathi"], POOL, COST, num_replicas=2), requests)
    halves = [alone(POLICIES["sarathi"], requests[start::2]) for start in (0, 1)]
    assert both.last_end_s == max(half.last_end_s for half in halves)
    assert both.steps == sum(half.steps for half in halves)


def test_the_least_outstanding_replica_gets_the_request():
    """One long request keeps the first replica busy; the others all go to the second, one at a time."""
    requests = [TraceRequest("long", 0.0, 10, 400), *(TraceRequest(f"r{n}", 1.0 + n, 10, 2) for n in range(3))]
    spec = FleetSpec(SchedulerPolicy(), POOL, FittedCost((0.05, *[0.0] * 9), "a test"), 2, "least_outstanding")
    tally = run_fleet(spec, requests)
    assert tally.busy_s == pytest.approx({0: 400 * 0.05, 1: 6 * 0.05})


def test_a_step_that_is_not_over_has_ended_nothing_that_a_router_could_see():
    tally = Tally()
    replica = Replica(0, FleetSpec(SchedulerPolicy(), POOL, FittedCost((1.0, *[0.0] * 9), "a test")), tally)
    replica.add(TraceRequest("a", 0.0, 5, 1))
    replica.advance(0.9)
    assert replica.outstanding == 1
    replica.advance(1.0)
    assert replica.outstanding == 0


def test_two_choices_serve_a_burst_better_than_one_in_turn_when_lengths_differ():
    rng = random.Random(1)
    requests = [TraceRequest(f"r{n}", n * 0.05, 10, rng.choice((1, 1, 1, 150))) for n in range(200)]
    policy = SchedulerPolicy(max_num_seqs=2)
    waits = {
        routing: run_fleet(FleetSpec(policy, POOL, COST, 4, routing), requests).spreads()["queue_s"].mean
        for routing in ("round_robin", "two_choices", "least_outstanding")
    }
    assert waits["least_outstanding"] < waits["two_choices"] < waits["round_robin"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_replicas": 0}, "num_replicas is 0"),
        ({"routing": "best"}, "routing is 'best', expected one of round_robin"),
        ({"policy": SchedulerPolicy(enable_prefix_caching=True)}, "enable_prefix_caching is True"),
    ],
)
def test_a_fleet_that_cannot_be_is_named(change, words):
    with pytest.raises(ValueError, match=words):
        replace(FleetSpec(SchedulerPolicy(), POOL, COST), **change)


def test_what_can_never_run_is_counted_apart():
    requests = [TraceRequest("long", 0.0, 600, 5), TraceRequest("a", 0.1, 6, 5)]
    tally = alone(SchedulerPolicy(), requests)
    assert (tally.submitted, tally.rejected, tally.finished, tally.unfinished) == (2, 1, 1, 0)
    stuck = alone(SchedulerPolicy(admission_paused=True), requests)
    assert (stuck.rejected, stuck.finished, stuck.unfinished) == (1, 0, 1)


@pytest.mark.parametrize("draw", ["lognormal", "exponential", "constant"])
def test_quantiles_of_a_histogram_are_within_its_stated_error_of_numpys(draw):
    rng = np.random.default_rng(4)
    values = {
        "lognormal": rng.lognormal(0.0, 2.0, 20_000),
        "exponential": rng.exponential(0.02, 20_000),
        "constant": np.full(100, 0.125),
    }[draw]
    histogram, other = LogHistogram(), LogHistogram()
    for value in values[::2]:
        histogram.add(float(value))
    for value in values[1::2]:
        other.add(float(value))
    histogram.merge(other)
    spread = histogram.spread()
    assert spread.count == len(values)
    assert spread.mean == pytest.approx(values.mean())
    assert (spread.smallest, spread.largest) == (values.min(), values.max())
    for share, found in ((0.5, spread.p50), (0.9, spread.p90), (0.99, spread.p99)):
        exact = float(np.quantile(values, share, method="inverted_cdf"))
        assert found == pytest.approx(exact, rel=RELATIVE_ERROR * 1.01)


def test_zeros_and_what_is_no_duration_in_a_histogram():
    histogram = LogHistogram()
    for value in (0.0, 0.0, 0.0, 2.0):
        histogram.add(value)
    assert (histogram.quantile(0.75), histogram.spread().largest) == (0.0, 2.0)
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="value is"):
            histogram.add(wrong)
