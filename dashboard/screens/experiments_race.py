"""Fork and race: from the live step on, the policy in force against another one, with the same requests to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import streamlit as st

from dashboard import engine
from dashboard.charts.experiment_specs import experiment_spec
from dashboard.elements import guarded, title, vega
from dashboard.experiments import racing
from dashboard.experiments.race_tables import has_lines, race_data
from dashboard.experiments.racing import Shown
from dashboard.experiments.ranges import REQUESTS_AT_ONCE, TOKEN_BUDGET, Wrong
from dashboard.i18n import N_, Translate, translator
from dashboard.presets import with_preset
from dashboard.refusals import refusal_words
from dashboard.screens.experiments_boxes import limit_boxes, mark, value_of, wrong_in
from dashboard.values import policy_diff, told
from dashboard.views import race as views
from dashboard.views.markup import esc
from dashboard.visit import Visit, is_presenter, presenter_only
from scheduler import PRESETS, SchedulerPolicy
from scheduler.policy import problems

TICK_S: Final = 1.0
PRESET, SEQS, BUDGET, CHUNKS = "exp.g.race.preset", "exp.g.race.seqs", "exp.g.race.budget", "exp.g.race.chunks"
BOXES: Final = (
    (SEQS, (N_("Requests at once"),), REQUESTS_AT_ONCE),
    (BUDGET, (N_("Token budget"),), TOKEN_BUDGET),
)
CHARTS: Final = {"race tokens": N_("tokens of the race"), "race waiting": N_("queues of the race")}
LINES_HEIGHT: Final = 445
"""Pixels of both charts with their axes and the gap between them."""
SAME: Final = "same"
"""Stands among the presets for the policy in force, of which fields are then changed."""


def draw(seen: Visit) -> None:
    """The presenter chooses and begins; everybody sees."""
    if seen.presenter:
        _choose(seen.language)
    race_live(seen.language, seen.theme_name)


@st.fragment
def _choose(language: str) -> None:
    t = translator(language)
    st.session_state.setdefault(PRESET, "static")
    st.html(title(t("Policy B"), t("what the engine would do from now on under another policy")))
    preset, seqs, budget, chunks, go, real = st.columns([1.6, 1.0, 1.0, 1.1, 1.2, 1.5], vertical_alignment="bottom")
    preset.selectbox(
        t("Decisions"), [SAME, *PRESETS], key=PRESET,
        format_func=lambda name: t("the policy in force now") if name == SAME else name,
        help=t("A known engine's decisions, or those in force with other limits."),
    )  # fmt: skip
    limit_boxes((seqs, budget), SEQS, BUDGET, t("max_num_seqs; empty = as it is."), t)
    chunks.selectbox(
        t("Chunked prefill"), [None, True, False], key=CHUNKS,
        format_func=lambda value: t("as it is") if value is None else t("on") if value else t("off"),
        help=t("Whether prompts are cut into chunks."),
    )  # fmt: skip
    now = engine.shared().desk.policy
    unread = wrong_in(BOXES)
    rival, wrong = rival_of(now, unread, t)
    go.button(
        t("Fork and race"), key="exp.race", on_click=_start, args=(False,), width="stretch", type="primary",
        disabled=bool(wrong),
        help=t("Forecasts both policies from the newest iteration on, for the same requests. Nothing changes live."),
    )  # fmt: skip
    real.button(
        t("Put B in force, and check"), key="exp.race.real", on_click=_start, args=(True,), width="stretch",
        disabled=bool(wrong),
        help=t("Forecasts from the newest iteration on and changes the engine: the real line against its forecast."),
    )  # fmt: skip
    mark(unread)
    if wrong:
        st.html(f'<p class="bs-plan bs-unclear">{esc("; ".join(wrong))}</p>')
    else:
        changes = policy_diff(now, rival)
        listed = "; ".join(f"{name} {told(name, a, t)} → {told(name, b, t)}" for name, a, b in changes)
        st.html(f'<p class="bs-quiet">{esc(listed or t("B is the policy in force."))}</p>')


def rival_of(
    now: SchedulerPolicy, unread: Mapping[str, Wrong], t: Translate
) -> tuple[SchedulerPolicy, tuple[str, ...]]:
    """Policy B as it is chosen, and what is wrong with it. unread: boxes that hold no number."""
    state = st.session_state
    name = state.get(PRESET, SAME)
    chosen = with_preset(now, PRESETS[name]) if name in PRESETS else now
    own: dict[str, Any] = {
        "max_num_seqs": value_of(SEQS, REQUESTS_AT_ONCE), "max_num_batched_tokens": value_of(BUDGET, TOKEN_BUDGET),
        "enable_chunked_prefill": state.get(CHUNKS),
    }  # fmt: skip
    rival = replace(chosen, **{field: value for field, value in own.items() if value is not None})
    told = [each.words(t) for each in unread.values()]
    return rival, (*told, *(refusal_words(text, t) for text in problems(rival)))


@st.fragment(run_every=TICK_S, key="race")
def race_live(language: str, theme_name: str) -> None:
    """The lines, the step model's error, and the real run against its forecast."""
    t, shown = translator(language), racing.shared().shown
    running = engine.shared()
    st.html(views.stage(shown, t, language, held=running.desk.policy.paused))
    left, right = st.columns([2.2, 1.0])
    with left:
        st.html(title(t("From the fork on"), t("solid: what really happened; dashed: forecast of the policy in force; "
                                               "dotted: forecast of B")))  # fmt: skip
        _lines(shown, theme_name, language)
    with right:
        guarded(lambda: st.html(views.numbers(shown, t)), "race numbers")
    if not is_presenter() and st.session_state.get("exp.section") not in ("results", "race"):
        st.rerun()


def _lines(shown: Shown, theme_name: str, language: str) -> None:
    """The charts; before there is a line, a sentence as high as they are: empty axes would tell of a race of zeros."""
    t = translator(language)
    if not has_lines(shown):
        words = t("No lines yet: they are drawn here once both policies have been forecast.")
        st.html(f'<div class="bs-blank" id="bs-no-race" style="height:{LINES_HEIGHT}px">{esc(words)}</div>')
        return
    data = race_data(shown, t)
    for chart, what in CHARTS.items():
        guarded(partial(vega, experiment_spec(chart, theme_name, language), data, t(what)), chart)


@presenter_only
def _start(is_real: bool) -> None:
    desk = engine.shared().desk
    rival, wrong = rival_of(desk.policy, wrong_in(BOXES), translator("en"))
    if not wrong:
        name = st.session_state.get(PRESET, SAME)
        racing.shared().start(desk, rival, name if name in PRESETS else "B", is_real=is_real)
