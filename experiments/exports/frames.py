"""The tables of a run: requests, tokens, steps, what each step scheduled, and events; as CSV and as Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv as pa_csv
from pyarrow import parquet as pa_parquet

from experiments.record import Run

_TEXT, _WHOLE, _SECONDS = pa.string(), pa.int64(), pa.float64()

REQUESTS: Final = pa.schema(
    [
        ("request_id", _TEXT), ("prompt_len", _WHOLE), ("output_len", _WHOLE), ("num_output_tokens", _WHOLE),
        ("priority", _WHOLE), ("outcome", _TEXT), ("reason", _TEXT), ("due_s", _SECONDS),
        ("first_scheduled_s", _SECONDS), ("last_scheduled_s", _SECONDS), ("first_token_s", _SECONDS),
        ("last_token_s", _SECONDS), ("end_s", _SECONDS), ("num_preemptions", _WHOLE), ("preempted_s", _SECONDS),
        ("recompute_tokens", _WHOLE), ("padding_tokens", _WHOLE),
    ]
)  # fmt: skip
TOKENS: Final = pa.schema([("request_id", _TEXT), ("token_index", _WHOLE), ("time_s", _SECONDS)])
STEPS: Final = pa.schema(
    [
        ("step_id", _WHOLE), ("start_s", _SECONDS), ("end_s", _SECONDS), ("num_tokens", _WHOLE),
        ("prefill_tokens", _WHOLE), ("decode_tokens", _WHOLE), ("recompute_tokens", _WHOLE),
        ("padding_tokens", _WHOLE), ("idle_slots", _WHOLE), ("context_tokens", _WHOLE), ("num_running", _WHOLE),
        ("num_waiting", _WHOLE), ("used_blocks", _WHOLE), ("filled", _WHOLE), ("reserved", _WHOLE),
        ("internal", _WHOLE), ("external", _WHOLE), ("num_preempted", _WHOLE), ("swapped_out_blocks", _WHOLE),
        ("swapped_in_blocks", _WHOLE), ("schedule_s", _SECONDS), ("build_s", _SECONDS), ("execute_s", _SECONDS),
        ("sample_s", _SECONDS), ("update_s", _SECONDS), ("swap_s", _SECONDS),
    ]
)  # fmt: skip
SCHEDULED: Final = pa.schema([("step_id", _WHOLE), ("request_id", _TEXT), ("tokens", _WHOLE), ("kind", _TEXT)])
EVENTS: Final = pa.schema(
    [
        ("step_id", _WHOLE), ("time_s", _SECONDS), ("kind", _TEXT), ("request_id", _TEXT), ("reason", _TEXT),
        ("numbers", _TEXT),
    ]
)  # fmt: skip
"""numbers: JSON, because each kind of event has its own."""


def _requests(run: Run) -> Iterator[dict[str, Any]]:
    for row in run.requests:
        values = {name: getattr(row, name) for name in REQUESTS.names if hasattr(row, name)}
        times = row.token_times_s
        yield values | {"first_token_s": times[0] if times else None, "last_token_s": times[-1] if times else None}


def _tokens(run: Run) -> Iterator[dict[str, Any]]:
    for row in run.requests:
        for index, at in enumerate(row.token_times_s):
            yield {"request_id": row.request_id, "token_index": index, "time_s": at}


def _steps(run: Run) -> Iterator[dict[str, Any]]:
    for step in run.steps:
        values = {name: getattr(step, name) for name in STEPS.names if hasattr(step, name)}
        yield values | {"num_preempted": len(step.preempted)}


def _scheduled(run: Run) -> Iterator[dict[str, Any]]:
    for step in run.steps:
        for request_id, tokens, kind in step.scheduled:
            yield {"step_id": step.step_id, "request_id": request_id, "tokens": tokens, "kind": kind}


def _events(run: Run) -> Iterator[dict[str, Any]]:
    for event in run.events:
        yield {
            "step_id": event.step_id,
            "time_s": event.time,
            "kind": event.kind,
            "request_id": event.request_id,
            "reason": event.reason,
            "numbers": json.dumps(dict(event.numbers), sort_keys=True),
        }


_TABLES: Final[Mapping[str, tuple[pa.Schema, Callable[[Run], Iterator[dict[str, Any]]]]]] = MappingProxyType(
    {
        "requests": (REQUESTS, _requests),
        "tokens": (TOKENS, _tokens),
        "steps": (STEPS, _steps),
        "scheduled": (SCHEDULED, _scheduled),
        "events": (EVENTS, _events),
    }
)
"""Name -> (columns, rows). Times in seconds since the run began, lengths in tokens, memory in blocks and slots."""


def tables(run: Run) -> dict[str, pa.Table]:
    """All tables of a run, by name."""
    return {name: pa.Table.from_pylist(list(rows(run)), schema) for name, (schema, rows) in _TABLES.items()}


def csv_bytes(table: pa.Table) -> bytes:
    """With a header line; what is not known is an empty cell, numbers are written so that they read back equal."""
    out = io.BytesIO()
    pa_csv.write_csv(table, out)
    return out.getvalue()


def parquet_bytes(table: pa.Table) -> bytes:
    """One Parquet file."""
    out = io.BytesIO()
    pa_parquet.write_table(table, out)
    return out.getvalue()
