"""Runs to export: with preemptions, a rejected request, unfinished ones, padding, and hostile names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from experiments.record import Run
from experiments.runs.driver import PoolShape
from experiments.trace import Trace, TraceOrigin, TraceRequest
from experiments.traces import GeneratorSpec, generate, parse_arrivals, parse_lengths
from scheduler import PRESETS, SchedulerPolicy
from tests.experiments.runs.fakes import virtual_run

CONTINUOUS = SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=16, admission_rule="next_chunk")
TIGHT = PoolShape(num_blocks=12, block_size=4, max_model_len=40)

NAMES = ['"quoted", with commas', "</script><b>", "=1+1", "한국어", "a\\b"]
"""Names that a careless writer would trip over."""


@cache
def preempted_run() -> Run:
    """Continuous batching that runs out of blocks; one request is too long and rejected."""
    spec = GeneratorSpec(
        14,
        3,
        parse_arrivals("gamma:rate=0.9,burstiness=0.5"),
        parse_lengths("uniform:low=1,high=20"),
        parse_lengths("uniform:low=1,high=12"),
    )
    made = generate(spec)
    named = zip(made.requests, [*NAMES, *(request.request_id for request in made.requests[len(NAMES) :])], strict=True)
    made = replace(made, requests=tuple(replace(request, request_id=name) for request, name in named))
    too_long = TraceRequest("too long", made.requests[-1].arrival_s + 0.125, 60, 3)
    run, _ = virtual_run(replace(made, requests=(*made.requests, too_long)), CONTINUOUS, TIGHT)
    assert run.totals.preemptions > 1
    return replace(run, began_at="2026-01-02T03:04:05+00:00")


@cache
def static_run() -> Run:
    """Static batching, with padding and idle slots."""
    rows = [TraceRequest(f"r{index}", 0.0, 2 + index % 4, 1 + index * 3 % 7) for index in range(7)]
    trace = Trace("by hand", tuple(rows), TraceOrigin("test", "by hand"))
    policy = replace(PRESETS["static"], max_num_seqs=3, max_num_batched_tokens=16)
    run, _ = virtual_run(trace, policy, TIGHT)
    assert run.totals.padding_tokens
    return run


@cache
def stopped_run() -> Run:
    """Stopped half-way."""
    rows = [TraceRequest(name, 0.25 * index, 5, 8) for index, name in enumerate(NAMES)]
    trace = Trace("names", tuple(rows), TraceOrigin("test", "by hand"))
    run, _ = virtual_run(trace, CONTINUOUS, TIGHT, watch=lambda now, ended: "enough" if now >= 4 else "")
    return replace(run, label="odd/../label")


RUNS = {"preempted": preempted_run, "static": static_run, "stopped": stopped_run}
