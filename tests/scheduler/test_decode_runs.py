"""Decode runs against the general path: the same requests, two schedulers, every field of every step and snapshot."""

from __future__ import annotations

import pickle
import random
from dataclasses import fields, replace

import msgspec
import pytest

from scheduler import (
    Request,
    SamplingParams,
    Scheduler,
    SchedulerPolicy,
    ScheduleStep,
    StepResult,
    StepSnapshot,
    StepTimings,
)
from scheduler.invariants import check, check_empty, check_snapshot
from scheduler.on_demand import DecodeSnapshot, DecodeStep
from scheduler.policy import limit_problems
from scheduler.simulate import VirtualClock
from tests.scheduler.trace_driver import STOP_TOKEN, random_policy


class GeneralScheduler(Scheduler):
    """The same scheduler without decode runs."""

    def _begin_run(self, snapshot: StepSnapshot) -> None:
        return


def assert_same(made: ScheduleStep | StepSnapshot, expected: ScheduleStep | StepSnapshot, seed: int) -> None:
    for field in fields(expected):
        ours, theirs = getattr(made, field.name), getattr(expected, field.name)
        assert ours == theirs, f"seed {seed}, step {expected.step_id}, {field.name}: {ours} != {theirs}"
        assert type(ours) is type(theirs), field.name
        if isinstance(ours, dict):
            assert list(ours) == list(theirs), f"order of {field.name}"


