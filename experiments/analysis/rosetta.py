"""The metric Rosetta: one run under the definitions of several tools, since equal names are not equal things.

Each cell says what the tool of that name would report for this very run: formula and place where it is written. A
tool's clock starts when its client sends a request; here that is the due time, since open-loop load is sent on time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from experiments.analysis.samples import FAMILIES, Floats, Sample, Table, table
from experiments.record import Run

QUANTITIES: Final = ("ttft", "tpot", "itl", "queue")
TOOLS: Final = ("vllm", "guidellm", "aiperf", "vidur")
STATS: Final = ("p50", "p90", "p99", "mean")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a tool means by a quantity. variant: "" or which of two meanings of one tool.

    values: of a run, one number a sample; None where the tool has no such figure, and ``formula`` says what it has.
    difference: in words, against this project's definition; "" = the same.
    """

    tool: str
    quantity: str
    variant: str
    formula: str
    source: str
    difference: str
    values: Callable[[Table], Floats] | None


def _ours(quantity: str) -> Callable[[Table], Floats]:
    return lambda rows: FAMILIES[quantity](rows, None).values


def _sample(values: Floats, rows: Table) -> Sample:
    owner = np.flatnonzero(rows.finished & ~np.isnan(values))
    return Sample(values[owner], owner)


def _from_start(rows: Table) -> Floats:
    """(last - due) / n, counted n times: GuideLLM weights it by the output tokens."""
    tokens = rows.delivered.astype(np.float64)
    each = np.divide(rows.last_token - rows.due, tokens, out=np.full(len(tokens), np.nan), where=tokens > 0)
    made = _sample(each, rows)
    return np.repeat(made.values, rows.delivered[made.owner])


def _by_gaps(rows: Table) -> Floats:
    """(last - first) / (n - 1), counted n - 1 times: GuideLLM weights it by the gaps."""
    made = _sample(rows.tpot, rows)
    return np.repeat(made.values, rows.delivered[made.owner] - 1)


def _by_decode_tokens(rows: Table) -> Floats:
    """(last - first) / n: Vidur's decode tokens include the one that the prefill ends with."""
    tokens = rows.delivered.astype(np.float64)
    span = rows.last_token - rows.first_token
    return _sample(np.divide(span, tokens, out=np.full(len(tokens), np.nan), where=tokens > 0), rows).values


