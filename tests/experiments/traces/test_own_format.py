"""This project's own file: the same bytes again, one request a line, and changes noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.trace import Trace, TraceOrigin, TraceRequest
from experiments.traces import TraceError, read_trace, trace_bytes, write_trace

letters = st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" ")
texts = st.text(letters, max_size=12)
ids = st.text(letters, min_size=1, max_size=12)
rows = st.tuples(
    st.floats(0, 1e8), st.integers(1, 10**7), st.integers(1, 10**7), st.integers(-(2**31), 2**31),
    st.lists(st.integers(0, 2**31 - 1), max_size=4),
)  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    made = draw(st.lists(st.tuples(ids, rows), min_size=1, max_size=6, unique_by=lambda pair: pair[0]))
    made.sort(key=lambda pair: pair[1][0])
    requests = tuple(
        TraceRequest(name, at, len(ids) or prompt, output, priority, tuple(ids))
        for name, (at, prompt, output, priority, ids) in made
    )
    parameters = tuple(draw(st.lists(st.tuples(texts, texts), max_size=3)))
    origin = TraceOrigin(
        draw(texts), draw(texts), "f" * 64, parameters, draw(st.integers(0, 9)), draw(st.integers(0, 9))
    )
    return Trace(draw(ids), requests, origin)


@settings(max_examples=60, deadline=None)
@given(traces())
def test_any_trace_reads_back_equal_and_writes_the_same_bytes_again(trace: Trace) -> None:
    data = trace_bytes(trace)
    again = read_trace(data)
    assert again == trace
    assert trace_bytes(again) == data


def test_one_request_is_one_line_and_only_plain_json(tmp_path: Path) -> None:
    trace = Trace("t", (TraceRequest("a", 0.1, 3, 2), TraceRequest("b", 0.25, 2, 1, 4, (5, 6))), TraceOrigin("x", "y"))
    write_trace(trace, tmp_path / "t.json")
    lines = (tmp_path / "t.json").read_text().splitlines()
    assert lines[-3:] == [
        '{"id": "a", "arrival_s": 0.1, "prompt_len": 3, "output_len": 2},',
        '{"id": "b", "arrival_s": 0.25, "prompt_len": 2, "output_len": 1, "priority": 4, "prompt": [5, 6]}',
        "]}",
    ]
    assert json.loads("\n".join(lines))["requests_sha256"] == trace.sha256
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"], "written by rename"


def test_a_request_changed_after_writing_is_noticed_and_the_hash_may_be_taken_out() -> None:
    trace = Trace("t", (TraceRequest("a", 0.1, 3, 2),), TraceOrigin("x", "y"))
    changed = trace_bytes(trace).replace(b'"output_len": 2', b'"output_len": 3')
    with pytest.raises(TraceError, match="requests_sha256"):
        read_trace(changed)
    data = json.loads(changed)
    del data["requests_sha256"]
    assert read_trace(json.dumps(data).encode()).requests[0].output_len == 3
