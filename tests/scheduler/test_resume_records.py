"""ResumeRecord: what each eviction cost, from measured times, each token and block counted once.

That records add up to the event log is checked of every random trace (``trace_checks.check_the_resumes``).
"""

from __future__ import annotations

from scheduler import ResumeRecord, StepResult, StepTimings
from tests.scheduler.helpers import TOKEN, Bench, bench, request


def drain_timed(made: Bench, timings: StepTimings) -> list[ResumeRecord]:
    """Run to the end with the same times in every step; one second a step on the clock."""
    records: list[ResumeRecord] = []
    while made.scheduler.has_unfinished:
        step = made.scheduler.schedule()
        sampled = dict.fromkeys(step.sampling_ids, TOKEN)
        records += made.scheduler.update(StepResult(step.step_id, sampled, timings)).resumes
        made.clock.now += 1.0
        assert step.step_id < 100
    return records


def test_a_recompute_costs_its_share_of_the_execute_time() -> None:
    made = bench([request("a", 8, 6), request("b", 8, 6)], num_blocks=4, preemption_mode="recompute")
    [record] = drain_timed(made, StepTimings(execute_s=9.0))
    # Step 2 evicts b (8 computed, 9 known). a makes 6 tokens in steps 1 to 6, so b returns alone in step 7 and
    # computes 9 tokens, of which 8 are computed again: 8/9 of 9 seconds.
    assert record == ResumeRecord("b", "recompute", 2, 1.0, 7, 6.0, 7, 6.0, 8, 0, 8.0)


def test_a_recompute_in_chunks_is_closed_by_the_chunk_that_reaches_the_old_place() -> None:
    made = bench([request("a", 10, 4)], num_blocks=16, max_num_batched_tokens=4)
    for _ in range(3):
        made.step()  # 4, 8 and 10 tokens computed, one sampled
    made.scheduler.preempt("a")
    [record] = drain_timed(made, StepTimings(execute_s=6.0))
    # Step 4 evicts; 5, 6 and 7 compute 4, 4 and 3 tokens, of which 4, 4 and 2 again: 6 + 6 + 4 seconds.
    assert record == ResumeRecord("a", "recompute", 4, 3.0, 5, 4.0, 7, 6.0, 10, 0, 16.0)


def test_a_swap_costs_the_time_its_blocks_were_copied() -> None:
    made = bench([request("a", 8, 6), request("b", 8, 6)], num_blocks=4, preemption_mode="swap")
    [record] = drain_timed(made, StepTimings(execute_s=9.0, swap_out_s=0.25, swap_in_s=0.5))
    assert record == ResumeRecord("b", "swap", 2, 1.0, 7, 6.0, 7, 6.0, 0, 4, 0.75)


def test_copies_of_one_step_share_its_time_by_blocks() -> None:
    made = bench(
        [request("a", 4, 3), request("b", 12, 3)], num_blocks=16, preemption_mode="swap", preemption_requeue="back"
    )
    step = made.scheduler.schedule()
    made.scheduler.update(StepResult(step.step_id, dict.fromkeys(step.sampling_ids, TOKEN)))
    made.scheduler.preempt("a")
    made.scheduler.preempt("b")
    records = drain_timed(made, StepTimings(swap_out_s=4.0, swap_in_s=8.0))
    # One block of a and three of b move in the same steps: a quarter and three quarters of 12 seconds.
    assert {record.request_id: (record.moved_blocks, record.work_s) for record in records} == {
        "a": (2, 3.0),
        "b": (6, 9.0),
    }


def test_an_eviction_on_the_way_back_is_counted_apart_and_no_token_twice() -> None:
    made = bench([request("a", 10, 4)], num_blocks=16, max_num_batched_tokens=4)
    evict_before = {3: "a", 5: "a"}  # 8 computed before step 3 is planned; then 4 computed again before step 5
    records: list[ResumeRecord] = []
    while made.scheduler.has_unfinished:
        step_id = len(made.steps) + 1
        if step_id in evict_before:
            assert made.scheduler.preempt("a").kind == "preempted"
        _, snapshot = made.step()
        records += snapshot.resumes
    # Second eviction: 4 tokens again. First: 4 tokens before the second eviction, and 4 more after its victim was back.
    assert [(r.evicted_step, r.recompute_tokens) for r in records] == [(5, 4), (3, 8)]
    assert made.snapshots[-1].totals.recompute_tokens == 12


def test_a_victim_that_finishes_with_the_step_that_brings_it_back_has_its_record() -> None:
    made = bench([request("a", 8, 2), request("b", 8, 2)], num_blocks=4, preemption_mode="swap")
    records = drain_timed(made, StepTimings())
    assert [(record.request_id, record.moved_blocks) for record in records] == [("b", 4)]
