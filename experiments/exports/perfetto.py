"""A run as a trace in Chrome's JSON form, which ui.perfetto.dev and chrome://tracing open.

Process 1 is the engine: a track of steps, and counters. Process 2 is the requests, one track each. Times are whole
nanoseconds written as microseconds, so that spans which touch do not overlap by rounding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from experiments.exports.phases import evictions, spans_of
from experiments.record import RequestRow, Run, StepRow

ENGINE, REQUESTS = 1, 2
_STEPS_TRACK: Final = 1
_POLICY_KINDS: Final = ("policy_changed", "policy_refused")


def perfetto_json(run: Run) -> bytes:
    """The trace file (UTF-8). Its counters hold what the steps hold; ``otherData`` has totals and conditions."""
    data = {
        "traceEvents": list(_events(run)),
        "displayTimeUnit": "ms",
        "otherData": {
            "label": run.label,
            "repeat": str(run.repeat),
            "trace": run.trace_name,
            "trace_sha256": run.trace_sha256,
            "kind": run.conditions.kind,
            "conditions": json.dumps(msgspec.to_builtins(run.conditions), sort_keys=True),
            "policy": json.dumps(msgspec.to_builtins(run.policy), sort_keys=True),
            "totals": json.dumps(msgspec.to_builtins(run.totals), sort_keys=True),
        },
    }
    # Not as \u escapes: Perfetto shows those of a track's name as they are written.
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def _events(run: Run) -> Iterator[dict[str, Any]]:
    yield _named("process_name", ENGINE, 0, f"engine: {run.label} on {run.trace_name} ({run.conditions.kind})")
    yield _named("thread_name", ENGINE, _STEPS_TRACK, "steps")
    yield _named("process_name", REQUESTS, 0, "requests")
    for process in (ENGINE, REQUESTS):
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
    for step in run.steps:
        yield from _step(step)
    for event in run.events:
        if event.kind in _POLICY_KINDS:
            yield _instant(
                event.kind, ENGINE, _STEPS_TRACK, event.time, "p", {"reason": event.reason} | dict(event.numbers)
            )
    evicted = evictions(run.events, run.wall_s)
    tracks = {row.request_id: index for index, row in enumerate(run.requests, 1)}
    for row in run.requests:
        track = tracks[row.request_id]
        yield _named("thread_name", REQUESTS, track, row.request_id)
        yield {"ph": "M", "name": "thread_sort_index", "pid": REQUESTS, "tid": track, "args": {"sort_index": track}}
        yield from _request(row, track, evicted.get(row.request_id, ()), run.wall_s)
    for event in run.events:
        if event.kind == "preempted" and event.request_id in tracks:
            args = {"reason": event.reason, "step_id": event.step_id} | dict(event.numbers)
            yield _instant("preempted", REQUESTS, tracks[event.request_id], event.time, "t", args)


def _step(step: StepRow) -> Iterator[dict[str, Any]]:
    args = {
        "step_id": step.step_id,
        "prefill_tokens": step.prefill_tokens,
        "decode_tokens": step.decode_tokens,
        "recompute_tokens": step.recompute_tokens,
        "padding_tokens": step.padding_tokens,
        "idle_slots": step.idle_slots,
        "context_tokens": step.context_tokens,
        "requests": {request_id: f"{tokens} {kind}" for request_id, tokens, kind in step.scheduled},
        "preempted": list(step.preempted),
    }
    yield _span(f"step {step.step_id}", "step", ENGINE, _STEPS_TRACK, step.start_s, step.end_s, args)
    counters: dict[str, dict[str, int]] = {
        "KV blocks": {"used": step.used_blocks},
        "KV slots": {
            "filled": step.filled,
            "reserved": step.reserved,
            "internal": step.internal,
            "external": step.external,
        },
        "requests": {"running": step.num_running, "waiting": step.num_waiting},
        "tokens": {"in step": step.num_tokens},
    }
    for name, values in counters.items():
        yield {"ph": "C", "name": name, "pid": ENGINE, "tid": 0, "ts": _us(step.start_s), "args": values}


def _request(
    row: RequestRow, track: int, evicted: tuple[tuple[float, float], ...], run_end_s: float
) -> Iterator[dict[str, Any]]:
    end = max(run_end_s if row.end_s is None else row.end_s, row.due_s)
    args = {
        "outcome": row.outcome,
        "reason": row.reason,
        "prompt_len": row.prompt_len,
        "output_len": row.output_len,
        "num_output_tokens": row.num_output_tokens,
        "num_preemptions": row.num_preemptions,
        "recompute_tokens": row.recompute_tokens,
        "padding_tokens": row.padding_tokens,
    }
    yield _span(row.request_id, "request", REQUESTS, track, row.due_s, end, args)
    for span in spans_of(row, evicted, run_end_s):
        yield _span(span.kind, "phase", REQUESTS, track, span.start_s, span.end_s, {})


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _span(
    name: str, category: str, process: int, thread: int, start_s: float, end_s: float, args: dict[str, Any]
) -> dict[str, Any]:
    start = _ns(start_s)
    return {
        "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread, "ts": start / 1000,
        "dur": (_ns(end_s) - start) / 1000, "args": args,
    }  # fmt: skip


def _instant(name: str, process: int, thread: int, at_s: float, scope: str, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "i", "name": name, "cat": "event", "pid": process, "tid": thread, "ts": _us(at_s), "s": scope,
        "args": args,
    }  # fmt: skip


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _us(seconds: float) -> float:
    return _ns(seconds) / 1000
