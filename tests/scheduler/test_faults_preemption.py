# ruff: noqa: N802  faults keep the spelling of their numbers
"""Faults F40, F44, F48 and F50 of the catalogue: evictions that find nobody, come twice, free nothing or never end."""

from __future__ import annotations

import pytest

from scheduler import choices
from tests.scheduler.helpers import bench, request
from tests.scheduler.trace_driver import run_trace


@pytest.mark.parametrize("victim", choices("preemption_victim"))
@pytest.mark.parametrize("mode", choices("preemption_mode"))
@pytest.mark.parametrize("allocation", choices("allocation"))
def test_F40_one_that_runs_alone_finds_its_last_block_and_no_victim_is_looked_for(
    victim: str, mode: str, allocation: str
) -> None:
    """8 + 5 - 1 tokens are three blocks of four: all the pool has."""
    names = {"preemption_victim": victim, "preemption_mode": mode, "allocation": allocation}
    made = bench([request("a", 8, 5), request("b", 8, 5)], num_blocks=3, max_num_seqs=1, **names)
    made.drain()
    assert made.used()[3:5] == [3, 0]
    assert made.ends() == {"a": 4, "b": 9}
    assert not made.events("preempted")


@pytest.mark.parametrize("mode", choices("preemption_mode"))
def test_F44_evicting_twice_evicts_once(mode: str) -> None:
    made = bench([request("a", 6, 9), request("b", 6, 9)], num_blocks=16, preemption_mode=mode)
    made.step()
    scheduler = made.scheduler
    assert [scheduler.preempt("b").kind for _ in range(3)] == ["preempted"] * 3
    made.step()
    assert (made.steps[1].preempted, scheduler.totals.preemptions) == (("b",), 1)
    free, totals = scheduler.pool.num_free_blocks, scheduler.totals
    assert scheduler.preempt("b").kind == "not_running"
    assert (scheduler.pool.num_free_blocks, scheduler.totals) == (free, totals)
    made.drain()
    assert [(e.request_id, e.reason) for e in made.events("preempted")] == [("b", "requested")]
    records = {record.request_id: record for snapshot in made.snapshots for record in snapshot.records}
    assert (records["b"].num_preemptions, records["b"].num_output_tokens) == (1, 9)


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_F48_nobody_is_evicted_for_nothing(seed: int) -> None:
    """Whoever has to make room for another owns a block that its eviction frees."""
    for event in run_trace(seed).events:
        if event.kind == "preempted" and event.numbers["for_request_id"] not in ("", event.request_id):
            assert event.numbers["freed_blocks"] >= 1


def test_F48_enough_evictions_and_not_one_more() -> None:
    """Token 9 of each takes a third block: c's two serve a and b. Token 13 takes a fourth: a has it, b gives up."""
    made = bench([request(name, 8, 9) for name in "abc"], num_blocks=7)
    made.drain()
    assert [step.preempted for step in made.steps if step.preempted][:2] == [("c",), ("b",)]
    assert [e.numbers["for_request_id"] for e in made.events("preempted")][:2] == ["b", "b"]


@pytest.mark.parametrize(("requeue", "before"), [("front", 0), ("back", 3)])
def test_F50_an_evicted_request_resumes_however_long_the_queue_is_kept(requeue: str, before: int) -> None:
    """Three always wait. From the front nobody new is let in before it, from the back those that waited already."""
    made = bench([request("a", 8, 9), request("b", 8, 9)], num_blocks=7, max_num_seqs=2, preemption_requeue=requeue)
    for index in range(40):
        while len(made.scheduler.waiting_ids) < 3 + bool(made.events("preempted")):
            made.add(request(f"n{index}.{len(made.scheduler.waiting_ids)}", 4, 3))
        made.step()
    evicted = next(i for i, step in enumerate(made.steps) if "b" in step.preempted)
    resumed = next(i for i, step in enumerate(made.steps) if "b" in step.resumed)
    let_in = [name for step in made.steps[evicted : resumed + 1] for name in step.new]
    assert len(let_in) - len(made.steps[resumed].new) <= before
    assert "b" in made.ends()
