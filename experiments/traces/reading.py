"""From a file as it is published to a Trace: the format is told by what is in it, never by its name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from experiments.trace import MAX_REQUESTS, Trace, TraceOrigin, TraceRequest
from experiments.traces.checks import Row
from experiments.traces.documents import (
    FORMAT,
    VERSION,
    Texts,
    mooncake_rows,
    own_document,
    own_rows,
    sharegpt_rows,
)
from experiments.traces.errors import TraceError, short
from experiments.traces.limits import MAX_SECONDS
from experiments.traces.lines import Source, opened
from experiments.traces.own_format import trace_of
from experiments.traces.positions import line_of
from experiments.traces.tables import TABLES, table_of, table_rows

_FORMATS: Final = "Azure, BurstGPT, Vidur or SplitwiseSim CSV, Mooncake JSONL, ShareGPT JSON, or this project's JSON"


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of a file that was recognised. source, description, notes: for its TraceOrigin."""

    source: str
    description: str
    per_second: float
    rows: Iterable[tuple[int, Row]]
    notes: tuple[tuple[str, str], ...] = ()


def read_trace(
    file: Path | bytes,
    name: str = "",
    *,
    limit: int | None = None,
    count_tokens: Texts | None = None,
    seconds_per_step: float | None = None,
) -> Trace:
    """The trace in a file.

    name: of the trace; "" = the file's, without its ending (this project's own files bring theirs).
    limit: read the first so many rows only. count_tokens: text -> tokens, needed for ShareGPT, which holds texts.
    seconds_per_step: needed for workloads whose arrivals are steps: a request of step s arrives at s times this.

    Arrivals of published formats count from the earliest one, which is stated in the origin; so are rows out of order,
    and rows left out because a length is 0 (failed or empty requests: they ask for nothing).
    Raises TraceError naming file, line and field; nothing is half read.
    """
    label = name or (file.stem if isinstance(file, Path) else "trace")
    if limit is not None and limit < 1:
        raise TraceError(label, f"is {limit}, expected 1 or more", field="limit")
    with opened(file, label) as source:
        head = source.head()
        first = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if first == b"{" and b'"timestamp"' not in head.split(b"\n", 1)[0]:
            return _own(source, name, label, limit, seconds_per_step)
        found = _published(source, head, first, count_tokens)
        rows = list(islice(_within(found.rows, source.name), limit))
        trace = _trace(label, source.name, found, rows, limit)
        return replace(trace, origin=replace(trace.origin, file_sha256=source.sha256()))


def _published(source: Source, head: bytes, first: bytes, count_tokens: Texts | None) -> _Found:
    table = table_of(head)
    notes: tuple[tuple[str, str], ...]
    if table is not None:
        notes = () if table.has_times else (("arrivals", "none in the file: all at 0 s"),)
        return _Found(table.name, table.description, table.per_second, table_rows(source, table), notes)
    if first == b"{":
        notes = (("hash_ids", "not used: prompts share no prefix"),)
        return _Found("mooncake", "Mooncake trace", 1000, mooncake_rows(source), notes)
    if first == b"[":
        if count_tokens is None:
            problem = "holds texts (ShareGPT), so a tokenizer is needed: give count_tokens (--model)"
            raise TraceError(source.name, problem, field="count_tokens")
        notes = (("arrivals", "none in the file: all at 0 s"), ("turns", "the first asks, the second answers"))
        return _Found("sharegpt", "ShareGPT conversations", 1, sharegpt_rows(source, count_tokens), notes)
    raise _unknown(source, head)


def _unknown(source: Source, head: bytes) -> TraceError:
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
    names = set(line.split(","))
    near = max(TABLES, key=lambda table: len(names & set(table.header)))
    if names & set(near.header):
        problem = f"the columns are {short(line)}, expected {','.join(near.header)} ({near.description})"
        wrong = next((name for name in near.header if name not in names), near.header[0])
        return TraceError(source.name, problem, line=1, field=wrong)
    return TraceError(source.name, f"begins with {short(line)}, which is none of {_FORMATS}", line=1)


def _within(rows: Iterable[tuple[int, Row]], name: str) -> Iterator[tuple[int, Row]]:
    for count, found in enumerate(rows):
        if count == MAX_REQUESTS:
            problem = f"more than {MAX_REQUESTS} rows; give limit to read the first of them"
            raise TraceError(name, problem, line=found[0])
        yield found


