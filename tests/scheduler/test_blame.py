"""Who kept a request waiting: by hand on small cases, and as sums on random traces."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from scheduler import Scheduler, SchedulerPolicy, ScheduleStep, StepResult, StepSnapshot, StepTimings
from scheduler.blame import Blame
from scheduler.blame_life import FOLDED_AT_ONCE, KEPT_STRETCHES, Life
from scheduler.blame_parts import CAUSES, DEFERRED, nanoseconds
from scheduler.events import DEFER_REASONS
from scheduler.simulate import Simulation, VirtualClock
from scheduler.workload import WorkloadRequest
from tests.scheduler import trace_driver
from tests.scheduler.helpers import request
from tests.scheduler.trace_driver import Driver

S = 1_000_000_000
SEEDS_A_BLOCK = 200


class Timed:
    """A scheduler whose steps take as long as the test says; time passes between planning and result."""

    def __init__(self, num_blocks: int = 64, block_size: int = 4, **policy: object) -> None:
        fields = {"max_num_batched_tokens": 64, "max_num_seqs": 8, "prefill_mix": "running_order"} | policy
        self.clock = VirtualClock()
        self.scheduler = Scheduler(
            SchedulerPolicy(**fields),
            num_blocks=num_blocks,
            block_size=block_size,
            max_model_len=200,
            clock=self.clock,
        )
        self.blame = Blame()

    def add(self, name: str, prompt: int, max_tokens: int) -> None:
        assert self.scheduler.add(request(name, prompt, max_tokens)).accepted

    def step(self, execute_s: float = 1.0, before_s: float = 0.0, swap_s: float = 0.0) -> StepSnapshot:
        """before_s: from the end of the last step to the plan of this one."""
        self.clock.now += before_s
        step = self.scheduler.schedule()
        self.clock.now += swap_s + execute_s
        timings = StepTimings(execute_s=execute_s, swap_out_s=swap_s)
        result = StepResult(step.step_id, dict.fromkeys(step.sampling_ids, 1), timings)
        snapshot = self.scheduler.update(result)
        self.blame.add(snapshot)
        return snapshot

    def drain(self) -> None:
        while self.scheduler.has_unfinished:
            self.step()

    def life(self, name: str) -> Life:
        life = self.blame.life(name)
        assert life is not None
        return life


def told(parts) -> list[tuple[int, str, str, int]]:
    return [(part.length, part.cause, part.request_id, part.tokens) for part in parts]


def check_sums(life: Life) -> None:
    """Contiguous, each longer than nothing, and together the whole life; every gap likewise."""
    at = life.known_from
    for part in life.parts:
        assert part.start == at < part.end
        assert part.cause in CAUSES
        at = part.end
    assert at == life.until
    assert sum(life.totals.values()) == life.end_to_end >= 0
    gaps = life.gaps()
    assert all(sum(part.length for part in gap.parts) == gap.length for gap in gaps)
    assert sum(gap.length for gap in gaps) == life.until - life.known_from


def test_a_long_prefill_is_named_in_the_gap_of_the_decode_it_stalls():
    timed = Timed()
    timed.add("a", 4, 3)
    timed.step(execute_s=1.0)
    timed.add("long", 59, 1)
    timed.step(execute_s=3.0)  # 1 + 59 tokens: a's own share is a sixtieth
    timed.step(execute_s=1.0)
    first, stalled, free = timed.life("a").gaps()
    assert told(first.parts) == [(1 * S, "own_prefill", "a", 4)]
    assert told(stalled.parts) == [
        (3 * S // 60, "own_decode", "a", 1),
        (3 * S * 59 // 60, "others_prefill", "long", 59),
    ]
    assert told(free.parts) == [(1 * S, "own_decode", "a", 1)]
    assert told(timed.life("long").parts) == [
        (3 * S * 59 // 60, "own_prefill", "long", 59),
        (3 * S // 60, "others_decode", "", 1),
    ]


def test_decodes_of_others_count_together_and_the_time_outside_the_pass_is_overhead():
    timed = Timed()
    for name in "abcd":
        timed.add(name, 2, 3)
    timed.step(execute_s=1.0, before_s=0.5)
    timed.step(execute_s=1.0, before_s=0.25)
    second = timed.life("b").gaps()[1]
    assert told(second.parts) == [
        (S // 4, "overhead", "", 0),
        (S // 4, "own_decode", "b", 1),
        (3 * S // 4, "others_decode", "", 3),
    ]
    assert second.parts[-1].num_requests == 3


def test_an_eviction_is_a_wait_and_then_a_recompute():
    timed = Timed(num_blocks=4, preemption_victim="newest", admission_rule="next_chunk")
    timed.add("a", 7, 6)
    timed.add("b", 7, 6)
    timed.step()  # two blocks each, the pool is full
    timed.step()  # eight tokens each
    evicting = timed.step()
    assert evicting.preempted == ("b",)
    timed.drain()
    life = timed.life("b")
    check_sums(life)
    assert life.outcome == "finished"
    waits = [part for part in life.parts if part.cause == "preempted"]
    evicted = next(m for m in life.moments if m.kind == "preempted")
    back = next(m for m in life.moments if m.kind == "resumed")
    assert (evicted.request_id, evicted.step_id) == ("a", evicting.step_id)
    assert (waits[0].start, waits[-1].end) == (evicted.at, back.at)
    again = [part for part in life.parts if part.cause == "own_recompute"]
    assert [(part.start, part.tokens) for part in again] == [(back.at, 9)]
    assert life.totals == {
        "own_prefill": S // 2, "others_prefill": S // 2, "own_decode": S // 2 + 3 * S, "others_decode": S // 2,
        "preempted": back.at - evicted.at, "own_recompute": S,
    }  # fmt: skip


def test_a_wait_for_memory_names_who_holds_it_and_ends_with_the_admission():
    timed = Timed(num_blocks=4)
    timed.add("big", 12, 4)
    timed.step()
    timed.add("next", 8, 1)
    timed.drain()
    life = timed.life("next")
    waited = next(m for m in life.moments if m.kind == "admitted").at - life.arrival
    memory = [part for part in life.parts if part.cause == "memory"]
    assert sum(part.length for part in memory) == waited > 0
    assert {(part.request_id, part.reason) for part in memory} == {("big", "kv_capacity")}
    assert told(life.parts)[-1] == (S, "own_prefill", "next", 8)


def test_a_request_that_arrives_in_a_step_waits_for_its_end():
    timed = Timed()
    timed.add("a", 4, 8)
    timed.step()
    timed.clock.now += 0.5
    timed.add("b", 4, 1)
    timed.step(execute_s=1.0, before_s=0.25)
    assert told(timed.life("b").parts)[0] == (S // 4, "queue_step", "", 0)


def test_copies_are_booked_apart_and_name_whose_blocks_moved():
    timed = Timed(num_blocks=4, preemption_mode="swap", preemption_victim="newest", admission_rule="next_chunk")
    timed.add("a", 7, 6)
    timed.add("b", 7, 6)
    timed.step()
    timed.step()
    assert timed.step(swap_s=0.5).preempted == ("b",)
    last = timed.life("a").gaps()[2]
    assert told(last.parts) == [(S // 2, "swap", "b", 0), (S, "own_decode", "a", 1)]


def test_rows_of_a_static_batch_wait_for_its_end():
    timed = Timed(batching="static")
    timed.add("short", 4, 1)
    timed.add("long", 4, 3)
    timed.drain()
    life = timed.life("short")
    check_sums(life)
    assert life.totals["batch_end"] == 2 * S
    assert [gap.number for gap in life.gaps()] == [1, 0]


def test_a_life_goes_on_in_the_next_run_of_the_engine_after_a_time_without_one():
    timed = Timed()
    timed.add("a", 4, 8)
    timed.step()
    timed.step()
    other = Timed()
    other.clock.now = 1.0
    arrived = replace(request("a", 4, 8), arrival_time=-4.0, prior_output_token_ids=(1, 1))
    assert other.scheduler.add(arrived).accepted
    other.clock.now += 1.0
    step = other.scheduler.schedule()
    other.clock.now += 1.0
    snapshot = other.scheduler.update(StepResult(step.step_id, {"a": 1}, StepTimings(execute_s=1.0)))
    timed.blame.add(snapshot, run_id="second")
    life = timed.life("a")
    check_sums(life)
    assert life.arrival == -4 * S
    assert told(life.parts) == [
        (S, "own_prefill", "a", 4),
        (S, "own_decode", "a", 1),
        (3 * S, "away", "", 0),
        (S, "queue_step", "", 0),
        (S, "own_prefill", "a", 6),
    ]
    assert [token.number for token in life.tokens] == [1, 2, 3]


def test_steps_long_gone_are_folded_and_the_sum_stays():
    timed = Timed(num_blocks=400, max_num_batched_tokens=256)
    timed.scheduler = Scheduler(
        SchedulerPolicy(max_num_batched_tokens=2048, admission_rule="next_chunk"),
        num_blocks=800, block_size=4, max_model_len=2000, clock=timed.clock,
    )  # fmt: skip
    timed.add("a", 4, 1500)
    timed.drain()
    life = timed.life("a")
    check_sums(life)
    assert len(life.parts) < KEPT_STRETCHES + FOLDED_AT_ONCE
    assert life.folded_tokens + len(life.tokens) == 1500
    assert (life.end_to_end, life.totals) == (1500 * S, {"own_prefill": S, "own_decode": 1499 * S})


def test_only_the_newest_lives_are_kept():
    timed = Timed()
    timed.blame = Blame(kept=3)
    for i in range(8):
        timed.add(f"r{i}", 2, 1)
        timed.step()
    assert timed.blame.ids() == ["r7", "r6", "r5"]
    assert timed.blame.life("r1") is None


def test_steps_that_nobody_saw_are_called_unseen_and_those_that_left_are_lost():
    timed = Timed()
    timed.add("a", 4, 20)
    timed.add("gone", 4, 3)
    timed.step()
    watching, timed.blame = timed.blame, Blame()
    for _ in range(4):
        timed.step()
    timed.blame = watching
    timed.step()
    life = timed.life("a")
    check_sums(life)
    assert life.totals["unseen"] == 4 * S
    assert (timed.life("gone").outcome, life.outcome) == ("lost", "")


def test_an_arrival_that_was_told_between_two_steps_is_no_gap_in_the_life():
    """A paused engine tells of arrivals in a snapshot that is no step, and who reads steps only does not see it."""
    timed = Timed()
    timed.add("a", 4, 3)
    timed.step()
    timed.add("b", 4, 2)
    timed.scheduler.peek()
    timed.step(before_s=0.5)
    timed.drain()
    life = timed.life("b")
    check_sums(life)
    assert [moment.kind for moment in life.moments] == ["queued", "admitted", "finished"]
    assert life.totals["queue_step"] == S // 2
    assert "unseen" not in life.totals


def test_every_reason_to_wait_has_a_cause():
    assert set(DEFERRED) == {"", *DEFER_REASONS}
    assert set(DEFERRED.values()) <= set(CAUSES)


def test_a_simulation_is_read_like_an_engine():
    requests = [WorkloadRequest(f"r{i}", i // 2, 5 + i, 4, 0) for i in range(6)]
    policy = SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=8)
    blame, records = Blame(), []
    simulation = Simulation(policy, requests, num_blocks=32, block_size=4, max_model_len=64)
    for _, snapshot in simulation.run():
        blame.add(snapshot)
        records += snapshot.records
    assert len(records) == 6
    for record in records:
        life = blame.life(record.request_id)
        check_sums(life)
        assert life.end_to_end == nanoseconds(record.end_time) - nanoseconds(record.arrival_time)


class Watched(Driver):
    """A random trace with random times, read by a Blame; keeps each row's share of each pass by plain arithmetic."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, {})
        self.blame = Blame(kept=10_000)
        self.own: defaultdict[str, float] = defaultdict(float)
        self.times = random.Random(seed)
        self.moves = False
        schedule, update = self.scheduler.schedule, self.scheduler.update

        def planned() -> ScheduleStep:
            step = schedule()
            self.moves = bool(step.swapped_out or step.swapped_in)
            return step

        def timed(result: StepResult) -> StepSnapshot:
            execute_s, swap_s = self.times.uniform(0.001, 0.09), self.times.uniform(0.001, 0.01) * self.moves
            self.clock.now += self.times.uniform(0, 0.01)
            return update(replace(result, timings=StepTimings(execute_s=execute_s, swap_out_s=swap_s)))

        self.scheduler.schedule = planned  # type: ignore[method-assign]
        self.scheduler.update = timed  # type: ignore[method-assign]

    def arrive(self) -> None:
        super().arrive()
        self.clock.now += self.times.uniform(0, 0.005)

    def keep(self, snapshot: StepSnapshot) -> None:
        super().keep(snapshot)
        self.blame.add(snapshot)
        total = sum(snapshot.num_scheduled_tokens.values()) + sum(snapshot.num_padding_tokens.values())
        for name, tokens in snapshot.num_scheduled_tokens.items():
            self.own[name] += snapshot.timings.execute_s * tokens / total


