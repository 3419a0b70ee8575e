"""The scheduling policy: every field can change between two iterations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerPolicy:
    """Which requests run, who makes room and how memory is given out.

    A policy is a value: it does not check itself when made. ``problems(policy)`` names each illegal field, and
    ``Scheduler.set_policy`` refuses a policy that has any. ``choices(field)`` lists the values of a named field.

    batching: "continuous" (the batch is rebuilt every iteration) or "static" (a batch starts and ends whole).
    max_num_seqs: running requests at most, >= 1.
    max_num_batched_tokens: tokens one step may compute, >= 1.
    admission_order, admission_rule: who is next, and what must fit before it is let in.
    kv_watermark: share of the blocks kept free at admission, 0 <= x < 1; not applied when nothing runs.
    head_of_line: "strict" = nobody passes a request that does not fit.
    admission_paused: True = nobody is let in; what runs, runs on.
    enable_chunked_prefill: False = a prompt is computed in one step or not at all.
    long_prefill_token_threshold: most tokens of one prefill in one step, 0 = no limit (vLLM's field).
    prefill_mix: order in which the token budget is given to decodes and prefill chunks.
    preemption_mode, preemption_victim, preemption_requeue: what an eviction does, who goes, where it queues again.
    allocation: how KV blocks are given out.
    kv_block_limit: blocks that may be in use, >= 1; None = all. A lowered limit kills nobody.
    enable_prefix_caching: share full blocks of equal prefixes.
    step_delay_ms: pause after each step, >= 0, for the eye; never counted as engine time. paused: start no step.
    single_step: wait for a step command before each step.
    version: set by the scheduler.
    """

    batching: str = "continuous"
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 128
    admission_order: str = "fcfs"
    admission_rule: str = "full_sequence"
    kv_watermark: float = 0.0
    head_of_line: str = "strict"
    admission_paused: bool = False
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    prefill_mix: str = "decode_first"
    preemption_mode: str = "recompute"
    preemption_victim: str = "newest"
    preemption_requeue: str = "front"
    allocation: str = "paged"
    kv_block_limit: int | None = None
    enable_prefix_caching: bool = False
    step_delay_ms: float = 0.0
    paused: bool = False
    single_step: bool = False
    version: int = 1