def _trace(label: str, name: str, found: _Found, rows: list[tuple[int, Row]], limit: int | None) -> Trace:
    kept = [(index, line, row) for index, (line, row) in enumerate(rows) if row.prompt_len and row.output_len]
    if not kept:
        raise TraceError(name, f"holds no request that can run; {len(rows)} rows with a length of 0", line=1)
    _distinct(name, kept)
    times = [row.at for _, _, row in kept]
    begin = min(times)
    if (max(times) - begin) / found.per_second > MAX_SECONDS:
        line = max(kept, key=lambda one: one[2].at)[1]
        raise TraceError(name, f"arrives more than {MAX_SECONDS:g} s after the first request", line=line)
    late = sum(later < earlier for earlier, later in pairwise(times))
    kept.sort(key=lambda one: one[2].at)
    requests = tuple(
        TraceRequest(row.request_id or f"r{index}", (row.at - begin) / found.per_second, row.prompt_len, row.output_len)
        for index, _, row in kept
    )
    source = found.source
    if source == "azure":
        source = f"azure-{_year(int(begin))}"
    notes = [*found.notes, ("rows", str(len(rows)))]
    if limit is not None:
        notes.append(("limit", f"the first {limit} rows; what follows was not read"))
    if begin and source != "azure":
        notes.append(("start", f"{_stated(begin, found.per_second)} taken from every arrival"))
    if late:
        notes.append(("out_of_order", f"{late} rows were earlier than the row before: sorted"))
    notes += _dropped(row for _, row in rows)
    origin = TraceOrigin(source, found.description, parameters=tuple(notes), dropped=len(rows) - len(kept))
    return Trace(label, requests, origin)


def _distinct(name: str, kept: list[tuple[int, int, Row]]) -> None:
    seen: dict[str, int] = {}
    for _, line, row in kept:
        if row.request_id and seen.setdefault(row.request_id, line) != line:
            problem = f"is {short(row.request_id)}, as on line {seen[row.request_id]}"
            raise TraceError(name, problem, line=line, field="request_id")


def _dropped(rows: Iterable[Row]) -> list[tuple[str, str]]:
    no_prompt = no_output = 0
    for row in rows:
        no_prompt += not row.prompt_len
        no_output += bool(row.prompt_len) and not row.output_len
    counts = (("dropped_no_prompt", no_prompt), ("dropped_no_output", no_output))
    return [(name, str(count)) for name, count in counts if count]


def _stated(begin: float, per_second: float) -> str:
    return f"{begin / per_second:.9g} s" if per_second < 10**9 else f"the time of the first row (year {_year(begin)})"


def _year(nanoseconds: float) -> int:
    return date.fromordinal(int(nanoseconds // (86_400 * 10**9))).year


def _own(source: Source, name: str, label: str, limit: int | None, seconds_per_step: float | None) -> Trace:
    text, data = own_document(source)
    if "format" not in data:
        return _from_steps(source, text, data, label, limit, seconds_per_step)
    if data["format"] != FORMAT or data.get("version") != VERSION:
        wrong = "format" if data["format"] != FORMAT else "version"
        problem = f"is {short(data.get(wrong))}, expected {FORMAT!r} of version {VERSION}"
        raise TraceError(source.name, problem, line=line_of(text, wrong), field=wrong)
    return trace_of(source, text, data, name, limit)


def _from_steps(
    source: Source, text: str, data: dict[str, Any], label: str, limit: int | None, seconds_per_step: float | None
) -> Trace:
    unknown = sorted(set(data) - {"name", "config", "requests"})
    if unknown:
        problem = f'is no field of a workload in steps; a trace in seconds begins with "format": {FORMAT!r}'
        raise TraceError(source.name, problem, line=line_of(text, unknown[0]), field=unknown[0][:80])
    if seconds_per_step is None or not 0 < seconds_per_step <= 3_600:
        problem = f"is {seconds_per_step}; the arrivals are steps, so say how many seconds one is (above 0, to 3600)"
        raise TraceError(source.name, problem, field="seconds_per_step")
    rows = list(islice(own_rows(source, text, data, steps=True), limit))
    seen: dict[str, int] = {}
    for index, (_, row) in enumerate(rows):
        if seen.setdefault(row.request_id, index) != index:
            field = f"requests[{index}].id"
            problem = f"is {short(row.request_id)}, already used by requests[{seen[row.request_id]}]"
            raise TraceError(source.name, problem, line=line_of(text, "requests", index), field=field)
    if not rows:
        raise TraceError(source.name, "is empty, expected at least one", field="requests")
    requests = tuple(
        TraceRequest(
            row.request_id, row.at * seconds_per_step, row.prompt_len, row.output_len, row.priority, row.prompt
        )
        for _, row in sorted(rows, key=lambda one: one[1].at)
    )
    notes = [("rows", str(len(rows))), ("seconds_per_step", repr(seconds_per_step))]
    if data.get("config"):
        notes.append(("config", f"not used: {json.dumps(data['config'], sort_keys=True)}"))
    if limit is not None:
        notes.append(("limit", f"the first {limit} rows; what follows was not read"))
    description = "workload of the scheduler, arrivals in steps"
    return Trace(label, requests, TraceOrigin("batchscope-steps", description, source.sha256(), tuple(notes)))