class Twins:
    """One random workload on both schedulers. Half of the steps are read at once, the others when all is over."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.clock = VirtualClock()
        self.max_model_len = rng.choice((33, 65, 120))
        num_blocks = rng.randint(8, 200)
        policy = self.policy(num_blocks)
        block_size = rng.choice((1, 2, 3, 4, 8, 16, 32))
        sizes = {"num_blocks": num_blocks, "block_size": block_size, "max_model_len": self.max_model_len}
        limit = rng.choice((None, 3))
        self.both = tuple(
            kind(policy, **sizes, clock=self.clock, snapshot_waiting_limit=limit, eos_token_ids=(2,))
            for kind in (Scheduler, GeneralScheduler)
        )
        self.names: list[str] = []
        self.unread: list[tuple[object, object]] = []
        self.run_steps = 0

    def policy(self, num_blocks: int) -> SchedulerPolicy:
        while True:
            policy = random_policy(self.rng, num_blocks)
            if self.rng.random() < 0.7:
                policy = replace(policy, batching="continuous", max_num_batched_tokens=64)
            if not limit_problems(policy, self.max_model_len):
                return policy

    def keep(self, made: object, expected: object) -> None:
        self.run_steps += isinstance(made, DecodeStep)
        if self.rng.random() < 0.5:
            assert_same(made, expected, self.seed)
        else:
            self.unread.append((made, expected))

    def ask(self, name: str, *arguments: object) -> None:
        ours, theirs = (getattr(scheduler, name)(*arguments) for scheduler in self.both)
        assert ours == theirs
        if isinstance(ours, StepSnapshot):
            self.keep(ours, theirs)

    def arrive(self) -> None:
        rng = self.rng
        name = f"r{len(self.names)}"
        self.names.append(name)
        sampling = SamplingParams(
            max_tokens=rng.choice((None, 1, 5, 20, 60)),
            min_tokens=rng.choice((0, 0, 1)),
            stop_token_ids=(STOP_TOKEN,) if rng.random() < 0.1 else (),
            ignore_eos=rng.random() < 0.8,
        )
        prompt = tuple(rng.choices(range(100), k=rng.randint(1, self.max_model_len // 2)))
        if rng.random() < 0.5:
            prompt = tuple(range(len(prompt)))  # a prefix to be shared, while the cache is on
        self.ask("add", Request(name, prompt, sampling, rng.randint(-2, 2)))

    def step(self) -> None:
        rng = self.rng
        made, expected = (scheduler.schedule() for scheduler in self.both)
        self.keep(made, expected)
        ids = expected.sampling_ids
        self.disturb(0.02)
        self.clock.now += 0.1
        if rng.random() < 0.02:
            return  # the result is lost
        step_id = made.step_id - (rng.random() < 0.02)
        sampled = {request_id: rng.randrange(100) if rng.random() < 0.2 else 50 for request_id in ids}
        if sampled and rng.random() < 0.01:
            del sampled[rng.choice(list(sampled))]
        result = StepResult(step_id, sampled, StepTimings(execute_s=rng.random()))
        self.ask_update(result)
        self.clock.now += 0.1
        self.disturb(0.02)

    def ask_update(self, result: StepResult) -> None:
        self.keep(*(scheduler.update(result) for scheduler in self.both))

    def disturb(self, probability: float) -> None:
        """Whatever else may happen between two calls."""
        rng, draw = self.rng, self.rng.random
        if draw() < probability and self.names:
            self.ask("abort", rng.choice(self.names))
        if draw() < probability and self.names:
            self.ask("preempt", rng.choice(self.names))
        if draw() < probability:
            self.ask("set_policy", self.policy(self.both[0].pool.num_blocks))
        if draw() < probability:
            self.ask("peek")
        if draw() < probability:
            self.compare_state()

    def compare_state(self) -> None:
        ours, theirs = self.both
        check(ours)
        for name in ("computed_tokens", "block_tables", "running_ids", "waiting_ids", "totals", "memory_use", "policy"):
            assert getattr(ours, name) == getattr(theirs, name), f"seed {self.seed}: {name}"
        for mine, yours in zip(ours.sequences()[0], theirs.sequences()[0], strict=True):
            for slot in type(mine).__slots__:
                assert getattr(mine, slot) == getattr(yours, slot), f"seed {self.seed}: {slot} of {mine.request_id}"

    def run(self) -> int:
        """Steps taken by a decode run."""
        for _ in range(60):
            if self.rng.random() < 0.2:
                self.arrive()
            self.step()
        self.ask("set_policy", replace(self.both[0].policy, admission_paused=False))
        for _ in range(20_000):
            if not self.both[0].has_unfinished:
                break
            self.step()
        self.ask("peek")
        for made, expected in self.unread:
            assert_same(made, expected, self.seed)
            if isinstance(made, StepSnapshot):
                check_snapshot(made)
        for scheduler in self.both:
            check_empty(scheduler)
        return self.run_steps


@pytest.mark.parametrize("block", range(4))
def test_steps_and_snapshots_of_decode_runs_equal_those_of_the_general_path(block: int) -> None:
    in_runs = sum(Twins(seed).run() for seed in range(block * 100, (block + 1) * 100))
    assert in_runs > 1_000


def decode_step() -> tuple[DecodeStep, DecodeSnapshot]:
    """A step of a run, and its snapshot, read by nobody yet."""
    scheduler = Scheduler(SchedulerPolicy(), num_blocks=64, block_size=4, max_model_len=64, clock=lambda: 1.0)
    for number in range(3):
        scheduler.add(Request(f"r{number}", (1, 2, 3), SamplingParams(max_tokens=30)))
    for _ in range(6):
        step = scheduler.schedule()
        snapshot = scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 9)))
    assert isinstance(step, DecodeStep)
    assert isinstance(snapshot, DecodeSnapshot)
    return step, snapshot


def test_every_field_of_a_step_and_a_snapshot_can_be_read() -> None:
    for item in decode_step():
        assert {field.name for field in fields(item)} <= {name for name in dir(type(item)) if hasattr(item, name)}


def test_a_snapshot_of_a_run_travels_like_any_other() -> None:
    step, snapshot = decode_step()
    encoded = msgspec.msgpack.encode(snapshot)
    assert msgspec.msgpack.decode(encoded, type=StepSnapshot) == snapshot
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert pickle.loads(pickle.dumps(step)) == step
    timed = replace(decode_step()[1], timings=StepTimings(execute_s=2.0))
    assert timed.timings.execute_s == 2.0
    assert replace(timed, timings=StepTimings()) == snapshot
    assert timed != snapshot


def test_a_kept_step_does_not_change_when_the_run_goes_on() -> None:
    scheduler = Scheduler(SchedulerPolicy(), num_blocks=64, block_size=4, max_model_len=64, clock=lambda: 1.0)
    scheduler.add(Request("r", (1, 2, 3), SamplingParams(max_tokens=50)))
    kept = []
    for index in range(30):
        step = scheduler.schedule()
        kept.append((step, scheduler.update(StepResult(step.step_id, {"r": 100 + index}))))
    for index, (step, snapshot) in enumerate(kept):
        if index:
            assert step.token_ids == {"r": (99 + index,)}
            assert step.positions_start == {"r": 2 + index}
        assert snapshot.new_tokens == {"r": 100 + index}
        assert snapshot.running.num_output_tokens == (index + 1,)
        assert snapshot.running.num_computed_tokens == (3 + index,)
        assert snapshot.running.block_ids == (tuple(range(1, 2 + (2 + index) // 4)),)
        assert snapshot.totals.output_tokens == index + 1


def test_a_step_of_a_run_cannot_be_written() -> None:
    step, snapshot = decode_step()
    with pytest.raises(AttributeError):
        step.step_id = 3
    with pytest.raises(AttributeError):
        snapshot.num_waiting = 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        step.nothing  # noqa: B018
