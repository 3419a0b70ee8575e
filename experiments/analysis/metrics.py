"""Every metric by one definition: what it is called, how it is computed, where the definition is written.

Latencies count from ``due_s`` and are of finished requests; unfinished and rejected ones are counted apart, by
``counts``. Percentiles interpolate linearly (numpy's default; Hyndman and Fan 1996, type 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from experiments.analysis.samples import FAMILIES, Sample, Slo, Table, table
from experiments.record import Run

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a run.

    unit: "s", "tokens/s", "requests/s", "share" or a count a request. family: the sample it is made from
    (``samples.FAMILIES``). stat: what is made of the sample: "p50", "p90", "p99", "mean", or "rate" = sum / wall_s.
    """

    name: str
    unit: str
    better: Better
    formula: str
    source: str
    family: str
    stat: str

    @property
    def quantile(self) -> float | None:
        """0..1 for a percentile, None for the rest."""
        return int(self.stat[1:]) / 100 if self.stat.startswith("p") else None


@dataclass(frozen=True, slots=True)
class Value:
    """A metric of one run: None where there is nothing to measure. count: samples behind it."""

    value: float | None
    count: int


_LATENCIES: Final = (
    (
        "ttft",
        "first token - due, once a request",
        "vLLM docs/benchmarking/cli.md (TTFT: request sent to first output); from the due time, as in open-loop load",
    ),
    (
        "itl",
        "each gap between two delivered tokens, of all requests together",
        "vllm bench serve (benchmarks/serve.py: itls pooled over requests)",
    ),
    (
        "tpot",
        "(last token - first token) / (n - 1) a request, n >= 2",
        "vllm bench serve (benchmarks/serve.py: (latency - ttft) / (output_len - 1))",
    ),
    ("e2e", "last token - due", "vllm bench serve (e2el)"),
    (
        "queue",
        "first scheduled - due; a preemption does not move it",
        "Vidur docs/metrics.md (scheduling delay: to the first schedule, whatever restarts follow)",
    ),
    (
        "queue_recent",
        "most recently scheduled - due; a preemption moves it",
        "vLLM docs/design/metrics.md (queue interval: QUEUED to the most recent SCHEDULED; its code keeps the first)",
    ),
)

_RATES: Final = (
    (
        "output_tokens_per_s",
        "tokens/s",
        "output tokens of finished requests / wall time",
        "vllm bench serve (output_throughput)",
        "output_tokens",
    ),
    (
        "total_tokens_per_s",
        "tokens/s",
        "prompt and output tokens of finished requests / wall time",
        "vllm bench serve (total_token_throughput)",
        "all_tokens",
    ),
    (
        "request_rps",
        "requests/s",
        "finished requests / wall time",
        "vllm bench serve (request_throughput)",
        "finished",
    ),
    (
        "goodput_rps",
        "requests/s",
        "finished requests within every limit / wall time; one output token counts as a TPOT of 0",
        "vllm bench serve --goodput (request_goodput)",
        "good",
    ),
)

_A_REQUEST: Final = (
    ("slo_attainment", "share", "higher", "requests within every limit / all requests", "DistServe, OSDI 2024", "good"),
    (
        "preemptions_per_request",
        "preemptions",
        "lower",
        "evictions / all requests",
        "vLLM vllm:num_preemptions over requests",
        "preemptions",
    ),
    (
        "recompute_tokens_per_request",
        "tokens",
        "lower",
        "tokens computed again after an eviction / all requests",
        "recompute waste as in Kwon et al., PagedAttention, SOSP 2023, section 4.5",
        "recompute",
    ),
    (
        "padding_tokens_per_request",
        "tokens",
        "lower",
        "padding tokens of static batches / all requests",
        "request-level scheduling in Yu et al., Orca, OSDI 2022, section 2",
        "padding",
    ),
)


def _metrics() -> Iterator[Metric]:
    for name, unit, formula, source, family in _RATES:
        yield Metric(name, unit, "higher", formula, source, family, "rate")
    for family, formula, source in _LATENCIES:
        for stat in ("p50", "p90", "p99", "mean"):
            yield Metric(f"{family}_{stat}_s", "s", "lower", formula, source, family, stat)
    for name, unit, better, formula, source, family in _A_REQUEST:
        yield Metric(name, unit, "higher" if better == "higher" else "lower", formula, source, family, "mean")


METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _metrics()}
"""Name -> metric, in the order of a table."""


def statistic(metric: Metric, sample: Sample, wall_s: float) -> float | None:
    """The metric of a sample; None for an empty one, and for a rate without time."""
    values = sample.values
    if not len(values) or (metric.stat == "rate" and wall_s <= 0):
        return None
    if metric.stat == "rate":
        return float(values.sum()) / wall_s
    quantile = metric.quantile
    return float(values.mean() if quantile is None else np.quantile(values, quantile))


def measure(run: Run, slo: Slo | None = None) -> Mapping[str, Value]:
    """Every metric of ``METRICS``. Without ``slo`` those of goodput have no value."""
    return measure_table(table(run), slo)


def measure_table(rows: Table, slo: Slo | None = None) -> Mapping[str, Value]:
    """``measure`` from arrays already made."""
    samples = {name: make(rows, slo) for name, make in FAMILIES.items()}
    return {
        name: Value(statistic(metric, samples[metric.family], rows.wall_s), len(samples[metric.family].values))
        for name, metric in METRICS.items()
    }


@dataclass(frozen=True, slots=True)
class Counts:
    """How the requests of a run ended; the other three add up to ``requests``."""

    requests: int
    finished: int
    rejected: int
    unfinished: int


def counts(run: Run) -> Counts:
    """How the requests of a run ended."""
    finished = sum(row.outcome == "finished" for row in run.requests)
    rejected = sum(row.outcome == "rejected" for row in run.requests)
    return Counts(len(run.requests), finished, rejected, len(run.requests) - finished - rejected)
