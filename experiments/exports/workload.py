"""The workload of a run, so that others can repeat it."""

from __future__ import annotations

from dataclasses import replace

from experiments.record import Run
from experiments.trace import Trace, TraceRequest
from experiments.traces.own_format import trace_bytes


def workload_of(run: Run) -> Trace:
    """The trace that a run was made of, from its rows. A run does not keep the prompts' token ids: where the trace had
    some, its hash differs from the run's, and the origin says so.
    """
    requests = tuple(
        TraceRequest(row.request_id, row.due_s, row.prompt_len, row.output_len, row.priority)
        for row in sorted(run.requests, key=lambda row: row.due_s)
    )
    trace = Trace(run.trace_name, requests, run.trace_origin)
    if trace.sha256 == run.trace_sha256:
        return trace
    note = ("differs", f"from the run's trace {run.trace_sha256}: token ids of prompts are not in a run's record")
    return replace(trace, origin=replace(trace.origin, parameters=(*trace.origin.parameters, note)))


def workload_bytes(run: Run) -> bytes:
    """As a file of this project's own format, in seconds."""
    return trace_bytes(workload_of(run))
