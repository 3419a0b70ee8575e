"""The scheduling policy: every field can change between two iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from scheduler.registry import REGISTRIES


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
    head_of_line: "strict" = nobody passes a request that does not fit; "skip" = later ones may, at most
    ``admission.MAX_PASSES`` of them.
    admission_paused: True = nobody is let in; what runs, runs on.
    enable_chunked_prefill: False = a prompt is computed in one step or not at all.
    long_prefill_token_threshold: most tokens of one prefill in one step, 0 = no limit (vLLM's field).
    prefill_mix: order in which the token budget is given to decodes and prefill chunks.
    preemption_mode, preemption_victim, preemption_requeue: what an eviction does, who goes, where it queues again.
    allocation: how KV blocks are given out.
    kv_block_limit: blocks that may be in use, >= 1; None = all. A lowered limit kills nobody.
    enable_prefix_caching: share full blocks of equal prefixes among requests admitted under batching "continuous" and
    allocation "paged"; without effect on others.
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


@dataclass(frozen=True, slots=True)
class FieldRange:
    """Legal values of a numeric policy field: minimum <= value <= maximum (None = no limit).

    below_maximum: the maximum itself is not legal. integer: whole numbers only. optional: None is legal.
    unit: for labels.
    """

    minimum: float
    maximum: float | None = None
    below_maximum: bool = False
    integer: bool = True
    optional: bool = False
    unit: str = ""

    def describe(self) -> str:
        """The range in words, for messages."""
        kind = "a whole number" if self.integer else "a number"
        if self.maximum is None:
            text = f"{kind} of at least {self.minimum:,.10g}"
        else:
            text = f"{kind} from {self.minimum:,.10g} to {'below ' if self.below_maximum else ''}{self.maximum:,.10g}"
        return text + (" or None" if self.optional else "")

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is legal, its type included; a bool is not a number here."""
        if value is None:
            return self.optional
        allowed = int if self.integer else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if self.maximum is not None and (value > self.maximum or (self.below_maximum and value == self.maximum)):
            return False
        return value >= self.minimum


FIELD_RANGES: Final[dict[str, FieldRange]] = {
    "max_num_seqs": FieldRange(1, 1_000_000, unit="requests"),
    "max_num_batched_tokens": FieldRange(1, 10_000_000, unit="tokens"),
    "kv_watermark": FieldRange(0, 1, below_maximum=True, integer=False, unit="share of the blocks"),
    "long_prefill_token_threshold": FieldRange(0, 10_000_000, unit="tokens"),
    "kv_block_limit": FieldRange(1, 100_000_000, optional=True, unit="blocks"),
    "step_delay_ms": FieldRange(0, 60_000, integer=False, unit="ms"),
}
"""Numeric fields and their ranges; controls are built from it."""

SWITCHES: Final = ("admission_paused", "enable_chunked_prefill", "enable_prefix_caching", "paused", "single_step")
"""Fields that are True or False."""


def choices(field: str) -> tuple[str, ...]:
    """Values of a field that has named values, in the order of a menu. Raises ValueError for any other field."""
    if field not in REGISTRIES:
        raise ValueError(f"{field!r} has no named values; those that have: {', '.join(REGISTRIES)}")
    return REGISTRIES[field].names()


def problems(policy: SchedulerPolicy) -> tuple[str, ...]:
    """One sentence for each illegal field, naming field, value and what would be right; () for a legal policy."""
    if not isinstance(policy, SchedulerPolicy):
        return (f"policy is {policy!r:.80}, expected a SchedulerPolicy",)
    return tuple(text for item in fields(policy) if (text := _problem(item.name, getattr(policy, item.name))))


def with_known_values(policy: SchedulerPolicy) -> SchedulerPolicy:
    """The policy with the default in place of each named value that this process does not know.

    A policy of one's own may be gone, or broken, when a worker starts again under it.
    """
    unknown = [name for name, registry in REGISTRIES.items() if getattr(policy, name) not in registry]
    default = SchedulerPolicy()
    return replace(policy, **{name: getattr(default, name) for name in unknown}) if unknown else policy


def _problem(name: str, value: Any) -> str:
    if name in REGISTRIES:
        known = choices(name)
        return (
            ""
            if isinstance(value, str) and value in known
            else f"{name} is {value!r:.80}, expected one of {', '.join(known)}"
        )
    if name in FIELD_RANGES:
        expected = FIELD_RANGES[name]
        return "" if expected.holds(value) else f"{name} is {value!r:.80}, expected {expected.describe()}"
    if name in SWITCHES:
        return "" if isinstance(value, bool) else f"{name} is {value!r:.80}, expected True or False"
    return ""


def offers_prefix_cache(policy: SchedulerPolicy) -> bool:
    """Whether those who are let in under a policy are looked up in the prefix cache, and kept in it.

    Blocks of a contiguous allocator cannot be anybody else's, and a static batch moves in lockstep from position 0.
    """
    return policy.enable_prefix_caching and policy.batching == "continuous" and policy.allocation == "paged"


def limit_problems(policy: SchedulerPolicy, max_model_len: int, num_host_blocks: int | None = None) -> tuple[str, ...]:
    """Limits that contradict each other, both named (fault F14); () when they agree. num_host_blocks: None = enough.

    With chunking off a request is computed in one step or not at all, also when it comes back after an eviction with
    all its output. So the budget must hold the longest sequence that can ever be computed, max_model_len - 1 tokens.
    """
    wrong = []
    if policy.preemption_mode == "swap" and num_host_blocks == 0:
        wrong.append(
            "preemption_mode is 'swap' and num_host_blocks is 0: there is no host pool to swap to; choose 'recompute', "
            "or start with num_host_blocks of at least 1"
        )
    if policy.enable_chunked_prefill or policy.max_num_batched_tokens >= max_model_len - 1:
        return tuple(wrong)
    wrong.append(
        f"enable_chunked_prefill is False and max_num_batched_tokens is {policy.max_num_batched_tokens}: a request of "
        f"up to {max_model_len - 1} tokens (max_model_len {max_model_len}) could never be computed in one step; "
        f"allow chunks or raise max_num_batched_tokens to {max_model_len - 1}"
    )
    return tuple(wrong)
