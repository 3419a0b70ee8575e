"""A strict reader of Chrome's JSON trace form, written from its documentation and from nothing of ours.

Checked: the fields each phase must have and their types, that times are not negative, that counters are numbers, that
metadata names what it names once, and that the spans of one track nest (Perfetto drops what overlaps).
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field

NEEDED = {"X": {"name", "ph", "ts", "dur", "pid", "tid"}, "i": {"name", "ph", "ts", "pid", "s"},
          "C": {"name", "ph", "ts", "pid", "args"}, "M": {"name", "ph", "pid", "args"}}  # fmt: skip
METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}


@dataclass
class ChromeTrace:
    """Nanoseconds, whole. tracks: (process name, thread name) -> spans (start, end, name, args) by start."""

    tracks: dict[tuple[str, str], list[tuple[int, int, str, dict]]] = field(default_factory=lambda: defaultdict(list))
    instants: list[tuple[str, str, int, str, dict]] = field(default_factory=list)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    other: dict = field(default_factory=dict)


def read_chrome_trace(data: bytes) -> ChromeTrace:
    """Raises AssertionError where the file breaks a rule of the form."""
    document = json.loads(data)
    assert document["displayTimeUnit"] in ("ms", "ns")
    events, trace = document["traceEvents"], ChromeTrace(other=document["otherData"])
    for event in events:
        assert NEEDED[event["ph"]] <= event.keys(), event
        assert type(event["pid"]) is int
        assert type(event.get("tid", 0)) is int
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event.get("args", {}), dict)
    names = _names(events)
    for event in events:
        _take(event, names, trace)
    for spans in trace.tracks.values():
        _must_nest(spans)
    return trace


def _names(events: list[dict]) -> dict[tuple[str, int, int], str]:
    names: dict[tuple[str, int, int], str] = {}
    for event in events:
        if event["ph"] == "M":
            key = (event["name"], event["pid"], event.get("tid", 0))
            assert key not in names, f"named twice: {event}"
            assert set(event["args"]) == {METADATA[event["name"]]}
            names[key] = event["args"][METADATA[event["name"]]]
    return names


def _take(event: dict, names: dict[tuple[str, int, int], str], trace: ChromeTrace) -> None:
    if event["ph"] == "M":
        return
    at = _ns(event["ts"])
    process = names[("process_name", event["pid"], 0)]
    if event["ph"] == "C":
        assert all(type(value) in (int, float) for value in event["args"].values())
        for series, value in event["args"].items():
            trace.counters[f"{event['name']} {series}"].append((at, value))
        return
    thread = names[("thread_name", event["pid"], event["tid"])]
    if event["ph"] == "i":
        assert event["s"] in ("g", "p", "t")
        trace.instants.append((process, thread, at, event["name"], event["args"]))
    else:
        trace.tracks[process, thread].append((at, at + _ns(event["dur"]), event["name"], event["args"]))


def _ns(microseconds: float) -> int:
    assert type(microseconds) in (int, float)
    assert microseconds >= 0
    return round(microseconds * 1000)


def _must_nest(spans: list[tuple[int, int, str, dict]]) -> None:
    spans.sort(key=lambda span: (span[0], -span[1]))
    open_ends: list[int] = []
    for start, end, name, _ in spans:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], f"{name} overlaps what it does not lie in"
        open_ends.append(end)
