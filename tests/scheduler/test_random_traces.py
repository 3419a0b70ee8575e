"""Goals R1 to R4, R6, R11 and R16 on random traces, with policies changing while requests run."""

from __future__ import annotations

import itertools
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from scheduler import choices
from tests.scheduler.trace_checks import check_the_log, check_the_resumes, run_and_check
from tests.scheduler.trace_driver import NAMED_FIELDS, run_trace

SEEDS_A_BLOCK = 200
CROSSED = ("allocation", "preemption_mode", "admission_rule", "admission_order", "batching")
OFFERED = {(name, value) for name in NAMED_FIELDS for value in choices(name)}


@pytest.mark.parametrize("block", range(10))
def test_invariants_hold_and_everything_ends_whatever_the_policy_does(block: int) -> None:
    seen: set[tuple[str, str]] = set()
    compared: Counter[str] = Counter()
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        trace = run_trace(seed)
        check_the_log(trace)
        compared += check_the_resumes(trace)
        seen |= trace.policies
        compared["swapped in"] += trace.totals[-1].swapped_in_blocks
        compared["cache hits"] += trace.totals[-1].prefix_cache_hits
        compared["requested"] += sum(e.reason == "requested" for e in trace.events if e.kind == "preempted")
    assert len(compared) == 5
    assert min(compared.values()) > 20, compared
    assert seen >= OFFERED, f"never drawn: {OFFERED - seen}"


def test_invariants_hold_in_every_combination_of_the_decisions_that_share_the_pool() -> None:
    for seed, values in enumerate(itertools.product(*(choices(name) for name in CROSSED))):
        trace = run_trace(seed, **dict(zip(CROSSED, values, strict=True)))
        check_the_log(trace)
        check_the_resumes(trace)


def test_the_same_seed_gives_the_same_log_byte_for_byte() -> None:
    for seed in range(100):
        first, second = run_trace(seed), run_trace(seed)
        assert repr(first.events).encode() == repr(second.events).encode()
        assert repr(first.records) == repr(second.records)
        assert first.totals == second.totals


@pytest.mark.soak
def test_invariants_hold_on_two_hundred_thousand_traces() -> None:
    seeds = [range(first, first + 500) for first in range(10_000, 210_000, 500)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as all_cores:
        assert sum(all_cores.map(run_and_check, seeds)) == 200_000
