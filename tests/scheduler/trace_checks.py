"""What holds of a whole trace once it has ended: the counters and records equal their recomputation from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.events import EVENT_KINDS, TERMINAL_KINDS
from tests.scheduler.trace_driver import Trace, run_trace

MOVES = ("swapped_out", "swapped_in")
ADMISSIONS = ("admitted", "resumed")


def check_the_log(trace: Trace) -> None:
    """The counters equal their recomputation from the event log; every request ends exactly once."""
    kinds = Counter(event.kind for event in trace.events)
    totals = trace.totals[-1]
    assert set(kinds) <= set(EVENT_KINDS)
    assert totals.submitted == len(trace.submitted) == sum(kinds[kind] for kind in TERMINAL_KINDS)
    assert (totals.finished, totals.aborted, totals.rejected) == tuple(kinds[k] for k in TERMINAL_KINDS)
    assert totals.preemptions == kinds["preempted"]
    assert kinds["queued"] == totals.submitted - totals.rejected
    assert kinds["preempted"] >= kinds["resumed"]
    assert Counter(event.request_id for event in trace.events if event.kind in TERMINAL_KINDS) == Counter(
        trace.submitted
    )
    assert Counter(record.outcome for record in trace.records) == Counter(
        {k: kinds[k] for k in TERMINAL_KINDS if kinds[k]}
    )
    assert totals.recompute_tokens == sum(record.recompute_tokens for record in trace.records)
    moved = {kind: sum(e.numbers["num_blocks"] for e in trace.events if e.kind == kind) for kind in MOVES}
    assert (totals.swapped_out_blocks, totals.swapped_in_blocks) == (moved["swapped_out"], moved["swapped_in"])
    admissions = [event.numbers["num_cached_tokens"] for event in trace.events if event.kind in ADMISSIONS]
    assert sum(admissions) == sum(record.num_cached_tokens for record in trace.records)
    assert totals.prefix_cache_hits <= min(totals.prefix_cache_queries, sum(admissions))
    assert sum(moved.values()) == sum(record.swapped_blocks for record in trace.records)
    assert totals.padding_tokens == sum(record.padding_tokens for record in trace.records)


def check_the_resumes(trace: Trace) -> Counter[str]:
    """Each eviction of a request that finished has its record, and they add up to what the request's own record says.

    Returns what was compared: "tokens" computed again and "blocks" moved.
    """
    compared: Counter[str] = Counter()
    assert all(r.evicted_at <= r.resumed_at <= r.caught_up_at for r in trace.resumes)
    evictions = [event for event in trace.events if event.kind == "preempted"]
    lives = Counter(record.request_id for record in trace.records)
    for done in trace.records:
        if done.outcome != "finished" or lives[done.request_id] > 1:
            continue
        mine = [r for r in trace.resumes if r.request_id == done.request_id]
        times = [(e.step_id, e.time) for e in evictions if e.request_id == done.request_id]
        assert sorted((r.evicted_step, r.evicted_at) for r in mine) == times
        assert sum(r.moved_blocks for r in mine) == done.swapped_blocks
        compared["blocks"] += done.swapped_blocks
        if not trace.lost_results:
            assert sum(r.recompute_tokens for r in mine) == done.recompute_tokens
            compared["tokens"] += done.recompute_tokens
    return compared


def run_and_check(seeds: Sequence[int]) -> int:
    """Run the traces of these seeds with all checks; returns how many. What fails says with which seed."""
    for seed in seeds:
        try:
            trace = run_trace(seed)
            check_the_log(trace)
            check_the_resumes(trace)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return len(seeds)
