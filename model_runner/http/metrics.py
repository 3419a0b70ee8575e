"""``/metrics``: what vLLM would say of the same run, counted from the snapshots.

Intervals are vLLM's (``docs/design/metrics.md``): queue from arrival to the first schedule, prefill from there to the
first token, decode from the first to the last token, inference both together; a preemption falls into where it happens.
Latencies are of finished requests only. A request that outlived a worker has no true first token left to measure from:
it counts in the tokens, the successes and the end-to-end time, not in the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prometheus_client import generate_latest

from model_runner.client import RunnerClient
from model_runner.http.metric_names import (
    ADMISSION_REASON,
    COUNTERS,
    FINISHED_REASONS,
    TOKEN_HISTOGRAMS,
    WAITING_REASONS,
    Families,
)
from model_runner.messages import EngineInfo, EngineSnapshot
from scheduler import RequestRecord, Totals

ENGINE: Final = "0"
LIVE_PHASES: Final = ("running", "computing", "idle", "paused", "stalled")
_DEFERRED: Final = ("admission_paused", "static_batch_running")
"""Reasons to wait that come from the policy and hold for the whole queue; all others are for want of room."""
_TOTALS: Final = {
    "vllm:num_preemptions": "preemptions",
    "vllm:generation_tokens": "output_tokens",
    "vllm:prefix_cache_queries": "prefix_cache_queries",
    "vllm:prefix_cache_hits": "prefix_cache_hits",
}


@dataclass(slots=True)
class _Life:
    """Of an unfinished request: when its last token came, and whether its first was counted."""

    last_token_time: float
    is_counted: bool


class Metrics:
    """Counts every snapshot once, over all runs of the worker. ``take`` is called by one thread, ``page`` by any.

    Memory is bounded by the unfinished requests.
    """

    def __init__(self) -> None:
        self._client: RunnerClient | None = None
        self._families: Families | None = None
        self._labels: tuple[str, str] = ("", ENGINE)
        self._run_id = ""
        self._totals = Totals()
        self._lives: dict[str, _Life] = {}
        self._num_refused = 0

    def attach(self, client: RunnerClient) -> None:
        """Count this client's snapshots from now on."""
        self._client = client
        client.observe(self.take)

    def take(self, snapshot: EngineSnapshot) -> None:
        """Count the next snapshot."""
        families = self._families or self._begin(snapshot.info)
        if snapshot.run_id != self._run_id:
            self._begin_run(families, snapshot)
        self._count_totals(families, snapshot.step.totals)
        if not snapshot.heartbeat:
            num_tokens = sum(snapshot.step.num_scheduled_tokens.values())
            families.histograms["vllm:iteration_tokens_total"].labels(*self._labels).observe(num_tokens)
        self._count_tokens(families, snapshot)
        for record in snapshot.step.records:
            self._count_end(families, record)

    def refused(self) -> None:
        """One more request was refused because the queue is full. Called by the server's thread only."""
        self._num_refused += 1

    def page(self, client: RunnerClient) -> bytes:
        """All metrics in Prometheus' text format 0.0.4; b"" before the first snapshot."""
        families = self._families
        if families is None:
            return b""
        self._set_gauges(families, client)
        rejections = families.admission_rejections.labels(self._labels[0], ADMISSION_REASON)
        rejections.inc(self._num_refused)
        self._num_refused = 0
        return generate_latest(families.registry)

    def _begin(self, info: EngineInfo) -> Families:
        """The buckets of token counts end at the first engine's ``max_model_len``; a histogram cannot change them."""
        self._families = Families(info.max_model_len)
        return self._families

    def _begin_run(self, families: Families, snapshot: EngineSnapshot) -> None:
        info = snapshot.info
        self._run_id, self._totals = snapshot.run_id, Totals()
        self._labels = (info.model, ENGINE)
        self._lives.clear()
        for name in COUNTERS:
            families.counters[name].labels(*self._labels)
        for histogram in families.histograms.values():
            histogram.labels(*self._labels)
        for reason in FINISHED_REASONS:
            families.request_success.labels(*self._labels, reason)
        caching = str(snapshot.step.policy.enable_prefix_caching)
        sizes = (str(info.block_size), str(info.num_blocks), str(info.num_host_blocks))
        families.cache_config_info.clear()
        families.cache_config_info.labels(*sizes, info.dtype, caching, ENGINE).set(1)

    def _count_totals(self, families: Families, totals: Totals) -> None:
        for name, field in _TOTALS.items():
            grown = getattr(totals, field) - getattr(self._totals, field)
            if grown > 0:
                families.counters[name].labels(*self._labels).inc(grown)
        self._totals = totals

    def _count_tokens(self, families: Families, snapshot: EngineSnapshot) -> None:
        step = snapshot.step
        gaps = families.histograms["vllm:inter_token_latency_seconds"].labels(*self._labels)
        rows: dict[str, int] | None = None
        for request_id in step.new_tokens:
            life = self._lives.get(request_id)
            if life is not None:
                gaps.observe(step.time - life.last_token_time)
                life.last_token_time = step.time
                continue
            life = self._lives[request_id] = _Life(step.time, False)
            rows = rows or {name: index for index, name in enumerate(step.running.request_id)}
            row = rows.get(request_id)
            if row is None:
                continue  # it ended in this step: its record tells
            first = step.running.first_token_time[row]
            if first is not None and step.running.num_output_tokens[row] == 1:
                arrival, num_prompt = step.running.arrival_time[row], step.running.num_prompt_tokens[row]
                self._count_first(families, life, first - arrival, num_prompt)

    def _count_first(self, families: Families, life: _Life, ttft_s: float, num_prompt_tokens: int) -> None:
        life.is_counted = True
        families.histograms["vllm:time_to_first_token_seconds"].labels(*self._labels).observe(ttft_s)
        families.counters["vllm:prompt_tokens"].labels(*self._labels).inc(num_prompt_tokens)

    def _count_end(self, families: Families, record: RequestRecord) -> None:
        if record.outcome == "rejected":
            return
        life = self._lives.pop(record.request_id, None) or _Life(0.0, False)
        first, prior = record.first_token_time, record.num_prior_output_tokens
        if first is not None and not prior and not life.is_counted:
            self._count_first(families, life, first - record.arrival_time, record.num_prompt_tokens)
        reason = record.reason if record.outcome == "finished" else self._reason_of_abort(record.request_id)
        families.request_success.labels(*self._labels, reason).inc()
        if reason != "abort":
            self._observe_finished(families, record)

    def _reason_of_abort(self, request_id: str) -> str:
        """A stop string is found by the reader, who then aborts what he has all of: to the engine it looks alike."""
        seen = self._client.request(request_id) if self._client is not None else None
        return "stop" if seen is not None and seen.outcome == "finished" else "abort"

    def _observe_finished(self, families: Families, record: RequestRecord) -> None:
        prompt, output = record.num_prompt_tokens, record.num_output_tokens
        values: dict[str, float] = dict(
            zip(TOKEN_HISTOGRAMS, (prompt, output, output, max(0, prompt - record.num_cached_tokens)), strict=True)
        )
        values["vllm:request_params_n"] = 1
        values["vllm:request_num_preemptions"] = record.num_preemptions
        values["vllm:e2e_request_latency_seconds"] = record.end_time - record.arrival_time
        scheduled, first, last = record.first_scheduled_time, record.first_token_time, record.last_token_time
        if scheduled is not None and first is not None and last is not None and not record.num_prior_output_tokens:
            values["vllm:request_queue_time_seconds"] = scheduled - record.arrival_time
            values["vllm:request_prefill_time_seconds"] = first - scheduled
            values["vllm:request_decode_time_seconds"] = last - first
            values["vllm:request_inference_time_seconds"] = last - scheduled
            values["vllm:request_time_per_output_token_seconds"] = (last - first) / (output - 1) if output > 1 else 0.0
        for name, value in values.items():
            families.histograms[name].labels(*self._labels).observe(value)

    def _set_gauges(self, families: Families, client: RunnerClient) -> None:
        latest, labels = client.latest, self._labels
        is_live = latest is not None and client.state.phase in LIVE_PHASES
        running = len(latest.step.running) if latest is not None and is_live else 0
        waiting = max(0, client.num_unfinished - running)
        values = (running, waiting, latest.step.kv_cache_usage if latest is not None and is_live else 0.0)
        for gauge, value in zip(families.gauges.values(), values, strict=True):
            gauge.labels(*labels).set(value)
        head = latest.step.waiting.reason[:1] if latest is not None and is_live else ()
        deferred = waiting if head and head[0] in _DEFERRED else 0
        for reason, count in zip(WAITING_REASONS, (waiting - deferred, deferred), strict=True):
            families.waiting_by_reason.labels(*labels, reason).set(count)
