"""The last step's decision as a dictionary, and what happened in it, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from dashboard.charts.theme import Theme
from dashboard.history import StepFacts
from dashboard.i18n import Translate
from dashboard.narration import narrate
from dashboard.views.markup import chip, esc, picks
from dashboard.words import QUIET, event_words, waiting_words
from model_runner.messages import EngineSnapshot
from scheduler import StepEvent, StepSnapshot


def decision(
    snapshot: EngineSnapshot, marks: Mapping[str, int], theme: Theme, t: Translate, ran: StepSnapshot | None = None
) -> str:
    """``{request_id: num_tokens}`` of the step, with letters and kinds.

    ran: the step that is shown, where it is not that of ``snapshot`` (see ``Frame.ran``).
    """
    step = ran or snapshot.step
    parts = []
    for request_id in dict.fromkeys((*step.num_scheduled_tokens, *step.num_padding_tokens)):
        tokens = step.num_scheduled_tokens.get(request_id, 0)
        padding = step.num_padding_tokens.get(request_id, 0)
        extra = f" <i>+{padding:,} {esc(t('padding'))}</i>" if padding else ""
        kind = step.kinds.get(request_id, "")
        word = "" if kind in ("decode", "padding") else f" <i>{esc(t(kind))}</i>"
        mark = chip(marks.get(request_id, -1), theme.hues, theme.on_hue)
        parts.append(f"<span{picks(request_id)}>{mark}{esc(request_id, 40)}: <b>{tokens:,}</b>{word}{extra}</span>")
    total = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
    values = {
        "step": f"{step.step_id:,}",
        "total": f"{total:,}",
        "budget": f"{step.policy.max_num_batched_tokens:,}",
    }
    head = t("iteration {step}: {total} of {budget} tokens", **values)
    if step is snapshot.step:
        head = t("iteration {step}: {total} of {budget} tokens, {ms} ms", **values, ms=f"{1000 * snapshot.step_s:.0f}")
    body = ", ".join(parts) if parts else f'<span class="bs-quiet">{esc(t("nothing was scheduled"))}</span>'
    return f'<div class="bs-dict"><div class="bs-head">{esc(head)}</div><code>{{{body}}}</code></div>'


def _item(kind: str, request_id: str, text: str, marks: Mapping[str, int], theme: Theme) -> str:
    mark = chip(marks[request_id], theme.hues, theme.on_hue) if request_id in marks else ""
    return f'<li class="bs-e-{esc(kind)}"{picks(request_id)}>{mark}{esc(text, 460)}</li>'


def narrated(
    recent: Sequence[StepSnapshot],
    marks: Mapping[str, int],
    theme: Theme,
    t: Translate,
    times: Mapping[str, int] | None = None,
) -> str:
    """All that is told of the newest step, in its order. recent: newest first. times: how often a sentence held in all
    of them, where that is to be said."""
    now = recent[0]
    before = recent[1] if len(recent) > 1 and recent[1].step_id == now.step_id - 1 else None
    items = []
    for said in narrate(now, t, before):
        text = said.text + _often((times or {}).get(said.text, 1), len(recent), t)
        items.append(_item(said.kind, said.request_id, text, marks, theme))
    return f'<li class="bs-when">{esc(t("iteration {step}", step=f"{now.step_id:,}"))}</li>{"".join(items)}'


def _often(times: int, steps: int, t: Translate) -> str:
    return " " + t("({n} times in the last {steps} iterations)", n=times, steps=steps) if times > 1 else ""


def events(
    recent: Sequence[StepSnapshot], marks: Mapping[str, int], theme: Theme, t: Translate, limit: int = 24
) -> str:
    """The newest step told in full, then the events of those before it, newest first, grouped by step.

    A policy of one's own that is refused in step after step is told once, with how often: it would fill the list.
    """
    if not recent:
        return f'<p class="bs-quiet">{esc(t("no event yet"))}</p>'
    refusals = [e for step in recent for e in step.events if e.kind == "policy_refused"]
    often = Counter(_refusal(e) for e in refusals)
    told = {_refusal(e) for e in recent[0].events if e.kind == "policy_refused"}
    times = {event_words(e, t): often[_refusal(e)] for e in refusals}
    out, left = [narrated(recent, marks, theme, t, times)], limit
    for step in recent[1:]:
        shown = [e for e in step.events if e.kind not in QUIET and _refusal(e) not in told][:left]
        told |= {_refusal(e) for e in shown if e.kind == "policy_refused"}
        left -= len(shown)
        if shown:
            words = (event_words(e, t) + _often(often[_refusal(e)], len(recent), t) for e in shown)
            items = "".join(
                _item(e.kind, e.request_id, text, marks, theme) for e, text in zip(shown, words, strict=True)
            )
            out.append(f'<li class="bs-when">{esc(t("iteration {step}", step=f"{step.step_id:,}"))}</li>{items}')
        if left <= 0:
            break
    return f'<ul class="bs-events">{"".join(out)}</ul>'


def _refusal(event: StepEvent) -> tuple[str, ...]:
    """What makes two refusals the same."""
    return (event.kind, event.reason, str(event.numbers.get("field", "")), str(event.numbers.get("name", "")))


def head_reason(step: StepSnapshot, t: Translate, growing: int = 0, ran: StepSnapshot | None = None) -> str:
    """Why the head of the queue waits, or that nobody does. growing: see ``growth``. ran: as in ``why``."""
    ran = ran or step
    if not step.num_waiting or not len(step.waiting):
        words = t("The queue is empty: every request that arrived is running.")
        return f'<div class="bs-reason bs-quiet">{esc(words)}</div>'
    used = sum(ran.num_scheduled_tokens.values()) + sum(ran.num_padding_tokens.values())
    left = max(0, ran.policy.max_num_batched_tokens - used)
    more = f" {t('More arrives than is served.')}" if growing else ""
    return f'<div class="bs-reason">{esc(waiting_words(step.waiting[0], t, left) + more, 300)}</div>'


def queue_length(step: StepSnapshot, growing: int, t: Translate) -> str:
    """How many wait, by how many that grew, and their tokens; short enough for the head of the narrowest column."""
    waiting = f"{step.num_waiting:,} (+{growing:,})" if growing else f"{step.num_waiting:,}"
    return t("{n} waiting, {tokens} tok", n=waiting, tokens=f"{step.num_waiting_tokens:,}")


GROWTH_STEPS: Final = 120


def growth(facts: Sequence[StepFacts]) -> int:
    """By how many the queue grew over the window, where it did so from third to third of it and more arrives than is
    served; else 0."""
    waiting = [f.waiting for f in facts[-GROWTH_STEPS:] if f.run_id == facts[-1].run_id]
    third = len(waiting) // 3
    if third < 10:
        return 0
    first, middle, last = (sum(waiting[i * third : (i + 1) * third]) / third for i in range(3))
    return max(0, waiting[-1] - waiting[0]) if first + 1 < middle < last - 1 else 0
