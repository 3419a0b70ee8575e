"""Goals R1 to R4, R6, R11 and R16 on random traces, with policies changing while requests run."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from scheduler import choices
from scheduler.events import EVENT_KINDS, TERMINAL_KINDS
from tests.scheduler.trace_driver import NAMED_FIELDS, Trace, run_trace

SEEDS_A_BLOCK = 200
MOVES = ("swapped_out", "swapped_in")
ADMISSIONS = ("admitted", "resumed")
CROSSED = ("allocation", "preemption_mode", "admission_rule", "admission_order", "batching")
SEEN: set[tuple[str, str]] = set()


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


@pytest.mark.parametrize("block", range(10))
def test_invariants_hold_and_everything_ends_whatever_the_policy_does(block: int) -> None:
    swapped_in = hits = requested = 0
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        trace = run_trace(seed)
        check_the_log(trace)
        SEEN.update(trace.policies)
        swapped_in += trace.totals[-1].swapped_in_blocks
        hits += trace.totals[-1].prefix_cache_hits
        requested += sum(event.reason == "requested" for event in trace.events if event.kind == "preempted")
    assert min(swapped_in, hits, requested) > 20, (swapped_in, hits, requested)
    offered = {(name, value) for name in NAMED_FIELDS for value in choices(name)}
    assert offered <= SEEN, f"never drawn: {offered - SEEN}"


def test_invariants_hold_in_every_combination_of_the_decisions_that_share_the_pool() -> None:
    for seed, values in enumerate(itertools.product(*(choices(name) for name in CROSSED))):
        check_the_log(run_trace(seed, **dict(zip(CROSSED, values, strict=True))))


def test_the_same_seed_gives_the_same_log_byte_for_byte() -> None:
    for seed in range(100):
        first, second = run_trace(seed), run_trace(seed)
        assert repr(first.events).encode() == repr(second.events).encode()
        assert repr(first.records) == repr(second.records)
        assert first.totals == second.totals


@pytest.mark.soak
def test_invariants_hold_on_two_hundred_thousand_traces() -> None:
    for seed in range(10_000, 210_000):
        check_the_log(run_trace(seed))
