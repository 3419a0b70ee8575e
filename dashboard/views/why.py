"""Why: what a step decided, what it considered and did not do, and what each waiting request needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate
from dashboard.views.markup import chip, esc, picks
from dashboard.words import DEFER_SHORT, MEMORY_REASONS, event_words, waiting_words
from scheduler import StepSnapshot, WaitingRow

DECIDED_KINDS: Final = ("admitted", "resumed", "preempted", "swapped_out", "swapped_in", "policy_changed")
MAX_ROWS: Final = 64

NO_TOKENS: Final = {
    "held": N_("{id} computes nothing: it has all its tokens and its static batch has not ended."),
    "never": N_("{id} computes nothing: no KV block is free for its next token, and nobody is evicted."),
    "budget": N_("{id} computes nothing: the tokens of this iteration went to others."),
}
"""Why a running request has no tokens in a step."""


def decided(step: StepSnapshot, t: Translate) -> list[str]:
    """What the step did, one sentence each; not escaped."""
    used = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
    rows = dict.fromkeys((*step.num_scheduled_tokens, *step.num_padding_tokens))
    budget = step.policy.max_num_batched_tokens
    words = N_("{n} requests compute {tokens} tokens; {left} of {budget} are not used.")
    if len(rows) == used == 1:
        words = N_("1 request computes 1 token; {left} of {budget} are not used.")
    elif len(rows) == 1:
        words = N_("1 request computes {tokens} tokens; {left} of {budget} are not used.")
    values = {"n": len(rows), "tokens": f"{used:,}", "left": f"{max(0, budget - used):,}", "budget": f"{budget:,}"}
    told = [t(words, **values)]
    return told + [event_words(event, t) for event in step.events if event.kind in DECIDED_KINDS]


def not_done(step: StepSnapshot, t: Translate) -> list[str]:
    """What the step considered and did not do, one sentence each; not escaped."""
    told = [event_words(event, t) for event in step.events if event.kind in ("chunked", "policy_refused")]
    told += _without_tokens(step, t)
    counts: dict[str, int] = {}
    for reason in step.waiting.reason:
        counts[reason] = counts.get(reason, 0) + 1
    for reason, count in counts.items():
        if reason in DEFER_SHORT:
            told.append(t("{n} not admitted: {reason}.", n=f"{count:,}", reason=t(DEFER_SHORT[reason])))
    hidden = step.num_waiting - len(step.waiting)
    if hidden > 0:
        told.append(t("{n} more wait behind them.", n=f"{hidden:,}"))
    if step.waiting and not step.preempted and step.waiting[0].reason in MEMORY_REASONS:
        told.append(t("Nobody is evicted for one that waits: only a running request that lacks a block takes one."))
    return told


def _without_tokens(step: StepSnapshot, t: Translate) -> Iterator[str]:
    table = step.running
    for request_id, kind, holds in zip(table.request_id, table.kind, table.held, strict=True):
        if kind != "idle" and not (holds and kind == "padding"):
            continue
        why = "held" if holds else "never" if step.policy.preemption_mode == "never" else "budget"
        yield t(NO_TOKENS[why], id=request_id)


def _needs(row: WaitingRow, t: Translate) -> str:
    words = t("needs {needed} blocks, {free} there", needed=row.needed_blocks, free=row.free_blocks)
    front = t("in front: {who}", who=row.blocked_by) if row.blocked_by else t("nobody in front")
    back = f" · {t('{n} blocks in the host pool', n=row.swapped_blocks)}" if row.swapped_blocks else ""
    again = f" · {t('{n} tokens to recompute', n=f'{row.recompute_tokens:,}')}" if row.recompute_tokens else ""
    return f"{words} · {front}{back}{again}"


def _list(sentences: list[str], empty: str) -> str:
    items = "".join(f"<li>{esc(sentence, 300)}</li>" for sentence in sentences)
    return f'<ul class="bs-events">{items or f"<li>{esc(empty)}</li>"}</ul>'


def why(
    step: StepSnapshot,
    marks: Mapping[str, int],
    chosen: str,
    theme: Theme,
    t: Translate,
    ran: StepSnapshot | None = None,
) -> str:
    """Decisions of the step, then each waiting request in order of the queue, the chosen one marked.

    ran: the step whose decisions are told, where ``step`` is none that ran (see ``Frame.ran``).
    """
    ran = ran or step
    rows = []
    for place, row in enumerate(list(step.waiting)[:MAX_ROWS], start=1):
        mark = chip(marks.get(row.request_id, -1), theme.hues, theme.on_hue)
        name = f"{place}. {mark}<b>{esc(row.request_id, 40)}</b>"
        star = f' <span style="color:{theme.accent}">◀</span>' if row.request_id == chosen else ""
        told = f"{esc(_needs(row, t), 200)}<br>{esc(waiting_words(row, t), 300)}"
        rows.append(f"<li{picks(row.request_id)}>{name}{star}<br>{told}</li>")
    queue = "".join(rows) or f"<li>{esc(t('Nobody waits.'))}</li>"
    head = t("iteration {step}", step=f"{ran.step_id:,}")
    return (
        f'<div class="bs-head">{esc(t("Decided"))} · {esc(head)}</div>{_list(decided(ran, t), "")}'
        f'<div class="bs-head">{esc(t("Considered, not done"))}</div>'
        f"{_list(not_done(ran, t), t('Nothing: everybody who is here computes.'))}"
        f'<div class="bs-head">{esc(t("Why each one waits"))}</div><ul class="bs-events">{queue}</ul>'
    )
