"""A scheduler restored from a snapshot goes on as the one it was taken from."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, ScheduleStep, StepResult, StepSnapshot
from scheduler.invariants import check, check_snapshot
from scheduler.policy import limit_problems
from scheduler.restore import restore
from scheduler.simulate import VirtualClock
from tests.scheduler.trace_driver import random_policy

STEPS_FOLLOWED = 120


def decisions(step: ScheduleStep, scheduler: Scheduler) -> tuple[object, ...]:
    return (
        tuple(step.num_scheduled_tokens.items()),
        tuple(step.num_padding_tokens.items()),
        tuple(step.kinds.items()),
        step.preempted,
        scheduler.running_ids,
        scheduler.waiting_ids,
        scheduler.pool.num_used_blocks,
    )


class Play:
    """Requests drawn from a seed, one second a step, ends by length only."""

    def __init__(self, seed: int, **pinned: object) -> None:
        rng = random.Random(seed)
        self.max_model_len = rng.choice((33, 65, 120))
        num_blocks, host_blocks = rng.randint(8, 64), rng.choice((0, 32))
        policy = None
        while policy is None or limit_problems(policy, self.max_model_len, host_blocks):
            drawn = random_policy(rng, num_blocks)
            policy = replace(drawn, enable_prefix_caching=False, admission_paused=False, **pinned)
        self.clock = VirtualClock()
        self.scheduler = Scheduler(
            policy,
            num_blocks=num_blocks,
            block_size=rng.choice((1, 2, 4, 8, 16)),
            max_model_len=self.max_model_len,
            clock=self.clock,
            num_host_blocks=host_blocks,
        )
        longest = self.max_model_len // 2
        self.coming = [
            (rng.randint(0, 40), n, rng.randint(1, longest), rng.randint(1, longest)) for n in range(rng.randint(3, 30))
        ]
        self.fork_at = rng.randint(3, 60)
        self.steps: list[tuple[object, ...]] = []

    def step(self, scheduler: Scheduler, index: int) -> StepSnapshot:
        self.clock.now = float(index)
        for at, n, prompt, output in sorted(self.coming):
            if at == index:
                sampling = SamplingParams(max_tokens=output, ignore_eos=True)
                scheduler.add(Request(f"r{n:02}", (0,) * prompt, sampling, n % 3, float(at)))
        step = scheduler.schedule()
        self.steps.append(decisions(step, scheduler))
        return scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 0)))

    def until_fork(self) -> StepSnapshot:
        return [self.step(self.scheduler, index) for index in range(self.fork_at + 1)][-1]

    def follow(self, scheduler: Scheduler, *, checked: bool = False) -> list[tuple[object, ...]]:
        self.steps = []
        for index in range(self.fork_at + 1, self.fork_at + 1 + STEPS_FOLLOWED):
            self.step(scheduler, index)
            if checked:
                check(scheduler)
        return self.steps


def test_where_nothing_was_guessed_the_restored_scheduler_decides_the_same_in_every_step():
    followed = 0
    for seed in range(45):
        play = Play(seed)
        snapshot = play.until_fork()
        restored = restore(snapshot, max_model_len=play.max_model_len, clock=play.clock)
        if not restored.guesses and play.scheduler.has_unfinished:
            followed += 1
            assert play.follow(restored.scheduler) == play.follow(play.scheduler), f"seed {seed}"
    assert followed > 12


def test_the_restored_state_holds_every_invariant_then_and_afterwards():
    for seed in range(15):
        play = Play(seed)
        snapshot = play.until_fork()
        scheduler = restore(snapshot, max_model_len=play.max_model_len, clock=play.clock).scheduler
        check(scheduler)
        check_snapshot(scheduler.peek())
        assert scheduler.running_ids == snapshot.running.request_id
        assert scheduler.waiting_ids == snapshot.waiting.request_id
        assert scheduler.totals == snapshot.totals
        play.follow(scheduler, checked=True)


def test_another_policy_from_the_fork_on_is_what_a_change_at_that_moment_would_have_done():
    followed = 0
    for seed in range(25):
        play = Play(seed, batching="continuous", preemption_mode="recompute", head_of_line="strict")
        snapshot = play.until_fork()
        restored = restore(snapshot, max_model_len=play.max_model_len, clock=play.clock)
        if restored.guesses or not play.scheduler.has_unfinished:
            continue
        rival = replace(
            play.scheduler.policy, max_num_seqs=3, admission_order="shortest_job", prefill_mix="prefill_first"
        )
        assert restored.scheduler.set_policy(rival) == play.scheduler.set_policy(rival)
        followed += 1
        assert play.follow(restored.scheduler) == play.follow(play.scheduler), f"seed {seed}"
    assert followed > 5


def test_waiting_requests_beyond_the_rows_of_the_snapshot_are_counted_and_get_average_lengths():
    clock = VirtualClock()
    sizes = {"num_blocks": 40, "block_size": 4, "max_model_len": 64}
    policy = SchedulerPolicy(max_num_seqs=1)
    scheduler = Scheduler(policy, clock=clock, snapshot_waiting_limit=2, **sizes)
    for n in range(6):
        scheduler.add(Request(f"r{n}", (0,) * 10, SamplingParams(max_tokens=5), 0, 0.0))
    step = scheduler.schedule()
    snapshot = scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 0)))
    restored = restore(snapshot, max_model_len=64, clock=clock)
    assert restored.guesses == {"unseen_waiting": 3}
    check(restored.scheduler)
    assert restored.scheduler.waiting_ids == ("r1", "r2", "unseen-1", "unseen-2", "unseen-3")
    assert restored.scheduler.peek().num_waiting_tokens == snapshot.num_waiting_tokens


def test_nothing_of_the_original_changes_when_the_restored_one_goes_on():
    play = Play(7)
    snapshot = play.until_fork()
    before = play.scheduler.totals, play.scheduler.running_ids, play.scheduler.block_tables
    play.follow(restore(snapshot, max_model_len=play.max_model_len, clock=play.clock).scheduler)
    assert (play.scheduler.totals, play.scheduler.running_ids, play.scheduler.block_tables) == before


def test_a_policy_that_is_not_known_here_is_refused_by_name():
    play = Play(3)
    snapshot = replace(play.until_fork(), policy=replace(play.scheduler.policy, preemption_victim="somebody_elses"))
    with pytest.raises(ValueError, match="preemption_victim is 'somebody_elses'"):
        restore(snapshot, max_model_len=play.max_model_len, clock=play.clock)
