"""The numbers of the tiles, with the number of samples behind each."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from model_runner.messages import EngineSnapshot
from scheduler import RequestRecord, SchedulerPolicy, StepSnapshot, Totals

RATE_WINDOW_S: Final = 30.0
LATENCY_SAMPLES: Final = 200


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds; None when there is no sample. n: how many, the newest LATENCY_SAMPLES at most.

    since_version: version of the policy since which the engine has decided alike; earlier samples are not among them.
    """

    p50: float | None
    p95: float | None
    n: int
    since_version: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """tokens_per_s: output tokens a second of engine time over the last window_s seconds; None before two samples.

    ttft: arrival to first token, counted when that token appears. tpot: (last token - first token) / (output tokens -
    1), finished requests of two tokens and more. Requests continued after a restart of the worker are in neither.
    oldest_wait_s: None when nobody waits. preemptions, recompute_tokens: over all runs of the worker.
    lone_request_id: the only running request, when it holds more blocks than are usable; else "".
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
    used_blocks: int = 0
    limit_blocks: int = 0
    lone_request_id: str = ""


def lone_above_limit(step: StepSnapshot) -> str:
    """The request for which ``kv_block_limit`` yields because it runs alone and could not end otherwise; "" = none."""
    over = step.num_used_blocks > step.block_limit
    return step.running.request_id[0] if over and len(step.running) == 1 else ""


def percentile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between closest ranks, as numpy.percentile does; q in 0..100."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * q / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


class _Samples:
    """The newest durations, each with the policy version it was measured under."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, float]] = deque(maxlen=LATENCY_SAMPLES)
        self._made: Percentiles | None = None

    def add(self, version: int, seconds: float) -> None:
        self._samples.append((version, seconds))
        self._made = None

    def since(self, version: int) -> Percentiles:
        """Of the samples under that version and later ones."""
        if self._made is None or self._made.since_version != version:
            present = [seconds for v, seconds in self._samples if v >= version]
            p50 = 1000 * statistics.median(present) if present else None
            p95 = 1000 * percentile(present, 95) if present else None
            self._made = Percentiles(p50, p95, len(present), version)
        return self._made


def decisions(policy: SchedulerPolicy) -> SchedulerPolicy:
    """The policy without its version and pace: two that are equal here schedule alike."""
    return replace(policy, version=0, paused=False, single_step=False, step_delay_ms=0.0)


class FigureBook:
    """Collects what the tiles need from the stream of snapshots, each seen once."""

    def __init__(self) -> None:
        self._output: deque[tuple[str, float, int]] = deque()
        self._ttft = _Samples()
        self._tpot = _Samples()
        self._policy: SchedulerPolicy | None = None
        self._since_version = 0
        self._run_totals: dict[str, Totals] = {}

    def add(self, snapshot: EngineSnapshot) -> None:
        """Take one step's snapshot."""
        step = snapshot.step
        if self._policy is None or decisions(step.policy) != decisions(self._policy):
            self._since_version = step.policy.version
        self._policy = step.policy
        self._run_totals[snapshot.run_id] = step.totals
        for record in step.records:
            self._add_record(record, step)
        running = step.running
        columns = (running.request_id, running.num_output_tokens, running.arrival_time, running.first_token_time)
        for request_id, output, arrival, first in zip(*columns, strict=True):
            self._add_first(request_id, output, arrival, first, step)
        sample = (snapshot.run_id, snapshot.engine_time, snapshot.step.totals.output_tokens)
        if self._output and self._output[-1][0] != snapshot.run_id:
            self._output.clear()
        if not self._output or snapshot.engine_time - self._output[-1][1] >= 0.05:
            self._output.append(sample)
        while len(self._output) > 2 and self._output[1][1] < snapshot.engine_time - RATE_WINDOW_S:
            self._output.popleft()

    def _add_first(self, request_id: str, output: int, arrival: float, first: float | None, step: StepSnapshot) -> None:
        """A request whose only output token is of this step; one continued after a restart has more by then."""
        if output == 1 and first is not None and request_id in step.new_tokens:
            self._ttft.add(step.policy.version, first - arrival)

    def _add_record(self, record: RequestRecord, step: StepSnapshot) -> None:
        output, arrival, first = record.num_output_tokens, record.arrival_time, record.first_token_time
        self._add_first(record.request_id, output, arrival, first, step)
        if record.num_prior_output_tokens:
            return
        if record.outcome != "finished" or record.first_token_time is None or record.last_token_time is None:
            return
        if record.num_output_tokens > 1:
            span = record.last_token_time - record.first_token_time
            self._tpot.add(record.policy_version, span / (record.num_output_tokens - 1))

    def figures(self, snapshot: EngineSnapshot) -> Figures:
        """The numbers as of ``snapshot``."""
        step = snapshot.step
        rate, window = None, 0.0
        if self._output and self._output[0][0] == snapshot.run_id:
            _, start, before = self._output[0]
            window = snapshot.engine_time - start
            rate = (step.totals.output_tokens - before) / window if window > 0 else None
        earlier = [totals for run_id, totals in self._run_totals.items() if run_id != snapshot.run_id]
        oldest = min(step.waiting.arrival_time, default=None)
        return Figures(
            tokens_per_s=rate,
            window_s=window,
            ttft=self._ttft.since(self._since_version),
            tpot=self._tpot.since(self._since_version),
            waiting=step.num_waiting,
            oldest_wait_s=None if oldest is None else max(0.0, step.time - oldest),
            kv_usage=step.kv_cache_usage,
            kv_limit_share=min(step.block_limit, step.num_blocks) / max(1, step.num_blocks),
            preemptions=step.totals.preemptions + sum(t.preemptions for t in earlier),
            recompute_tokens=step.totals.recompute_tokens + sum(t.recompute_tokens for t in earlier),
            used_blocks=step.num_used_blocks,
            limit_blocks=min(step.block_limit, step.num_blocks),
            lone_request_id=lone_above_limit(step),
        )
