"""Named policies: what known systems decide, in this scheduler's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.policy import SchedulerPolicy


@dataclass(frozen=True, slots=True)
class PresetNote:
    """What a preset stands for (description) and where that is written (source)."""

    description: str
    source: str


PRESETS: Final[dict[str, SchedulerPolicy]] = {
    "static": SchedulerPolicy(batching="static", admission_rule="worst_case"),
    "orca-max": SchedulerPolicy(
        prefill_mix="running_order",
        enable_chunked_prefill=False,
        max_num_batched_tokens=8192,
        admission_rule="worst_case",
        allocation="reserve_max",
    ),
    "vllm-v0": SchedulerPolicy(
        prefill_mix="prefill_first", enable_chunked_prefill=False, max_num_batched_tokens=8192, kv_watermark=0.01
    ),
    "vllm-v1": SchedulerPolicy(prefill_mix="running_order"),
    "sarathi": SchedulerPolicy(prefill_mix="decode_first", max_num_batched_tokens=64),
    "tgi-worst-case": SchedulerPolicy(
        prefill_mix="prefill_first",
        enable_chunked_prefill=False,
        max_num_batched_tokens=8192,
        admission_rule="worst_case",
    ),
}
"""Name -> policy. Limits (slots, budget) are starting values; the choices are what the name stands for."""

PRESET_NOTES: Final[dict[str, PresetNote]] = {
    "static": PresetNote(
        "A batch starts and ends whole: prompts are padded to the longest, and finished rows wait for the slowest.",
        "Request-level scheduling as described in Yu et al., Orca, OSDI 2022, section 2 (FasterTransformer).",
    ),
    "orca-max": PresetNote(
        "The batch is made anew every iteration, but each request reserves one run of blocks for the longest sequence "
        "the model takes: little of the cache is ever filled, and few requests run.",
        "Yu et al., Orca, OSDI 2022, sections 3 and 4.2; memory as Orca (Max) in Kwon et al., PagedAttention, "
        "SOSP 2023, section 6.1.",
    ),
    "vllm-v0": PresetNote(
        "Whole prompts first, and an iteration is either prefill or decode: quick first tokens, stalled decodes.",
        "vLLM before 0.8, vllm/core/scheduler.py, chunked prefill off, watermark 0.01.",
    ),
    "vllm-v1": PresetNote(
        "Running requests first in order of admission, then the queue; prefill in chunks beside decodes; the newest "
        "is evicted and recomputed.",
        "vLLM 0.32, vllm/v1/core/sched/scheduler.py, prefix caching off.",
    ),
    "sarathi": PresetNote(
        "All decodes first, the rest of a small budget is prefill chunks: no decode ever stalls behind a prompt.",
        "Agrawal et al., Sarathi-Serve, OSDI 2024, algorithm 3.",
    ),
    "tgi-worst-case": PresetNote(
        "A request is let in only when its prompt and all output it may make fit beside the same of those that run: "
        "nobody is ever evicted, and slots stay empty for tokens that are never made.",
        "Hugging Face text-generation-inference, router backends/v3/src/queue.rs: a batch's token budget counts "
        "input_length + max_new_tokens of every entry.",
    ),
}
"""Name -> what it stands for."""
