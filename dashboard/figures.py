"""The numbers of the tiles, with the number of samples behind each."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from model_runner.messages import EngineSnapshot
from scheduler import RequestRecord

RATE_WINDOW_S: Final = 30.0
LATENCY_SAMPLES: Final = 200


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds; None when there is no sample."""

    p50: float | None
    p95: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Figures:
    """tokens_per_s: output tokens a second of engine time over the last window_s seconds; None before two samples.

    ttft: arrival to first token. tpot: (last token - first token) / (output tokens - 1), requests of two tokens and
    more. oldest_wait_s: None when nobody waits.
    """

    tokens_per_s: float | None
    window_s: float
    ttft: Percentiles
    tpot: Percentiles
    waiting: int
    oldest_wait_s: float | None
    kv_usage: float
    kv_limit_share: float
    preemptions: int
    recompute_tokens: int


def percentile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between closest ranks, as numpy.percentile does; q in 0..100."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * q / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _percentiles(seconds: Sequence[float]) -> Percentiles:
    if not seconds:
        return Percentiles(None, None, 0)
    return Percentiles(1000 * statistics.median(seconds), 1000 * percentile(seconds, 95), len(seconds))


class FigureBook:
    """Collects what the tiles need from the stream of snapshots, each seen once."""

    def __init__(self) -> None:
        self._output: deque[tuple[str, float, int]] = deque()
        self._ttft: deque[float] = deque(maxlen=LATENCY_SAMPLES)
        self._tpot: deque[float] = deque(maxlen=LATENCY_SAMPLES)

    def add(self, snapshot: EngineSnapshot) -> None:
        """Take one step's snapshot."""
        for record in snapshot.step.records:
            self._add_record(record)
        sample = (snapshot.run_id, snapshot.engine_time, snapshot.step.totals.output_tokens)
        if self._output and self._output[-1][0] != snapshot.run_id:
            self._output.clear()
        if not self._output or snapshot.engine_time - self._output[-1][1] >= 0.05:
            self._output.append(sample)
        while len(self._output) > 2 and self._output[1][1] < snapshot.engine_time - RATE_WINDOW_S:
            self._output.popleft()

    def _add_record(self, record: RequestRecord) -> None:
        if record.outcome != "finished" or record.first_token_time is None or record.last_token_time is None:
            return
        self._ttft.append(record.first_token_time - record.arrival_time)
        if record.num_output_tokens > 1:
            span = record.last_token_time - record.first_token_time
            self._tpot.append(span / (record.num_output_tokens - 1))

    def figures(self, snapshot: EngineSnapshot) -> Figures:
        """The numbers as of ``snapshot``."""
        step = snapshot.step
        rate, window = None, 0.0
        if self._output and self._output[0][0] == snapshot.run_id:
            _, start, before = self._output[0]
            window = snapshot.engine_time - start
            rate = (step.totals.output_tokens - before) / window if window > 0 else None
        oldest = min(step.waiting.arrival_time, default=None)
        return Figures(
            tokens_per_s=rate,
            window_s=window,
            ttft=_percentiles(self._ttft),
            tpot=_percentiles(self._tpot),
            waiting=step.num_waiting,
            oldest_wait_s=None if oldest is None else max(0.0, step.time - oldest),
            kv_usage=step.kv_cache_usage,
            kv_limit_share=min(step.block_limit, step.num_blocks) / max(1, step.num_blocks),
            preemptions=step.totals.preemptions,
            recompute_tokens=step.totals.recompute_tokens,
        )
