"""What a benchmark must not count: the cost of the first steps. On a clock that only the steps move."""

from __future__ import annotations

from typing import Any

import pytest

from model_runner import bench
from model_runner.bench_workload import BenchWorkload, TimedRequest
from model_runner.runner import ModelRunner
from scheduler import Request, SamplingParams, SchedulerPolicy, ScheduleStep, StepResult
from tests.model_runner.driving import toy_runner

STEP_S = 0.01


class Clock:
    """Seconds; stands still but for what the steps take."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    process_time = perf_counter


class TimedRunner:
    """The runner, whose steps take ``STEP_S`` on the clock and the first one ``first_s``."""

    def __init__(self, runner: ModelRunner, clock: Clock, first_s: float) -> None:
        self._runner, self._clock, self._next_s = runner, clock, first_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def execute(self, step: ScheduleStep) -> StepResult:
        if not step.is_empty:
            self._clock.now += self._next_s
            self._next_s = STEP_S
        return self._runner.execute(step)


def workload() -> BenchWorkload:
    sampling = SamplingParams(max_tokens=6, ignore_eos=True)
    requests = tuple(TimedRequest(0, Request(f"r{i}", (40 + i, 41, 42), sampling)) for i in range(4))
    return BenchWorkload({}, requests)


def measured(monkeypatch: pytest.MonkeyPatch, first_s: float) -> bench.Measurement:
    clock = Clock()
    monkeypatch.setattr(bench, "time", clock)
    runner: Any = TimedRunner(toy_runner(), clock, first_s)
    policy = SchedulerPolicy(max_num_seqs=4)
    bench.warm_up(runner, policy, workload())
    return bench.run_workload(runner, policy, workload().requests)


def test_f62_a_first_step_ten_times_as_slow_moves_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, slow = measured(monkeypatch, STEP_S), measured(monkeypatch, 10 * STEP_S)
    assert usual.wall_s == pytest.approx(6 * STEP_S)  # one prefill and five decodes, all four together
    assert slow.wall_s == pytest.approx(usual.wall_s)
    assert [wall for wall, _ in slow.steps] == pytest.approx([STEP_S] * 6)
    for request_id, times in usual.times.items():
        assert slow.times[request_id].tokens == pytest.approx(times.tokens)


def test_f62_a_refused_request_is_reported_beside_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = toy_runner()
    too_long = Request("too-long", tuple([40] * (runner.info.max_model_len + 1)), SamplingParams(max_tokens=1))
    requests = (*workload().requests, TimedRequest(0, too_long))
    found = bench.run_workload(runner, SchedulerPolicy(max_num_seqs=4), requests)
    assert list(found.rejected) == ["too-long"]
    assert "too-long" not in found.times
