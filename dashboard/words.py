"""Events, reasons and policies in words: one table of templates a kind, translated like everything else."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Final

from dashboard.i18n import N_, Translate
from scheduler import SchedulerPolicy, StepEvent, WaitingRow

DEFER_SHORT: Final = {
    "token_budget": N_("token budget"),
    "max_num_seqs": N_("batch is full"),
    "kv_capacity": N_("KV blocks"),
    "watermark": N_("watermark"),
    "head_of_line": N_("behind the head"),
    "preemption_this_step": N_("preemption"),
    "admission_paused": N_("admission paused"),
    "static_batch_running": N_("static batch"),
    "allocator_fragmented": N_("fragmented"),
}
"""A reason in at most three words, for a row of the queue."""

DEFER_SENTENCE: Final = {
    "token_budget": N_("{id} waits: the token budget of this iteration is used up ({budget_left} left)."),
    "max_num_seqs": N_("{id} waits: max_num_seqs requests are running already."),
    "kv_capacity": N_("{id} waits: needs {needed_blocks} blocks, {free_blocks} are free."),
    "watermark": N_(
        "{id} waits: {needed_blocks} blocks would leave fewer free than the watermark keeps "
        "({free_blocks} free)."
    ),
    "head_of_line": N_("{id} waits behind {blocked_by}: nobody passes the head of the queue."),
    "preemption_this_step": N_("{id} waits: a request was just evicted, so nobody is admitted in this iteration."),
    "admission_paused": N_("{id} waits: admission is paused."),
    "static_batch_running": N_("{id} waits: the static batch must end as a whole first."),
    "allocator_fragmented": N_(
        "{id} waits: needs {needed_blocks} blocks in one piece; {free_blocks} are free, but "
        "scattered."
    ),
}  # fmt: skip

EVENT_SENTENCE: Final = {
    ("queued", ""): N_("{id} arrived: {num_prompt_tokens} prompt tokens, at most {max_tokens} to generate."),
    ("admitted", ""): N_("{id} admitted after {waited_s} s: {num_blocks} blocks, {num_scheduled_tokens} tokens now."),
    ("resumed", ""): N_("{id} is back after {waited_s} s: {num_blocks} blocks, {num_scheduled_tokens} tokens now."),
    ("chunked", "token_budget"): N_(
        "{id} prefills {num_scheduled_tokens} tokens, {num_tokens_left} are left: the token budget cuts the prompt."
    ),
    ("chunked", "long_prefill_token_threshold"): N_(
        "{id} prefills {num_scheduled_tokens} tokens, {num_tokens_left} are left: the long-prefill threshold cuts it."
    ),
    ("chunked", ""): N_("{id} prefills {num_scheduled_tokens} tokens, {num_tokens_left} are left."),
    ("preempted", ""): N_(
        "{id} evicted for {for_request_id} (rule: {rule}): {freed_blocks} blocks freed, {recompute_tokens} "
        "tokens to recompute."
    ),
    ("swapped_out", ""): N_("{id} moved out to host memory."),
    ("swapped_in", ""): N_("{id} moved back from host memory."),
    ("finished", "length"): N_("{id} finished: {num_output_tokens} tokens, the length it asked for."),
    ("finished", "stop"): N_("{id} finished: {num_output_tokens} tokens, then the model ended its answer."),
    ("finished", ""): N_("{id} finished: {num_output_tokens} tokens."),
    ("aborted", ""): N_("{id} aborted."),
    ("rejected", ""): N_("{id} rejected: {reason}"),
    ("policy_changed", ""): N_("Policy v{version} in force: {changes}."),
    ("policy_refused", ""): N_("Refused: {reason}"),
}  # fmt: skip
"""(kind, reason) to template; the reason "" stands for every reason that has no template of its own."""

GAVE_UP: Final = N_(
    "{id} gave up its own blocks: it is the next the rule evicts (rule: {rule}). {freed_blocks} blocks freed, "
    "{recompute_tokens} tokens to recompute."
)
"""A preemption whose victim is the request that needed the room."""

QUIET: Final = frozenset({"deferred", "queued"})
"""Kinds left out of the list of a step: they repeat what the queue shows."""


class _Numbers(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def _number(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value


def event_words(event: StepEvent, t: Translate) -> str:
    """One plain sentence for an event, with its numbers; not escaped."""
    values = _Numbers({name: _number(value) for name, value in event.numbers.items()})
    if event.kind == "deferred":
        template = DEFER_SENTENCE.get(event.reason, N_("{id} waits: {reason}."))
    else:
        fallback = EVENT_SENTENCE.get((event.kind, ""), "{id}: {kind} {reason}")
        template = EVENT_SENTENCE.get((event.kind, event.reason), fallback)
    if event.kind == "preempted" and event.numbers.get("for_request_id") == event.request_id:
        template = GAVE_UP
    values.update(id=event.request_id, reason=event.reason, rule=event.reason, kind=event.kind)
    if event.kind == "rejected":
        values["reason"] = refusal_words(event.reason, t)
    values["changes"] = "; ".join(f"{k} {v}" for k, v in event.numbers.items() if k != "version")
    if not values.get("for_request_id"):
        values["for_request_id"] = t("another request")
    return t(template).format_map(values)


def waiting_words(row: WaitingRow, t: Translate, budget_left: int = 0) -> str:
    """Why the request of a queue row does not run, as a sentence; not escaped."""
    template = DEFER_SENTENCE.get(row.reason)
    if template is None:
        return t("{id} is next.", id=row.request_id)
    return t(template).format(
        id=row.request_id,
        needed_blocks=row.needed_blocks,
        free_blocks=row.free_blocks,
        blocked_by=row.blocked_by or t("another request"),
        budget_left=budget_left,
    )


def policy_words(policy: SchedulerPolicy, t: Translate) -> str:
    """The policy in one line: what differs between two policies that a person would tell apart."""
    if policy.batching == "static":
        parts = [t("static batching"), t("{n} slots", n=policy.max_num_seqs)]
    else:
        parts = [t("continuous batching"), t("at most {n} requests", n=policy.max_num_seqs)]
    parts.append(t("{n} tokens per iteration", n=policy.max_num_batched_tokens))
    parts.append(policy.admission_order)
    if not policy.enable_chunked_prefill:
        parts.append(t("prompts whole"))
    elif policy.long_prefill_token_threshold:
        parts.append(t("chunks of at most {n}", n=policy.long_prefill_token_threshold))
    parts.append(policy.prefill_mix)
    if policy.preemption_mode == "never":
        parts.append(t("evict nobody"))
    else:
        parts.append(t("evict {rule}", rule=policy.preemption_victim))
    if policy.kv_block_limit is not None:
        parts.append(t("at most {n} KV blocks", n=policy.kv_block_limit))
    return " · ".join(parts)


def policy_diff(old: SchedulerPolicy, new: SchedulerPolicy) -> list[tuple[str, object, object]]:
    """(field, old value, new value) of every field that differs, the version left out."""
    names = [f.name for f in fields(SchedulerPolicy) if f.name != "version"]
    return [(n, getattr(old, n), getattr(new, n)) for n in names if getattr(old, n) != getattr(new, n)]


REFUSALS: Final = (
    (
        r"prompt_token_ids has (?P<n>\d+) tokens, at most (?P<max>\d+) leave room .*",
        N_("the prompt has {n} tokens; at most {max} fit"),
    ),
    (r"prompt_token_ids is empty, .*", N_("the prompt is empty; at least one token is needed")),
    (r"(?P<field>\w+) is (?P<value>.+), expected (?P<wanted>.+)", N_("{field} is {value}; {wanted} is needed")),
)
"""What the scheduler says of a request it refuses, as (pattern, plain words); anything else is shown as it came."""


def refusal_words(reason: str, t: Translate) -> str:
    """Why a request was refused, for a reader who did not write the scheduler; not escaped."""
    for pattern, words in REFUSALS:
        match = re.fullmatch(pattern, reason)
        if match:
            values = {k: f"{int(v):,}" if v.isdecimal() else v for k, v in match.groupdict().items()}
            return t(words, **values)
    return reason


SINGLE_WORDS: Final = (
    N_("prefill"), N_("decode"), N_("recompute"), N_("padding"), N_("idle"),
    N_("short"), N_("long"), N_("mixed"), N_("bimodal"), N_("none"), N_("few_urgent"), N_("uniform"),
)  # fmt: skip
"""Values that reach ``t`` by name only: kinds of tokens and mixes of the traffic."""

ENGINE_MESSAGES: Final = (
    N_("starting PyTorch"),
    N_("reading the tokenizer"),
    N_("checking the tensors of {name}"),
    N_("layer {n}"),
    N_("reading {name} (only this once)"),
    N_("converting {name}"),
    N_("writing the converted model"),
    N_("converted"),
    N_("{reason}; {n} requests go on with the next"),
    N_("no snapshot for {seconds} s: the step after {step} is still running"),
    N_("no token computed for {seconds} s. {account}"),
)
"""What the runner says about itself, as templates; anything else is shown as it came."""


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(template)))


def engine_words(message: str, t: Translate) -> str:
    """A sentence of the runner in the reader's language; not escaped."""
    for template in ENGINE_MESSAGES:
        match = _pattern(template).fullmatch(message)
        if match:
            return t(template, **match.groupdict())
    return message
