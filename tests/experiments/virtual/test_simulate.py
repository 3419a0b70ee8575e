"""Simulated runs decide what real ones decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.record import Conditions
from experiments.runs.clock import WallClock
from experiments.runs.driver import About, PoolShape, drive, fresh_scheduler, requests_of
from experiments.trace import Trace, TraceOrigin, TraceRequest
from experiments.virtual.cost import FittedCost
from experiments.virtual.fit import fit
from experiments.virtual.simulate import difference, replay, simulate
from experiments.virtual.work import StepWork, works_of_rows
from model_runner.config import RunnerConfig
from model_runner.runner import ModelRunner
from scheduler import PRESETS, SchedulerPolicy
from tests.experiments.virtual.workloads import POOL, poisson_trace

ONE_SECOND = FittedCost((1.0, *[0.0] * 9), "one second a step")
POLICIES = {
    **PRESETS,
    "swap": SchedulerPolicy(preemption_mode="swap", admission_rule="next_chunk", max_num_seqs=16),
    "priority": SchedulerPolicy(admission_order="priority", preemption_victim="lowest_priority", max_num_seqs=16),
    "caching": SchedulerPolicy(enable_prefix_caching=True, max_num_seqs=16),
}


@pytest.fixture(scope="module")
def runner():
    config = RunnerConfig("toy", "cpu", "float32", 1, POOL.block_size, POOL.num_blocks, POOL.num_host_blocks, 256)
    loaded = ModelRunner.load(config)
    yield loaded
    loaded.close()


def measure(runner: ModelRunner, policy: SchedulerPolicy, trace: Trace):
    """A run of the toy model on the wall clock, open loop."""
    clock = WallClock()
    conditions = Conditions(
        "measured", "toy", "float32", "cpu", 1, POOL.num_blocks, POOL.block_size, 256, POOL.num_host_blocks, 3, "none"
    )
    requests = requests_of(trace, vocab_size=runner.vocab_size, seed=3)
    scheduler = fresh_scheduler(policy, POOL, clock)
    return drive(runner, scheduler, trace, clock, About(conditions), requests=requests)


@pytest.mark.parametrize("name", POLICIES)
def test_a_measured_run_replayed_with_its_times_has_the_same_schedule_step_by_step(runner, name):
    trace = poisson_trace(4, 24, 400.0, spread=3)
    run = measure(runner, POLICIES[name], trace)
    again = replay(run, trace)
    assert len(run.steps) > 20
    assert difference(run, again) == ""
    assert again.totals == run.totals
    assert [row.num_output_tokens for row in again.requests] == [row.num_output_tokens for row in run.requests]


def test_another_order_of_rows_is_a_difference(runner):
    trace = poisson_trace(4, 24, 400.0)
    run = measure(runner, PRESETS["vllm-v1"], trace)
    step = next(i for i, row in enumerate(run.steps) if len(row.scheduled) > 1)
    turned = replace(run.steps[step], scheduled=run.steps[step].scheduled[::-1])
    other = replace(run, steps=(*run.steps[:step], turned, *run.steps[step + 1 :]))
    assert difference(other, replay(run, trace)).startswith(f"step {step}: scheduled is")


def test_a_replay_of_another_trace_is_refused():
    run = simulate(SchedulerPolicy(), poisson_trace(1, 3, 10.0), ONE_SECOND, POOL)
    with pytest.raises(ValueError, match="trace has the hash"):
        replay(run, poisson_trace(2, 3, 10.0))


def test_times_of_a_simulated_run_by_hand():
    requests = (TraceRequest("a", 0.0, 3, 3), TraceRequest("b", 0.5, 2, 1), TraceRequest("late", 10.0, 2, 2))
    run = simulate(SchedulerPolicy(), Trace("t", requests, TraceOrigin("test", "")), ONE_SECOND, POOL)
    a, b, late = run.requests
    assert a.token_times_s == (1.0, 2.0, 3.0)  # prompt, then a token a step
    assert (b.first_scheduled_s, b.token_times_s) == (1.0, (2.0,))  # known when the first step has ended
    assert late.token_times_s == (11.0, 12.0)  # the clock jumps over idle time
    assert run.wall_s == 12.0
    assert [row.outcome for row in run.requests] == ["finished"] * 3


def test_the_same_arguments_give_the_same_run():
    trace = poisson_trace(9, 30, 3.0)
    one, other = (simulate(SchedulerPolicy(), trace, ONE_SECOND, POOL) for _ in range(2))
    assert replace(one, cpu_s=0.0) == replace(other, cpu_s=0.0)


def test_a_request_that_can_never_run_is_rejected_with_the_reason():
    requests = (TraceRequest("long", 0.0, 300, 3), TraceRequest("short", 0.0, 3, 2))
    run = simulate(SchedulerPolicy(), Trace("t", requests, TraceOrigin("test", "")), ONE_SECOND, POOL)
    assert [row.outcome for row in run.requests] == ["rejected", "finished"]
    assert "max_model_len 256" in run.requests[0].reason


def test_a_queue_that_nobody_may_leave_stops_the_run_with_the_reason():
    run = simulate(SchedulerPolicy(admission_paused=True), poisson_trace(1, 3, 10.0), ONE_SECOND, POOL)
    assert run.stopped
    assert {row.outcome for row in run.requests} == {"unfinished"}


class Kept:
    """A cost model that remembers what it was asked."""

    def __init__(self) -> None:
        self.works: list[StepWork] = []

    def seconds(self, work: StepWork) -> float:
        self.works.append(work)
        return 1.0

    def describe(self) -> str:
        return "a test"


@pytest.mark.parametrize("name", ["vllm-v1", "sarathi", "swap", "static"])
def test_the_work_of_a_runs_rows_is_that_of_its_steps(name):
    """Fitting reads the rows of a run, simulating reads the steps: both must mean the same by work."""
    kept = Kept()
    pool = PoolShape(24, 8, 256, 9)
    run = simulate(POLICIES[name], poisson_trace(5, 40, 1.0), kept, pool)
    rows = [row for row in run.steps if row.scheduled or row.swapped_out_blocks or row.swapped_in_blocks]
    found = works_of_rows(rows)
    assert [(work.tokens, work.rows) for work in found] == [(work.tokens, work.rows) for work in kept.works]
    if name != "swap":  # which row came back from the host pool is not in the rows of a run
        assert [(w.context, w.pairs) for w in found] == [(w.context, w.pairs) for w in kept.works]


def test_a_toy_run_gives_a_model_whose_step_has_a_price(runner):
    run = measure(runner, PRESETS["vllm-v1"], poisson_trace(6, 60, 300.0))
    fitted = fit(works_of_rows(run.steps), [row.end_s - row.start_s for row in run.steps], "the toy model")
    assert fitted.model.coefficients[0] > 0
    assert fitted.held_out_error.num_steps > 60
