"""Names, help texts and buckets of vLLM 0.32 (``vllm/v1/metrics/{loggers,buckets}.py``), as far as they apply here.

What is left out, and why, is in ``docs/http-api.md``.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

LABELS = ("model_name", "engine")

REQUEST_LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
TIME_TO_FIRST_TOKEN_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
INTER_TOKEN_LATENCY_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
ITERATION_TOKENS_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
NUM_PREEMPTIONS_BUCKETS = (1, 2, 3, 4, 5, 10, 20)
PARAMS_N_BUCKETS = (1, 2, 5, 10, 20)


def request_tokens_buckets(max_model_len: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50 ... up to ``max_model_len``, as vLLM has them."""
    powers = (10**exponent for exponent in range(len(str(max_model_len))))
    return tuple(m * power for power in powers for m in (1, 2, 5) if m * power <= max_model_len)


GAUGES = {
    "vllm:num_requests_running": "Number of requests in model execution batches.",
    "vllm:num_requests_waiting": "Number of requests waiting to be processed.",
    "vllm:kv_cache_usage_perc": "KV-cache usage. 1 means 100 percent usage.",
}
COUNTERS = {
    "vllm:num_preemptions": "Cumulative number of preemption from the engine.",
    "vllm:prompt_tokens": "Number of prefill tokens processed.",
    "vllm:generation_tokens": "Number of generation tokens processed.",
    "vllm:prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens.",
    "vllm:prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
}
TOKEN_HISTOGRAMS = {
    "vllm:request_prompt_tokens": "Number of prefill tokens processed.",
    "vllm:request_generation_tokens": "Number of generation tokens processed.",
    "vllm:request_max_num_generation_tokens": "Histogram of maximum number of requested generation tokens.",
    "vllm:request_prefill_kv_computed_tokens": (
        "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
    ),
}
HISTOGRAMS = {
    "vllm:iteration_tokens_total": ("Histogram of number of tokens per engine_step.", ITERATION_TOKENS_BUCKETS),
    "vllm:time_to_first_token_seconds": (
        "Histogram of time to first token in seconds.", TIME_TO_FIRST_TOKEN_BUCKETS,
    ),
    "vllm:inter_token_latency_seconds": (
        "Histogram of inter-token latency in seconds.", INTER_TOKEN_LATENCY_BUCKETS,
    ),
    "vllm:request_time_per_output_token_seconds": (
        "Histogram of time_per_output_token_seconds per request.", INTER_TOKEN_LATENCY_BUCKETS,
    ),
    "vllm:e2e_request_latency_seconds": (
        "Histogram of e2e request latency in seconds.", REQUEST_LATENCY_BUCKETS,
    ),
    "vllm:request_queue_time_seconds": (
        "Histogram of time spent in WAITING phase for request.", REQUEST_LATENCY_BUCKETS,
    ),
    "vllm:request_inference_time_seconds": (
        "Histogram of time spent in RUNNING phase for request.", REQUEST_LATENCY_BUCKETS,
    ),
    "vllm:request_prefill_time_seconds": (
        "Histogram of time spent in PREFILL phase for request.", REQUEST_LATENCY_BUCKETS,
    ),
    "vllm:request_decode_time_seconds": (
        "Histogram of time spent in DECODE phase for request.", REQUEST_LATENCY_BUCKETS,
    ),
    "vllm:request_params_n": ("Histogram of the n request parameter.", PARAMS_N_BUCKETS),
    "vllm:request_num_preemptions": (
        "Histogram of the number of times a request was preempted.", NUM_PREEMPTIONS_BUCKETS,
    ),
}  # fmt: skip
"""Name -> (help text, buckets)."""

FINISHED_REASONS = ("stop", "length", "abort")
WAITING_REASONS = ("capacity", "deferred")
ADMISSION_REASON = "max_num_queued_reqs"


class Families:
    """All metric families in one registry of their own."""

    def __init__(self, max_model_len: int) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        self.gauges = {name: Gauge(name, text, LABELS, registry=registry) for name, text in GAUGES.items()}
        self.counters = {name: Counter(name, text, LABELS, registry=registry) for name, text in COUNTERS.items()}
        self.histograms = {
            name: Histogram(name, text, LABELS, buckets=buckets, registry=registry)
            for name, (text, buckets) in HISTOGRAMS.items()
        }
        buckets = request_tokens_buckets(max_model_len)
        for name, text in TOKEN_HISTOGRAMS.items():
            self.histograms[name] = Histogram(name, text, LABELS, buckets=buckets, registry=registry)
        self.waiting_by_reason = Gauge(
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason: 'capacity' = waiting for scheduling capacity; 'deferred' = held "
            "back by the policy. Sum of all reasons equals vllm:num_requests_waiting.",
            (*LABELS, "reason"),
            registry=registry,
        )
        self.request_success = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            (*LABELS, "finished_reason"),
            registry=registry,
        )
        self.admission_rejections = Counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            ("model_name", "reason"),
            registry=registry,
        )
        self.cache_config_info = Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            ("block_size", "num_gpu_blocks", "num_cpu_blocks", "cache_dtype", "enable_prefix_caching", "engine"),
            registry=registry,
        )
