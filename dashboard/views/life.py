"""One request in words and tables: its numbers, where its time went, its gaps, its text."""

from __future__ import annotations

from typing import Final

import pandas as pd

from dashboard.charts.theme import Theme
from dashboard.i18n import N_, Translate
from dashboard.life_numbers import numbers_of, rounded
from dashboard.reasons import CAUSE_WORDS, blamed, gap_words
from dashboard.refusals import refusal_words
from dashboard.views.markup import chip, esc, scroll, table
from dashboard.views.preemptions import duration
from dashboard.views.request import STATES
from model_runner.views import RequestView
from scheduler.blame_life import Life

MAX_GAPS: Final = 200
GAPS_ROOM: Final = 3
TILES_ROOM: Final = (1, 2, 4)
"""Of the definitions, those that a room is shown."""
LEAST_HELD: Final = 20_000_000
"""Nanoseconds: less is the time between reading one clock and another."""
TEXT_HEIGHT: Final = 104
MAX_TEXT: Final = 40_000
OUTCOMES: Final = {**STATES, "lost": N_("ended while nobody watched")}
FINISHES: Final = {"length": N_("the length it asked for"), "stop": N_("the model ended its answer")}

KEY: Final = N_(
    "Life: tall = prefill, half = decode, red edge = recompute, red line = evicted, thin grey = waiting; "
    "ticks = tokens. Below: which share of each moment went to what."
)
KEY_ROOM: Final = N_("tall = prefill, half = decode, red = evicted, thin = waiting; below: what each moment went to")
DEFINITIONS: Final = (
    (N_("queue time"), N_("arrival to the first admission")),
    (N_("TTFT"), N_("arrival to the first token")),
    (N_("ITL p50 / max"), N_("time between two tokens, {n} kept")),
    (N_("TPOT"), N_("mean time between two tokens")),
    (N_("end to end"), N_("arrival to the end, or until now")),
)


def _ms(nanoseconds: float | None) -> str:
    return "–" if nanoseconds is None else duration(nanoseconds / 1e9)


def head(view: RequestView | None, life: Life | None, mark: int, theme: Theme, t: Translate) -> str:
    """Letter, name, state and origin."""
    name = view.request_id if view else life.request_id if life else ""
    state = view.state if view else (life.outcome if life else "") or "running"
    words = [t(OUTCOMES.get(state, state))]
    if view and view.outcome and view.outcome != "aborted":
        known = FINISHES.get(view.reason)
        words.append(t(known) if known else refusal_words(view.reason, t))
    if view and view.num_restarts:
        words.append(t("outlived {n} restarts of the engine", n=view.num_restarts))
    if life and life.held >= LEAST_HELD:
        words.append(t("held for {s} by pause or pace, which no number here counts", s=_ms(life.held)))
    told = esc(" · ".join(words), 400)
    return f'<div class="bs-head">{chip(mark, theme.hues, theme.on_hue)} {esc(name, 60)} · {told}</div>'


def tiles(life: Life | None, t: Translate, *, is_room: bool = False) -> str:
    """Its numbers, each with its definition beneath. is_room: three of them, for projector mode."""
    n = None if life is None else numbers_of(life)
    values = (
        ("–",) * 5
        if n is None
        else (_ms(n.queue), _ms(n.ttft), f"{_ms(n.itl_p50)} / {_ms(n.itl_max)}", _ms(n.tpot), _ms(n.end_to_end))
    )
    boxes = []
    for (name, gloss), value in zip(DEFINITIONS, values, strict=True):
        what = t(gloss, n=n.num_gaps if n else 0)
        boxes.append(
            f'<div class="bs-tile"><div class="bs-name">{esc(t(name))}</div><div class="bs-value bs-second">'
            f'{esc(value)}</div><div class="bs-gloss" title="{esc(what)}">{esc(what)}</div></div>'
        )
    shown = [boxes[i] for i in TILES_ROOM] if is_room else boxes
    return f'<div class="bs-tiles" style="grid-template-columns:repeat({len(shown)},1fr)">{"".join(shown)}</div>'


def totals(life: Life | None, t: Translate) -> str:
    """Where all of its time went, in whole microseconds that add up to the first line."""
    if life is None:
        return f'<p class="bs-quiet">{esc(t("Nothing was seen of its life."))}</p>'
    parts = rounded(life.totals)
    whole = sum(parts.values())
    rows = [
        [esc(t(CAUSE_WORDS[cause])), f"{value / 1000:,.3f}", f"{value / whole:.1%}" if whole else "–"]
        for cause, value in sorted(parts.items(), key=lambda item: -item[1])
    ]
    first = [f"<b>{esc(t('end to end'))} =</b>", f'<b id="bs-end-to-end">{whole / 1000:,.3f}</b>', "<b>100%</b>"]
    rows.insert(0, first)
    return table([t("where its time went"), t("ms"), t("share")], rows, "")


def gaps(life: Life | None, t: Translate) -> pd.DataFrame:
    """Every gap that is kept, the longest first: token, iteration, milliseconds, share of its own work, and why."""
    found = [gap for gap in life.gaps() if gap.number or gap.length] if life else []
    found.sort(key=lambda gap: -gap.length)
    own = [sum(b.length for b in blamed(gap.parts) if b.cause.startswith("own_")) for gap in found]
    shown = list(zip(found, own, strict=True))[:MAX_GAPS]
    return pd.DataFrame(
        {
            t("token"): [gap.number or None for gap, _ in shown],
            t("iteration"): [gap.step_id or None for gap, _ in shown],
            t("ms"): [gap.length / 1e6 for gap, _ in shown],
            t("own work"): [100 * mine / gap.length if gap.length else 0.0 for gap, mine in shown],
            t("who was in the way"): [gap_words(gap.parts, t) for gap, _ in shown],
        }
    ).astype({t("token"): "Int32", t("iteration"): "Int32"})


def longest(life: Life | None, t: Translate) -> str:
    """The few longest gaps between two tokens, for projector mode."""
    rows = gaps(life, t).head(GAPS_ROOM)
    body = [
        [f"{row[2]:,.1f}", esc("–" if pd.isna(row[0]) else row[0]), esc(row[4], 160)]
        for row in rows.itertuples(index=False)
    ]
    head = [esc(word) for word in (t("ms"), t("token"), t("who was in the way"))]
    told = table(head, body, esc(t("no gap yet")))
    return f'<div class="bs-title">{esc(t("The longest gaps between its tokens"))}</div>{told}'


def text(view: RequestView | None, t: Translate) -> str:
    """Prompt and answer, as text."""
    if view is None:
        return scroll(f'<p class="bs-quiet">{esc(t("Its text is not kept any more."))}</p>', TEXT_HEIGHT)
    prompt = view.prompt_text or t("{n} token ids", n=view.num_prompt_tokens)
    said = view.text or t("no answer yet")
    columns = (("prompt", t("prompt"), prompt), ("answer", t("answer"), said))
    boxes = [
        f'<div style="flex:1;min-width:0"><div class="bs-name">{esc(name)}</div>'
        + scroll(f'<div class="bs-text" id="bs-{key}" lang="">{esc(content, MAX_TEXT)}</div>', TEXT_HEIGHT)
        + "</div>"
        for key, name, content in columns
    ]
    return f'<div style="display:flex;gap:14px">{"".join(boxes)}</div>'