DEFINITIONS: Final = (
    Definition(
        "vllm",
        "ttft",
        "",
        "first streamed output - request sent",
        "vLLM 0.32.0, benchmarks/lib/endpoint_request_func.py (ttft = timestamp - st)",
        "",
        _ours("ttft"),
    ),
    Definition(
        "vllm",
        "tpot",
        "",
        "(latency - ttft) / (output_len - 1), each request once",
        "vLLM 0.32.0, benchmarks/serve.py (calculate_metrics)",
        "",
        _ours("tpot"),
    ),
    Definition(
        "vllm",
        "itl",
        "",
        "every gap between two streamed outputs, of all requests together",
        "vLLM 0.32.0, benchmarks/serve.py (itls += outputs[i].itl)",
        "",
        _ours("itl"),
    ),
    Definition(
        "vllm",
        "queue",
        "code",
        "first SCHEDULED - QUEUED; preemptions are ignored",
        "vLLM 0.32.0, v1/metrics/stats.py (queued_time; 'ignore preemptions')",
        "",
        _ours("queue"),
    ),
    Definition(
        "vllm",
        "queue",
        "documentation",
        "most recent SCHEDULED - QUEUED",
        "vLLM docs/design/metrics.md (Interval Calculations)",
        "a preemption moves the end of the interval, so time spent running counts as queueing",
        _ours("queue_recent"),
    ),
    Definition(
        "guidellm",
        "ttft",
        "",
        "first token - request start",
        "GuideLLM, schemas/request_stats.py (time_to_first_token_ms)",
        "",
        _ours("ttft"),
    ),
    Definition(
        "guidellm",
        "tpot",
        "",
        "(last token - request start) / output tokens, weighted by output tokens",
        "GuideLLM, schemas/request_stats.py (time_per_output_token_ms); benchmark/schemas/metrics.py (weight)",
        "includes the time to the first token, and long outputs count more",
        _from_start,
    ),
    Definition(
        "guidellm",
        "itl",
        "",
        "(last token - first token) / (output tokens - 1), weighted by output tokens - 1",
        "GuideLLM, schemas/request_stats.py (inter_token_latency_ms); benchmark/schemas/metrics.py (weight)",
        "an average a request: the mean is that of all gaps, but no percentile shows a single stall",
        _by_gaps,
    ),
    Definition(
        "guidellm",
        "queue",
        "",
        "none of the server's: it times its own queue of requests not yet sent",
        "GuideLLM, schemas/info.py (RequestTimings: queued, dequeued)",
        "a client cannot see when a server schedules a request",
        None,
    ),
    Definition(
        "aiperf",
        "ttft",
        "",
        "first response with content - request start",
        "AIPerf, metrics/types/ttft_metric.py",
        "",
        _ours("ttft"),
    ),
    Definition(
        "aiperf",
        "tpot",
        "",
        "none of that name: its inter token latency is this figure",
        "AIPerf, metrics reference",
        "look under ITL",
        None,
    ),
    Definition(
        "aiperf",
        "itl",
        "",
        "(request latency - ttft) / (output tokens - those of the first chunk), each request once",
        "AIPerf, metrics/types/inter_token_latency_metric.py",
        "an average a request, what vLLM calls TPOT; its single gaps are inter chunk latency",
        _ours("tpot"),
    ),
    Definition(
        "aiperf",
        "queue",
        "",
        "none: it sees requests and answers only",
        "AIPerf, metrics reference",
        "a client cannot see when a server schedules a request",
        None,
    ),
    Definition(
        "vidur",
        "ttft",
        "",
        "prefill completed - arrived (prefill_e2e_time)",
        "Vidur, docs/metrics.md (f_r - a_r)",
        "",
        _ours("ttft"),
    ),
    Definition(
        "vidur",
        "tpot",
        "",
        "(completed - prefill completed) / decode tokens, each request once",
        "Vidur, metrics/metrics_store.py (decode_time_execution_plus_preemption_normalized)",
        "divides by n, not n - 1: its decode tokens include the one the prefill makes; one token counts as 0",
        _by_decode_tokens,
    ),
    Definition(
        "vidur",
        "itl",
        "",
        "time of each decode token, of all requests together (decode_token_execution_plus_preemption_times)",
        "Vidur, docs/metrics.md",
        "",
        _ours("itl"),
    ),
    Definition(
        "vidur",
        "queue",
        "",
        "first scheduled - arrived, irrespective of restarts (request_scheduling_delay)",
        "Vidur, docs/metrics.md (s_r - a_r)",
        "",
        _ours("queue"),
    ),
)
"""Every cell of the table."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one run. values: seconds by "p50", "p90", "p99", "mean"; None where the tool has none.

    count: samples. differs: whether any of the values is not this project's own; by more than rounding.
    """

    definition: Definition
    values: dict[str, float] | None
    count: int
    differs: bool


@dataclass(frozen=True, slots=True)
class Rosetta:
    """ours: this project's figures by quantity; cells: in order of quantity, then tool."""

    ours: dict[str, dict[str, float] | None]
    cells: tuple[Cell, ...]


def rosetta(run: Run) -> Rosetta:
    """The run under every definition. Percentiles interpolate linearly throughout, also where a tool does otherwise."""
    rows = table(run)
    ours = {quantity: summary(_ours(quantity)(rows)) for quantity in QUANTITIES}
    order = {quantity: index for index, quantity in enumerate(QUANTITIES)}
    cells = []
    for definition in sorted(DEFINITIONS, key=lambda each: (order[each.quantity], TOOLS.index(each.tool))):
        made = np.empty(0) if definition.values is None else definition.values(rows)
        values, own = summary(made), ours[definition.quantity]
        cells.append(Cell(definition, values, len(made), definition.values is None or not _same(values, own)))
    return Rosetta(ours, tuple(cells))


def summary(values: Floats) -> dict[str, float] | None:
    """Percentiles and mean; None for no values."""
    if not len(values):
        return None
    cuts = np.quantile(values, [0.5, 0.9, 0.99])
    return dict(zip(STATS, (*map(float, cuts), float(values.mean())), strict=True))


def _same(one: dict[str, float] | None, other: dict[str, float] | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(np.isclose(one[stat], other[stat], rtol=1e-9, atol=1e-12) for stat in STATS)
