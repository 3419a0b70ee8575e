"""Events, reasons and policies in words: one table of templates a kind, translated like everything else."""

from __future__ import annotations

import re
from typing import Final

from dashboard.i18n import N_, Translate
from dashboard.refusals import refusal_words
from dashboard.values import grouped, value_words
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

MEMORY_REASONS: Final = frozenset({"kv_capacity", "watermark", "allocator_fragmented"})
"""Reasons that are told by the blocks needed and free."""

DEFER_SENTENCE: Final = {
    "token_budget": N_("{id} waits: the token budget of this iteration is used up ({budget_left} left)."),
    "max_num_seqs": N_("{id} waits: max_num_seqs requests are running already."),
    "kv_capacity": N_("{id} waits: needs {needed_blocks} blocks; free: {free_blocks}."),
    "watermark": N_(
        "{id} waits: {needed_blocks} blocks would leave fewer free than the watermark keeps "
        "({free_blocks} free)."
    ),
    "head_of_line": N_("{id} waits behind {blocked_by}: nobody passes the head of the queue."),
    "preemption_this_step": N_("{id} waits: a request was just evicted, so nobody is admitted in this iteration."),
    "admission_paused": N_("{id} waits: admission is paused."),
    "static_batch_running": N_("{id} waits: the static batch must end as a whole first."),
    "allocator_fragmented": N_(
        "{id} waits: needs {needed_blocks} blocks in one piece; free: {free_blocks}, but "
        "scattered."
    ),
}  # fmt: skip

BEHIND_BLOCKED: Final = N_("{id} waits: {blocked_by} runs, finds no KV block and waits; nobody is admitted meanwhile.")
"""Preemption "never": room for the head there may be, but it is the running request's first."""

EVENT_SENTENCE: Final = {
    ("queued", ""): N_("{id} arrived: {num_prompt_tokens} prompt tokens, at most {max_tokens} to generate."),
    ("admitted", ""): N_("{id} admitted after {waited_s} s: {num_blocks} blocks, {num_scheduled_tokens} tokens now."),
    ("resumed", ""): N_("{id} is back after {waited_s} s: {num_blocks} blocks, {num_scheduled_tokens} tokens now."),
    ("chunked", "token_budget"): N_(
        "{id} prefills {num_scheduled_tokens} tokens, {num_tokens_left} more to go: the token budget cuts the prompt."
    ),
    ("chunked", "long_prefill_token_threshold"): N_(
        "{id} prefills {num_scheduled_tokens} tokens, {num_tokens_left} more to go: the long-prefill threshold cuts it."
    ),
    ("chunked", ""): N_("{id} prefills {num_scheduled_tokens} tokens, {num_tokens_left} more to go."),
    ("preempted", ""): N_(
        "{id} evicted for {for_request_id} (rule: {rule}): {freed_blocks} blocks freed, {recompute_tokens} "
        "tokens to recompute."
    ),
    ("preempted", "requested"): N_(
        "{id} evicted by hand: {freed_blocks} blocks freed, {recompute_tokens} tokens to recompute."
    ),
    ("swapped_out", ""): N_("{id}: {num_blocks} blocks moved out to the host pool; free there: {host_free_blocks}."),
    ("swapped_in", ""): N_("{id}: {num_blocks} blocks moved back from the host pool, nothing is computed again."),
    ("finished", "length"): N_("{id} finished: {num_output_tokens} tokens, the length it asked for."),
    ("finished", "stop"): N_("{id} finished: {num_output_tokens} tokens, then the model ended its answer."),
    ("finished", ""): N_("{id} finished: {num_output_tokens} tokens."),
    ("aborted", ""): N_("{id} aborted."),
    ("rejected", ""): N_("{id} rejected: {reason}"),
    ("policy_changed", ""): N_("Policy v{version} in force: {changes}."),
    ("policy_refused", ""): N_("Refused: {reason}"),
}  # fmt: skip
"""(kind, reason) to template; the reason "" stands for every reason that has no template of its own."""

EVICTED: Final = {
    "own": N_(
        "{id} gave up its own blocks: it is the next the rule evicts (rule: {rule}). {freed_blocks} blocks freed, "
        "{recompute_tokens} tokens to recompute."
    ),
    "swap": N_(
        "{id} evicted for {for_request_id} (rule: {rule}): {freed_blocks} blocks freed, {moved_blocks} copied to the "
        "host."
    ),
    "swap own": N_(
        "{id} gave up its own blocks (rule: {rule}): {freed_blocks} freed, {moved_blocks} copied to the host."
    ),
    "swap requested": N_("{id} evicted by hand: {freed_blocks} blocks freed, {moved_blocks} copied to the host."),
    "full": N_(
        "{id} evicted for {for_request_id} (rule: {rule}): {freed_blocks} blocks freed; the host pool has only "
        "{host_free_blocks} free, so {recompute_tokens} tokens to recompute."
    ),
}  # fmt: skip
"""Preemptions that read differently: the victim is the request that needed the room, its blocks are copied, or were to
be copied and found no room."""

OWN_REFUSED: Final = N_("{name} ({file}) was refused: {fault}. {instead} decided in its place.")
"""A policy of one's own proposed what breaks a rule."""

QUIET: Final = frozenset({"deferred", "queued"})
"""Kinds left out of the list of a step: they repeat what the queue shows."""


