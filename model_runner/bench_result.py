"""A measured run in the words of ``vllm bench serve --save-result``, so that what reads such files reads ours.

Names and formulas are those of vLLM 0.32 (``vllm/benchmarks/serve.py``): TTFT from the arrival to the first token, TPOT
``(E2EL - TTFT) / (n - 1)`` of each request with n > 1 tokens, ITL every gap between tokens of all requests together.
There is no client and no network here: a request arrives when the scheduler is given it, a token when its step ends.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DEFAULT_PERCENTILES = (99.0,)
BACKEND = "batchscope"


@dataclass(slots=True)
class RequestTimes:
    """One request that was taken in. Seconds since the run began; tokens: when each output token was there."""

    num_prompt_tokens: int
    arrived: float
    tokens: list[float] = field(default_factory=list)

    @property
    def ttft(self) -> float:
        """Seconds from the arrival to the first token; 0 without one."""
        return self.tokens[0] - self.arrived if self.tokens else 0.0

    @property
    def latency(self) -> float:
        """Seconds from the arrival to the last token; 0 without one."""
        return self.tokens[-1] - self.arrived if self.tokens else 0.0

    @property
    def itl(self) -> list[float]:
        """Seconds between one token and the next."""
        return [later - earlier for earlier, later in zip(self.tokens, self.tokens[1:], strict=False)]


def serve_result(
    times: Mapping[str, RequestTimes],
    *,
    model: str,
    label: str,
    rejected: Mapping[str, str],
    duration_s: float,
    all_at_once: bool,
    percentiles: Sequence[float] = DEFAULT_PERCENTILES,
) -> dict[str, Any]:
    """The result's fields, in vLLM's order. rejected: reason by request_id. all_at_once: every request came first."""
    done = [request for request in times.values() if request.tokens]
    num_input = sum(request.num_prompt_tokens for request in done)
    num_output = sum(len(request.tokens) for request in done)
    most_tokens, most_requests = _busiest_second(done)
    result: dict[str, Any] = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": BACKEND,
        "backend": BACKEND,
        "label": label,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(times) + len(rejected),
        "request_rate": "inf" if all_at_once else None,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": duration_s,
        "completed": len(done),
        "failed": len(rejected) + len(times) - len(done),
        "total_input_tokens": num_input,
        "total_output_tokens": num_output,
        "request_throughput": len(done) / duration_s,
        "request_goodput": None,
        "output_throughput": num_output / duration_s,
        "total_token_throughput": (num_input + num_output) / duration_s,
        "max_output_tokens_per_s": most_tokens,
        "max_concurrent_requests": most_requests,
        "rtfx": 0.0,
    }
    series = {
        "ttft": [request.ttft for request in done],
        "tpot": [(r.latency - r.ttft) / (len(r.tokens) - 1) for r in done if len(r.tokens) > 1],
        "itl": [gap for request in done for gap in request.itl],
        "e2el": [request.latency for request in done],
    }
    for name, seconds in series.items():
        result |= _spread(name, seconds, percentiles)
    return result


def detailed(times: Mapping[str, RequestTimes], rejected: Mapping[str, str]) -> dict[str, Any]:
    """What ``--save-detailed`` adds: one entry a request, those that were taken in first."""
    requests = [*times.values(), *(RequestTimes(0, 0.0) for _ in rejected)]
    return {
        "input_lens": [request.num_prompt_tokens for request in requests],
        "output_lens": [len(request.tokens) for request in requests],
        "ttfts": [request.ttft for request in requests],
        "itls": [request.itl for request in requests],
        "latencies": [request.latency for request in requests],
        "start_times": [request.arrived for request in requests],
        "queue_times": [0.0 for _ in requests],
        "errors": ["" for _ in times] + list(rejected.values()),
    }


def _spread(name: str, seconds: Sequence[float], percentiles: Sequence[float]) -> dict[str, float]:
    values = np.array(seconds or [0.0]) * 1000
    found = {
        f"mean_{name}_ms": float(values.mean()),
        f"median_{name}_ms": float(np.median(values)),
        f"std_{name}_ms": float(values.std()),
    }
    return found | {f"p{percent:g}_{name}_ms": float(np.percentile(values, percent)) for percent in percentiles}


def _busiest_second(done: Sequence[RequestTimes]) -> tuple[float, int]:
    """Most tokens, and most requests under way, in one of the whole seconds since the first arrival."""
    start = min((request.arrived for request in done), default=0.0)
    tokens = Counter(math.floor(at - start) for request in done for at in request.tokens)
    requests = Counter(
        second
        for request in done
        for second in range(math.floor(request.arrived - start), math.floor(request.tokens[-1] - start) + 1)
    )
    return float(max(tokens.values(), default=0)), max(requests.values(), default=0)