@pytest.mark.parametrize("block", range(5))
def test_the_parts_of_every_life_add_up_exactly_to_its_end_to_end_time(block, monkeypatch):
    for name in ("check", "check_step", "check_snapshot"):  # held to on the same traces in test_random_traces
        monkeypatch.setattr(trace_driver, name, lambda *args, **kwargs: None)
    seen: Counter[str] = Counter()
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        driver = Watched(seed)
        trace = driver.run(9)
        once = Counter(record.request_id for record in trace.records)
        for record in trace.records:
            if record.outcome == "rejected" or once[record.request_id] > 1:
                continue
            life = driver.blame.life(record.request_id)
            check_sums(life)
            assert life.outcome == record.outcome
            assert (life.arrival, life.until) == (nanoseconds(record.arrival_time), nanoseconds(record.end_time))
            check_against_the_record(life, record, trace.lost_results > 0)
            own = sum(life.totals.get(f"own_{kind}", 0) for kind in ("prefill", "decode", "recompute"))
            if record.outcome == "finished" and not trace.lost_results:
                assert own / S == pytest.approx(driver.own[record.request_id], abs=1e-6), (seed, record)
            seen.update(life.totals.keys())
    assert set(CAUSES) - set(seen) <= {"away"}, "some cause was never drawn"


def check_against_the_record(life: Life, record, lost: bool) -> None:
    """Waits and tokens as the scheduler's own record has them."""
    if not lost:
        assert life.totals.get("preempted", 0) / S == pytest.approx(record.preempted_s, abs=1e-6)
    if record.first_scheduled_time is not None:
        let_in = next(moment.at for moment in life.moments if moment.kind == "admitted")
        assert let_in == nanoseconds(record.first_scheduled_time)
    if record.outcome == "finished":
        assert len(life.tokens) == record.num_output_tokens - record.num_prior_output_tokens
        assert life.tokens[0].at == nanoseconds(record.first_token_time)
        assert life.tokens[-1].at == nanoseconds(record.last_token_time)
