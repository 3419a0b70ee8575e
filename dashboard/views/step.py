"""The last step's decision as a dictionary, and what happened in it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dashboard.charts.theme import Theme
from dashboard.history import StepFacts
from dashboard.i18n import Translate
from dashboard.narration import narrate
from dashboard.views.markup import chip, esc
from dashboard.words import QUIET, event_words, waiting_words
from model_runner.messages import EngineSnapshot
from scheduler import StepEvent, StepSnapshot


def decision(snapshot: EngineSnapshot, marks: Mapping[str, int], theme: Theme, t: Translate) -> str:
    """``{request_id: num_tokens}`` of the step, with letters and kinds."""
    step = snapshot.step
    parts = []
    for request_id in dict.fromkeys((*step.num_scheduled_tokens, *step.num_padding_tokens)):
        tokens = step.num_scheduled_tokens.get(request_id, 0)
        padding = step.num_padding_tokens.get(request_id, 0)
        extra = f" <i>+{padding} {esc(t('padding'))}</i>" if padding else ""
        kind = step.kinds.get(request_id, "")
        word = "" if kind in ("decode", "padding") else f" <i>{esc(t(kind))}</i>"
        mark = chip(marks.get(request_id, -1), theme.hues, theme.on_hue)
        parts.append(f"<span>{mark}{esc(request_id, 40)}: <b>{tokens}</b>{word}{extra}</span>")
    total = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
    head = t(
        "iteration {step}: {total} of {budget} tokens, {ms} ms",
        step=f"{step.step_id:,}",
        total=total,
        budget=f"{step.policy.max_num_batched_tokens:,}",
        ms=f"{1000 * snapshot.step_s:.0f}",
    )
    body = ", ".join(parts) if parts else f'<span class="bs-quiet">{esc(t("nothing was scheduled"))}</span>'
    return f'<div class="bs-dict"><div class="bs-head">{esc(head)}</div><code>{{{body}}}</code></div>'


def _event(event: StepEvent, marks: Mapping[str, int], theme: Theme, t: Translate) -> str:
    mark = chip(marks[event.request_id], theme.hues, theme.on_hue) if event.request_id in marks else ""
    return f'<li class="bs-e-{event.kind}">{mark}{esc(event_words(event, t), 400)}</li>'


def narrated(recent: Sequence[StepSnapshot], marks: Mapping[str, int], theme: Theme, t: Translate) -> str:
    """All that is told of the newest step, in its order. recent: newest first."""
    now = recent[0]
    before = recent[1] if len(recent) > 1 and recent[1].step_id == now.step_id - 1 else None
    items = []
    for said in narrate(now, t, before):
        mark = chip(marks[said.request_id], theme.hues, theme.on_hue) if said.request_id in marks else ""
        items.append(f'<li class="bs-e-{esc(said.kind)}">{mark}{esc(said.text, 400)}</li>')
    return f'<li class="bs-when">{esc(t("iteration {step}", step=f"{now.step_id:,}"))}</li>{"".join(items)}'


def events(recent: list[StepSnapshot], marks: Mapping[str, int], theme: Theme, t: Translate, limit: int = 24) -> str:
    """The newest step told in full, then the events of those before it, newest first, grouped by step."""
    if not recent:
        return f'<p class="bs-quiet">{esc(t("no event yet"))}</p>'
    out, left = [narrated(recent, marks, theme, t)], limit
    for step in recent[1:]:
        told = [e for e in step.events if e.kind not in QUIET][:left]
        if told:
            left -= len(told)
            items = "".join(_event(e, marks, theme, t) for e in told)
            out.append(f'<li class="bs-when">{esc(t("iteration {step}", step=f"{step.step_id:,}"))}</li>{items}')
        if left <= 0:
            break
    return f'<ul class="bs-events">{"".join(out)}</ul>'


def head_reason(step: StepSnapshot, t: Translate) -> str:
    """Why the head of the queue waits, or that nobody does; and how many are not shown."""
    if not step.num_waiting or not len(step.waiting):
        words = t("The queue is empty: every request that arrived is running.")
        return f'<div class="bs-reason bs-quiet">{esc(words)}</div>'
    used = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
    left = max(0, step.policy.max_num_batched_tokens - used)
    return f'<div class="bs-reason">{esc(waiting_words(step.waiting[0], t, left), 300)}</div>'


GROWTH_STEPS: Final = 120


def growth(facts: Sequence[StepFacts], t: Translate) -> str:
    """A line when the queue grew from third to third of the window, so that more arrives than is served; else ""."""
    waiting = [f.waiting for f in facts[-GROWTH_STEPS:] if f.run_id == facts[-1].run_id]
    third = len(waiting) // 3
    if third < 10:
        return ""
    first, middle, last = (sum(waiting[i * third : (i + 1) * third]) / third for i in range(3))
    if not first + 1 < middle < last - 1:
        return ""
    return t("{waiting} waiting: more arrives than is served (+{n})", waiting=waiting[-1], n=waiting[-1] - waiting[0])
