"""Fork and race: forecasts from a live step, against a scheduler that really goes on."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from experiments.virtual.cost import FittedCost
from experiments.virtual.fit import MIN_STEPS, FitError
from experiments.virtual.forecast import forecast
from experiments.virtual.future import Coming, Future, future_of
from experiments.virtual.race import check, fit_history, live_series, race, timed_steps
from experiments.virtual.work import work_of_snapshot, work_of_step
from model_runner.messages import SCHEMA_VERSION, EngineInfo, EngineSnapshot
from model_runner.traffic import TrafficSource, TrafficSpec
from model_runner.views import RequestView
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, StepResult
from scheduler.simulate import VirtualClock

MAX_MODEL_LEN = 128
COST = FittedCost((0.01, 0.001, 0.0, 0.0, 0.0, 0.0005, 1e-5, 0.002, 0.0, 0.0), "prices of a test")
INFO = EngineInfo("run", 1, "toy", "", 1, "cpu", "float32", 1, 8, 64, MAX_MODEL_LEN, 1, 1, "2", True)
POLICY = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=32)
RIVAL = replace(POLICY, max_num_seqs=8, prefill_mix="prefill_first")


def arrivals(seed: int, count: int, rate: float) -> list[Coming]:
    rng = random.Random(seed)
    at, found = 0.0, []
    for n in range(count):
        at += rng.expovariate(rate)
        output = rng.randint(1, 20)
        found.append(Coming(f"r{n + 1}", at, rng.randint(1, 40), output + rng.randint(0, 5), output))
    return found


class Engine:
    """A scheduler on a virtual clock whose steps take what ``COST`` says, publishing as the real engine does."""

    def __init__(self, coming: list[Coming], policy: SchedulerPolicy = POLICY) -> None:
        self.clock = VirtualClock()
        self.scheduler = Scheduler(
            policy,
            num_blocks=64,
            block_size=8,
            max_model_len=MAX_MODEL_LEN,
            clock=self.clock,
            eos_token_ids=(9,),
            snapshot_waiting_limit=64,
        )
        self.coming = list(coming)
        self.made: dict[str, int] = {}
        self.lengths = {each.request_id: each.output_len for each in coming}
        self.history: list[EngineSnapshot] = []

    def step(self) -> None:
        while self.coming and (self.coming[0].at_s <= self.clock.now or not self.scheduler.has_unfinished):
            each = self.coming.pop(0)
            self.clock.now = max(self.clock.now, each.at_s)
            sampling = SamplingParams(max_tokens=each.max_tokens)
            self.scheduler.add(Request(each.request_id, (0,) * each.prompt_len, sampling, each.priority, each.at_s))
        step = self.scheduler.schedule()
        seconds = COST.seconds(work_of_step(step))
        self.clock.now += seconds
        sampled = {}
        for name in step.sampling_ids:
            self.made[name] = self.made.get(name, 0) + 1
            sampled[name] = 9 if self.made[name] == self.lengths[name] else 0
        snapshot = self.scheduler.update(StepResult(step.step_id, sampled))
        self.history.append(
            EngineSnapshot(
                SCHEMA_VERSION, len(self.history), "run", "running", False, 0.0, 0.0, self.clock.now, seconds, snapshot,
                {}, INFO,
            )
        )  # fmt: skip

    def steps(self, count: int) -> Engine:
        for _ in range(count):
            self.step()
        return self


def future_after(engine: Engine) -> Future:
    """All that will come, and the true lengths."""
    return Future(tuple(engine.coming), dict(engine.lengths))


def test_under_the_same_policy_the_forecast_is_what_then_happens_step_by_step_and_second_by_second():
    for seed in range(4):
        engine = Engine(arrivals(seed, 60, 8.0)).steps(50)
        start = engine.history[-1].step
        ghost = forecast(start, POLICY, COST, future_after(engine), max_model_len=MAX_MODEL_LEN, max_steps=100)
        engine.steps(100)
        real = live_series(engine.history, start.step_id)
        for name in ("scheduled", "tokens", "waiting", "running", "used_blocks", "preemptions", "finished"):
            assert getattr(ghost.series, name) == getattr(real, name), name
        assert ghost.series.times_s == pytest.approx(real.times_s)
        assert ghost.series.ttft_s == pytest.approx(real.ttft_s)
        assert ghost.series.gaps_s == pytest.approx(real.gaps_s)


def test_a_rival_is_checked_by_the_steps_that_then_ran_under_it():
    engine = Engine(arrivals(3, 80, 10.0)).steps(60)
    result = race(engine.history, RIVAL, future_after(engine), max_model_len=MAX_MODEL_LEN, max_steps=80)
    assert check(result, engine.history) is None
    engine.scheduler.set_policy(RIVAL)
    engine.steps(80)
    found = check(result, engine.history)
    assert found is not None
    assert (found.started_late, found.identical_steps) == (0, 80)
    assert found.num_steps >= 78  # those within the time that both cover
    assert found.tokens_error < 0.02  # step times are fitted, decisions are the same
    assert found.queue_error < 0.5
    assert found.step_times is not None
    assert found.step_times.total_time < 0.05
    engine.scheduler.set_policy(POLICY)
    engine.steps(20)
    assert check(result, engine.history) == found  # what ran under yet another policy is left out


def test_the_fit_of_a_run_whose_times_follow_its_work_has_hardly_an_error():
    engine = Engine(arrivals(1, 120, 8.0)).steps(300)
    error = fit_history(engine.history).held_out_error
    assert error.total_time < 0.01
    assert error.median_step < 0.02


def test_the_work_read_from_snapshots_is_that_of_the_steps():
    engine = Engine(arrivals(2, 30, 20.0))
    works = []
    plan = engine.scheduler.schedule

    def schedule():
        step = plan()
        works.append(work_of_step(step))
        return step

    engine.scheduler.schedule = schedule
    engine.steps(60)
    read = [work_of_snapshot(snapshot.step) for snapshot in engine.history]
    # A request that ends by an end token has computed all but that token, by length too.
    assert read == works


def test_a_step_that_follows_the_one_before_takes_the_time_between_their_ends():
    engine = Engine(arrivals(2, 30, 20.0)).steps(40)
    slow = [*engine.history[:30], *(replace_time(snapshot, 0.5) for snapshot in engine.history[30:])]
    _, seconds = timed_steps(slow)
    assert seconds[30] == pytest.approx(engine.history[30].step_s + 0.5)
    assert seconds[20] == pytest.approx(engine.history[20].step_s)


def replace_time(snapshot: EngineSnapshot, by: float) -> EngineSnapshot:
    step = replace(snapshot.step, time=snapshot.step.time + by)
    values = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__} | {"step": step}
    return EngineSnapshot(**values)


def test_too_short_a_history_and_a_step_that_is_not_in_it_are_named():
    engine = Engine(arrivals(2, 30, 20.0)).steps(MIN_STEPS - 1)
    with pytest.raises(FitError, match="steps: 29"):
        race(engine.history, RIVAL, Future(), max_model_len=MAX_MODEL_LEN)
    with pytest.raises(FitError, match="no steps yet"):
        race([], RIVAL, Future(), max_model_len=MAX_MODEL_LEN)
    engine.steps(10)
    with pytest.raises(ValueError, match="at_step is 999, the history has steps 1 to 39"):
        race(engine.history, RIVAL, Future(), max_model_len=MAX_MODEL_LEN, at_step=999)


def test_a_rival_that_the_engine_would_refuse_is_refused_with_the_fields():
    engine = Engine(arrivals(2, 30, 20.0)).steps(40)
    rival = replace(POLICY, enable_chunked_prefill=False, max_num_batched_tokens=16)
    with pytest.raises(ValueError, match="enable_chunked_prefill is False and max_num_batched_tokens is 16"):
        race(engine.history, rival, Future(), max_model_len=MAX_MODEL_LEN)


def test_a_paused_rival_goes_on_all_the_same():
    engine = Engine(arrivals(2, 30, 20.0)).steps(40)
    ghost = forecast(
        engine.history[-1].step, replace(POLICY, paused=True), COST, future_after(engine), max_model_len=MAX_MODEL_LEN
    )
    assert ghost.series.tokens[-1] > 0


def test_arrivals_that_find_the_queue_full_are_dropped_as_the_traffic_does():
    engine = Engine(arrivals(2, 8, 1000.0), replace(POLICY, max_num_seqs=1)).steps(1)
    at = engine.clock.now
    more = tuple(Coming(f"t{n}", at, 5, 5, 5, droppable=n % 2 == 0) for n in range(6))
    future = Future(more, dict(engine.lengths), max_waiting=engine.history[-1].step.num_waiting + 1)
    ghost = forecast(engine.history[-1].step, POLICY, COST, future, max_model_len=MAX_MODEL_LEN, max_steps=1)
    assert ghost.dropped == 2  # t0 still found room, t1, t3 and t5 are not the traffic's


class Client:
    """What ``future_of`` asks of a RunnerClient."""

    def __init__(self, views: list[RequestView], traffic: TrafficSource) -> None:
        self._views = views
        self.traffic = traffic

    def requests(self) -> tuple[RequestView, ...]:
        return tuple(self._views)


def view(name: str, prompt: str, tokens: int, outcome: str = "", max_tokens: int = 10) -> RequestView:
    return RequestView(
        name, "user", prompt, tokens, "", (), max_tokens, 0, 0, outcome or "waiting", outcome, "", 0.0, 0
    )


def test_the_future_is_what_came_since_what_is_on_its_way_and_what_the_traffic_will_bring():
    engine = Engine(arrivals(5, 30, 10.0)).steps(60)
    at = engine.history[20].step
    traffic = TrafficSource(lambda arrival: True, spec=TrafficSpec(rate=5.0, seed=3, max_waiting=7))
    client = Client([view("r90", "abcd" * 3, 6), view("r91", "new", 0)], traffic)
    future = future_of(client, engine.history, at.step_id, 4.0)
    known = {*at.running.request_id, *at.waiting.request_id}
    later = {name for each in engine.history[21:] for name in each.step.running.request_id} - known
    names = [each.request_id for each in future.coming]
    assert later <= set(names)
    assert {"r90", "r91"} <= set(names)
    ahead = traffic.ahead(4.0)
    brought = [each for each in future.coming if each.droppable]
    assert [each.request_id for each in brought] == [f"r{92 + n}" for n in range(len(ahead))]
    assert [each.at_s for each in brought] == pytest.approx([engine.history[-1].engine_time + s for s, _ in ahead])
    assert [each.prompt_len for each in brought] == [max(1, round(len(a.prompt) / 2)) for _, a in ahead]
    assert future.max_waiting == 7
    ended = {r.request_id: r.num_output_tokens for each in engine.history[21:] for r in each.step.records}
    truly = {each.request_id: each.output_len for each in future.coming if each.request_id in ended}
    assert truly == {name: ended[name] for name in truly}
    assert future.assumptions["full_lengths"] > 0