class _Numbers(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def _number(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _template(event: StepEvent) -> str:
    if event.kind == "deferred":
        return DEFER_SENTENCE.get(event.reason, N_("{id} waits: {reason}."))
    if event.kind == "policy_refused" and "file" in event.numbers:
        return OWN_REFUSED
    if event.kind == "preempted":
        numbers = event.numbers
        by_hand, own = event.reason == "requested", numbers.get("for_request_id") == event.request_id
        if numbers.get("mode") == "swap":
            return EVICTED["swap requested" if by_hand else "swap own" if own else "swap"]
        if not by_hand and (own or "host_free_blocks" in numbers):
            return EVICTED["own" if own else "full"]
    fallback = EVENT_SENTENCE.get((event.kind, ""), "{id}: {kind} {reason}")
    return EVENT_SENTENCE.get((event.kind, event.reason), fallback)


def event_words(event: StepEvent, t: Translate) -> str:
    """One plain sentence for an event, with its numbers; not escaped."""
    values = _Numbers({name: _number(value) for name, value in event.numbers.items()})
    values.update(id=event.request_id, reason=event.reason, rule=value_words(event.reason, t), kind=event.kind)
    if event.kind in ("rejected", "policy_refused"):
        values["reason"] = refusal_words(event.reason, t)
    values["changes"] = "; ".join(_change(k, str(v), t) for k, v in event.numbers.items() if k != "version")
    if "file" in values:
        values["fault"] = event.reason.removeprefix(f"{values['field']} {values['name']} ({values['file']}): ")
        values["fault"] = str(values["fault"]).removesuffix(f"; {values['instead']} decides in this step")
    if not values.get("for_request_id"):
        values["for_request_id"] = t("another request")
    return t(_template(event)).format_map(values)


def _change(field: str, values: str, t: Translate) -> str:
    """ "old -> new" of a policy field as the controls call the values."""
    old, _, new = values.partition(" -> ")
    if new in ("True", "False"):
        return f"{field} {t('on') if new == 'True' else t('off')}"
    return f"{field} " + " → ".join(t("all") if value == "None" else grouped(value) for value in (old, new))


HELD_BY: Final = N_("{blocked_by} holds most blocks.")
FITS_PAGED: Final = N_("Under paged it would fit now.")


def waiting_words(row: WaitingRow, t: Translate, budget_left: int = 0) -> str:
    """Why the request of a queue row does not run: what it needs, what is free, who is in its way; not escaped."""
    template = DEFER_SENTENCE.get(row.reason)
    if template is None:
        return t("{id} is next.", id=row.request_id)
    if row.reason == "kv_capacity" and row.blocked_by and row.needed_blocks <= row.free_blocks:
        return t(BEHIND_BLOCKED, id=row.request_id, blocked_by=row.blocked_by)
    text = t(template).format(
        id=row.request_id,
        needed_blocks=f"{row.needed_blocks:,}",
        free_blocks=f"{row.free_blocks:,}",
        blocked_by=row.blocked_by or t("another request"),
        budget_left=f"{budget_left:,}",
    )
    if row.reason in MEMORY_REASONS and row.blocked_by:
        text += " " + t(HELD_BY, blocked_by=row.blocked_by)
    return f"{text} {t(FITS_PAGED)}" if row.fits_paged else text


def policy_words(policy: SchedulerPolicy, t: Translate) -> str:
    """The policy in one line: what differs between two policies that a person would tell apart."""
    if policy.batching == "static":
        parts = [t("static batching"), t("{n} slots", n=policy.max_num_seqs)]
    else:
        parts = [t("continuous batching"), t("at most {n} requests", n=policy.max_num_seqs)]
    parts.append(t("{n} tokens per iteration", n=f"{policy.max_num_batched_tokens:,}"))
    parts.append(policy.admission_order)
    if not policy.enable_chunked_prefill:
        parts.append(t("prompts whole"))
    elif policy.long_prefill_token_threshold:
        parts.append(t("chunks of at most {n}", n=f"{policy.long_prefill_token_threshold:,}"))
    parts.append(policy.prefill_mix)
    if policy.preemption_mode == "never":
        parts.append(t("evict nobody"))
    else:
        parts.append(t("evict {rule}", rule=policy.preemption_victim))
    if policy.preemption_mode == "swap":
        parts.append("swap")
    if policy.allocation != "paged":
        parts.append(policy.allocation)
    if policy.enable_prefix_caching:
        parts.append(t("prefix caching"))
    if policy.kv_block_limit is not None:
        parts.append(t("at most {n} KV blocks", n=f"{policy.kv_block_limit:,}"))
    return " · ".join(parts)


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
    N_("reading {name}"),
    N_("timing products to choose number type and threads"),
    N_("compiling products"),
    N_("recording decode steps"),
    N_("ready"),
    N_("converting {name}"),
    N_("writing the converted model"),
    N_("converted"),
    N_("{reason}; {n} requests go on with the next"),
    N_("the worker was killed by {name}"),
    N_("the worker ended with exit code {n}"),
    N_("the worker was silent for {seconds} s"),
    N_("a step of the worker took longer than {seconds} s"),
    N_("no snapshot for {seconds} s, the last is of iteration {step}"),
    N_("the iteration after {step} has been computed for {seconds} s"),
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
            return t(template, **{name: engine_words(part, t) for name, part in match.groupdict().items()})
    return message
