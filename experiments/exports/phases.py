"""The life of a request as spans that follow each other: queue, prefill, decode, and preempted in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from experiments.record import RequestRow
from scheduler import StepEvent


@dataclass(frozen=True, slots=True)
class Span:
    """kind: "queue", "prefill", "decode" or "preempted". Seconds since the run began."""

    kind: str
    start_s: float
    end_s: float


def evictions(events: Iterable[StepEvent], end_s: float) -> Mapping[str, tuple[tuple[float, float], ...]]:
    """request_id -> (preempted at, resumed at) of each eviction; one that was never resumed lasts to ``end_s``."""
    open_since: dict[str, float] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event.kind == "preempted":
            open_since[event.request_id] = event.time
        elif event.kind in ("resumed", "finished", "aborted") and event.request_id in open_since:
            found.setdefault(event.request_id, []).append((open_since.pop(event.request_id), event.time))
    for request_id, since in open_since.items():
        found.setdefault(request_id, []).append((since, max(end_s, since)))
    return {request_id: tuple(spans) for request_id, spans in found.items()}


def spans_of(row: RequestRow, evicted: Iterable[tuple[float, float]], run_end_s: float) -> tuple[Span, ...]:
    """Spans from due_s to the end, without a gap and without an overlap; empty ones are left out.

    queue: due to the first admission (so a preemption does not move it). prefill: to the first token, decode: to the
    end, both without the time of evictions. A rejected request has its queue span only.
    """
    end = run_end_s if row.end_s is None else row.end_s
    first_token = row.token_times_s[0] if row.token_times_s else end
    admitted = end if row.first_scheduled_s is None else row.first_scheduled_s
    admitted = min(max(admitted, row.due_s), end)
    borders = [("queue", row.due_s, admitted), ("prefill", admitted, max(first_token, admitted))]
    borders.append(("decode", borders[-1][2], end))
    spans = [Span(kind, start, stop) for kind, start, stop in borders if stop > start]
    for since, until in evicted:
        spans = [piece for span in spans for piece in _split(span, since, until)]
    return tuple(_joined(spans))


def _split(span: Span, since: float, until: float) -> Iterable[Span]:
    start, stop = max(span.start_s, since), min(span.end_s, until)
    if stop <= start or span.kind in ("queue", "preempted"):
        return (span,)
    pieces = (
        Span(span.kind, span.start_s, start),
        Span("preempted", start, stop),
        Span(span.kind, stop, span.end_s),
    )
    return tuple(piece for piece in pieces if piece.end_s > piece.start_s)


def _joined(spans: list[Span]) -> Iterable[Span]:
    """Pieces of one eviction that a phase border cut in two are one span again."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].kind == span.kind == "preempted" and joined[-1].end_s == span.start_s:
            span = Span(span.kind, joined.pop().start_s, span.end_s)
        joined.append(span)
    return joined
