"""This project's own file in seconds: one request a line, the same bytes for the same trace on any machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import msgspec

from experiments.trace import Trace, TraceOrigin, TraceRequest
from experiments.traces.documents import FORMAT, VERSION, own_rows
from experiments.traces.errors import TraceError, short
from experiments.traces.lines import Source
from experiments.traces.positions import line_of

_FIELDS = ("format", "version", "name", "origin", "requests_sha256", "requests")


def trace_bytes(trace: Trace) -> bytes:
    """The file of a trace (UTF-8). Reading it gives an equal trace, writing that the same bytes."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "name": trace.name,
        "origin": msgspec.to_builtins(trace.origin),
        "requests_sha256": trace.sha256,
    }
    lines = [json.dumps(_row(request), ensure_ascii=False) for request in trace.requests]
    opening = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
    return (opening + ',\n "requests": [\n' + ",\n".join(lines) + "\n]}\n").encode()


def write_trace(trace: Trace, path: Path) -> None:
    """Write the file by rename: it is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(trace_bytes(trace))
    part.replace(path)


def trace_of(source: Source, text: str, data: Mapping[str, Any], name: str, limit: int | None) -> Trace:
    """The trace in a decoded file. Raises TraceError, also where the requests are not those that were written."""

    def fail(field: str, problem: str, line: int = 0) -> None:
        raise TraceError(source.name, problem, line=line or line_of(text, field), field=field)

    for field in sorted(set(data) - set(_FIELDS)):
        fail(field, f"is not a field of a trace; there are {', '.join(_FIELDS)}")
    if not isinstance(data.get("name", ""), str) or not data.get("name", "").isprintable():
        fail("name", f"is {short(data['name'])}, expected a text without line breaks")
    origin = TraceOrigin("batchscope", "written by hand")
    if "origin" in data:
        try:
            origin = msgspec.convert(data["origin"], TraceOrigin)
        except msgspec.ValidationError as error:
            fail("origin", str(error))
        texts = (
            origin.source,
            origin.description,
            origin.file_sha256,
            *(part for pair in origin.parameters for part in pair),
        )
        if not all(part.isprintable() for part in texts):
            fail("origin", "holds a character that cannot be printed")
    requests = tuple(
        TraceRequest(row.request_id, row.at, row.prompt_len, row.output_len, row.priority, row.prompt)
        for _, row in own_rows(source, text, data, steps=False)
    )
    if not requests:
        fail("requests", "is empty, expected at least one")
    _in_order(source, text, requests)
    trace = Trace(name or data.get("name", "") or "trace", requests, origin)
    if "requests_sha256" in data and data["requests_sha256"] != trace.sha256:
        problem = f"is not that of the requests ({trace.sha256}): they were changed. Take the field out to use them"
        fail("requests_sha256", problem)
    if limit is None or limit >= len(requests):
        return trace
    notes = (*origin.parameters, ("limit", f"the first {limit} of {len(requests)} requests"))
    origin = replace(origin, parameters=notes, dropped=origin.dropped + len(requests) - limit)
    return replace(trace, requests=tuple(islice(requests, limit)), origin=origin)


def _in_order(source: Source, text: str, requests: tuple[TraceRequest, ...]) -> None:
    seen: dict[str, int] = {}
    for index, request in enumerate(requests):
        first = seen.setdefault(request.request_id, index)
        if first != index:
            problem = f"is {short(request.request_id)}, already used by requests[{first}]"
            line = line_of(text, "requests", index)
            raise TraceError(source.name, problem, line=line, field=f"requests[{index}].id")
    for index, (before, after) in enumerate(pairwise(requests), 1):
        if after.arrival_s < before.arrival_s:
            problem = f"is {after.arrival_s}, earlier than the request before ({before.arrival_s})"
            line = line_of(text, "requests", index)
            raise TraceError(source.name, problem, line=line, field=f"requests[{index}].arrival_s")


def _row(request: TraceRequest) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": request.request_id,
        "arrival_s": request.arrival_s,
        "prompt_len": request.prompt_len,
        "output_len": request.output_len,
    }
    if request.priority:
        row["priority"] = request.priority
    if request.prompt:
        row["prompt"] = request.prompt
    return row
