"""One request followed: place in the queue, chunks, decode, text as it appears."""

from __future__ import annotations

from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate
from dashboard.refusals import refusal_words
from dashboard.views.markup import chip, esc
from dashboard.words import waiting_words
from model_runner.views import RequestView
from scheduler import RunningRow, StepSnapshot

STATES = {
    "queued": N_("not yet with the engine"),
    "waiting": N_("waiting"),
    "preempted": N_("evicted, waits to come back"),
    "running": N_("running"),
    "finished": N_("finished"),
    "aborted": N_("aborted"),
    "rejected": N_("rejected"),
}


def _now(view: RequestView, step: StepSnapshot, t: Translate) -> str:
    if view.request_id in step.running.request_id:
        row = step.running[step.running.request_id.index(view.request_id)]
        return _running(row, t)
    if view.request_id in step.waiting.request_id:
        at = step.waiting.request_id.index(view.request_id)
        place = t("place {n} in the queue", n=at + 1)
        return f"{place}. {waiting_words(step.waiting[at], t)}"
    return ""


def _running(row: RunningRow, t: Translate) -> str:
    known = row.num_prompt_tokens + row.num_output_tokens
    values = {"done": min(row.num_computed_tokens, row.num_prompt_tokens), "prompt": row.num_prompt_tokens}
    if row.num_computed_tokens < known - 1:
        return t("prefill: {done} of {prompt} prompt tokens computed", **values) + f", {len(row.block_ids)} {t('blk')}"
    return t(
        "decode: {n} of at most {max} tokens, {blocks} blocks",
        n=row.num_output_tokens,
        max=row.max_tokens,
        blocks=len(row.block_ids),
    )


def follow(view: RequestView | None, step: StepSnapshot | None, mark: int, theme: Theme, t: Translate) -> str:
    """The request in words and its text; all of it escaped."""
    if view is None:
        words = t("Write a prompt and send it: it goes through the queue, chunks and decode like every other request.")
        return f'<p class="bs-quiet">{esc(words)}</p>'
    state = t(STATES.get(view.state, view.state))
    now = _now(view, step, t) if step is not None and not view.outcome else ""
    if view.outcome:
        now = refusal_words(view.reason, t) if view.outcome == "rejected" else t("{n} tokens", n=len(view.tokens))
    prompt = esc(view.prompt_text or t("{n} token ids", n=view.num_prompt_tokens), 160)
    return (
        f'<div class="bs-head">{chip(mark, theme.hues, theme.on_hue)} {esc(view.request_id, 40)} · {esc(state)}</div>'
        f'<div class="bs-now">{esc(now, 400)}</div><div class="bs-prompt">{prompt}</div>'
        f'<div class="bs-text" id="bs-text" lang="">{esc(view.text, 8000)}</div>'
    )
