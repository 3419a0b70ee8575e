"""Random traces: arrivals, aborts and policy changes drawn from a seed, every invariant checked after every call."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler import (
    Request,
    SamplingParams,
    Scheduler,
    SchedulerPolicy,
    ScheduleStep,
    StepEvent,
    StepResult,
    StepSnapshot,
    choices,
    problems,
)
from scheduler.invariants import check, check_empty, check_snapshot, check_step
from scheduler.policy import limit_problems
from scheduler.simulate import VirtualClock
from scheduler.snapshot import RequestRecord, ResumeRecord, Totals

NAMED_FIELDS = (
    "batching",
    "admission_order",
    "admission_rule",
    "head_of_line",
    "prefill_mix",
    "preemption_mode",
    "preemption_victim",
    "preemption_requeue",
    "allocation",
)
STOP_TOKEN = 7
STEM = tuple(range(50, 110))


@dataclass
class Trace:
    """What a run leaves behind for assertions."""

    seed: int
    steps: int = 0
    submitted: list[str] = field(default_factory=list)
    events: list[StepEvent] = field(default_factory=list)
    records: list[RequestRecord] = field(default_factory=list)
    resumes: list[ResumeRecord] = field(default_factory=list)
    lost_results: int = 0
    totals: list[Totals] = field(default_factory=list)
    step_bound: int = 1_000
    policies: set[tuple[str, str]] = field(default_factory=set)


def random_policy(rng: random.Random, num_blocks: int) -> SchedulerPolicy:
    """Any policy a user could set by the controls; contradicting limits included."""
    named = {name: rng.choice(choices(name)) for name in NAMED_FIELDS}
    caching = rng.random() < 0.5
    if caching and rng.random() < 0.6:
        named |= {"batching": "continuous", "allocation": "paged"}  # where it acts
    return SchedulerPolicy(
        **named,
        max_num_seqs=rng.choice((1, 2, 3, 5, 8, 16)),
        max_num_batched_tokens=rng.randint(1, 64),
        kv_watermark=rng.choice((0.0, 0.0, 0.05, 0.3, 0.9)),
        admission_paused=rng.random() < 0.05,
        enable_chunked_prefill=rng.random() < 0.7,
        long_prefill_token_threshold=rng.choice((0, 0, 1, 3, 8)),
        kv_block_limit=rng.choice((None, None, rng.randint(1, num_blocks))),
        enable_prefix_caching=caching,
    )


def random_request(rng: random.Random, name: str, max_model_len: int) -> Request:
    """Mostly sensible requests, every other with a prefix that others have as well; some that can never run."""
    prompt = rng.randint(1, max(1, max_model_len // 2))
    if rng.random() < 0.03:
        prompt = rng.choice((0, max_model_len, max_model_len + 5))
    prior = tuple(rng.choices(range(100), k=rng.randint(1, 3))) if rng.random() < 0.1 else ()
    sampling = SamplingParams(
        max_tokens=rng.choice((None, 1, 2, 3, 5, 8, 20)),
        min_tokens=rng.choice((0, 0, 1)),
        stop_token_ids=(STOP_TOKEN,) if rng.random() < 0.3 else (),
    )
    common = rng.randint(0, prompt) if rng.random() < 0.5 else 0
    token_ids = (*STEM[:common], *rng.choices(range(100), k=max(0, prompt - len(STEM[:common]))))
    return Request(name, token_ids, sampling, rng.randint(-2, 2), None, prior)


class Driver:
    """One trace. Time moves by a tenth of a second a step; tokens are drawn, so stop tokens come at random.

    pinned: policy fields that keep their value through all changes of policy.
    """

    def __init__(self, seed: int, pinned: Mapping[str, str]) -> None:
        self.rng = rng = random.Random(seed)
        self.pinned = pinned
        self.trace = Trace(seed)
        self.clock = VirtualClock()
        num_blocks = rng.randint(1, 64)
        block_size = rng.randint(1, rng.choice((4, 32)))
        self.max_model_len = rng.choice((2, 9, 33, 65, 65, 120))
        self.num_host_blocks = rng.choice((0, 1, rng.randint(1, 64), num_blocks))
        if pinned.get("preemption_mode") == "swap":
            self.num_host_blocks = max(1, self.num_host_blocks)
        policy = replace(random_policy(rng, num_blocks), **pinned)
        while limit_problems(policy, self.max_model_len, self.num_host_blocks):
            policy = replace(random_policy(rng, num_blocks), **pinned)
        self.scheduler = Scheduler(
            policy,
            num_blocks=num_blocks,
            block_size=block_size,
            max_model_len=self.max_model_len,
            clock=self.clock,
            snapshot_waiting_limit=rng.choice((None, 3)),
            num_host_blocks=self.num_host_blocks,
        )
        self.names: list[str] = []

    def run(self, busy_steps: int) -> Trace:
        """A busy phase with arrivals, aborts and policy changes; then no more of them until everything has ended."""
        for _ in range(busy_steps):
            self.arrive()
            if self.rng.random() < 0.15:
                self.abort()
            if self.rng.random() < 0.1:
                self.change_policy()
            if self.rng.random() < 0.1:
                self.preempt()
            self.step()
        self.scheduler.set_policy(replace(self.scheduler.policy, admission_paused=False))
        drained_in = 0
        while self.scheduler.has_unfinished:
            self.step()
            drained_in += 1
            assert drained_in <= self.trace.step_bound, f"seed {self.trace.seed} does not drain"
        self.keep(self.scheduler.peek())
        check_empty(self.scheduler)
        return self.trace

    def arrive(self) -> None:
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 3))):
            reuse = self.names and self.rng.random() < 0.05
            name = self.rng.choice(self.names) if reuse else f"r{len(self.names)}"
            request = random_request(self.rng, name, self.max_model_len)
            outcome = self.scheduler.add(request)
            self.trace.submitted.append(name)
            if outcome.accepted:
                self.names.append(name)
                self.trace.step_bound += 4 * self.max_model_len
            else:
                assert outcome.reason
            check(self.scheduler)

    def abort(self) -> None:
        if self.names:
            self.scheduler.abort(self.rng.choice(self.names))
            check(self.scheduler)

    def preempt(self) -> None:
        if self.names:
            name = self.rng.choice(self.names)
            runs = name in self.scheduler.running_ids
            assert (self.scheduler.preempt(name).kind == "preempted") <= runs
            check(self.scheduler)

    def change_policy(self) -> None:
        before = self.scheduler.policy
        wanted = replace(random_policy(self.rng, self.scheduler.pool.num_blocks), **self.pinned)
        if self.rng.random() < 0.2:
            wanted = replace(wanted, max_num_seqs=self.rng.choice((0, -1, True, None, "8", 1.5)))
        outcome = self.scheduler.set_policy(wanted)
        legal = not problems(wanted) and not limit_problems(wanted, self.max_model_len, self.num_host_blocks)
        assert outcome.accepted == legal
        assert legal or (self.scheduler.policy == before and outcome.reasons)
        check(self.scheduler)

    def step(self) -> None:
        scheduler, trace = self.scheduler, self.trace
        trace.policies |= {(name, getattr(scheduler.policy, name)) for name in NAMED_FIELDS}
        running_before = len(scheduler.running_ids)
        step = scheduler.schedule()
        check(scheduler)
        check_step(scheduler, step, running_before=running_before)
        assert step.policy_version == scheduler.policy.version
        if self.rng.random() < 0.05:
            self.abort()
        if self.rng.random() < 0.05:
            self.change_policy()
        if self.rng.random() < 0.05:
            self.preempt()
        self.clock.now += 0.1
        if self.rng.random() < 0.03:
            self.keep(scheduler.update(StepResult(step.step_id - 1, dict.fromkeys(step.sampling_ids, 1))))
        if self.rng.random() < 0.03:
            trace.lost_results += 1
            self.execute(step, lost=True)
            return  # the result is lost; the next schedule() plans the tokens again
        self.execute(step, lost=False)
        sampled = {request_id: self.rng.randrange(100) for request_id in step.sampling_ids}
        snapshot = scheduler.update(StepResult(step.step_id, sampled))
        check(scheduler)
        trace.steps += 1
        self.keep(snapshot)

    def execute(self, step: ScheduleStep, *, lost: bool) -> None:
        """The device's part; nothing here. lost: nobody will hear of it."""

    def keep(self, snapshot: StepSnapshot) -> None:
        check_snapshot(snapshot)
        self.trace.events += snapshot.events
        self.trace.records += snapshot.records
        self.trace.resumes += snapshot.resumes
        self.trace.totals.append(snapshot.totals)


def run_trace(seed: int, busy_steps: int = 20, **pinned: str) -> Trace:
    """Run one trace; raises on the first broken invariant."""
    return Driver(seed, pinned).run(busy_steps)
