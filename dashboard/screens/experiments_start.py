"""The form of an experiment: its kind, workload, policies and limits; what it would do; and the button."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import streamlit as st

from dashboard import engine
from dashboard.elements import title
from dashboard.experiments import workshop
from dashboard.experiments.form import LIVE, Form, spec_of
from dashboard.experiments.plan import Plan, plan_of
from dashboard.experiments.ranges import FieldsError
from dashboard.experiments.told import refused
from dashboard.experiments.words import KINDS, metric_name
from dashboard.i18n import N_, Translate, translator
from dashboard.screens.experiments_boxes import limit_boxes, mark, number_box
from dashboard.screens.experiments_state import (
    FIELD,
    RESULT,
    begun,
    draw_all_anew,
    fill,
    form,
    keep,
    uploaded,
)
from dashboard.screens.experiments_workload import workload
from dashboard.values import value_words
from dashboard.views import experiments as views
from dashboard.views.markup import esc, plain
from dashboard.visit import Visit, presenter_only
from experiments.runs.spec import Spec, SpecError
from experiments.traces import trace_bytes
from scheduler import PRESETS

CHOICES: Final = ("ab", "factorial", "chunk")
KIND_HELP: Final = {
    "ab": N_("Two policies on the same requests, in turns (A B B A), so that a machine that slows down favours none."),
    "factorial": N_("The twelve valid combinations of four decisions: which made it faster, and what got worse."),
    "chunk": N_("One arm for each chunk size: what long prompts wait against what all others do."),
}  # fmt: skip
HEADLINES: Final = (
    "output_tokens_per_s",
    "request_rps",
    "goodput_rps",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p99_s",
    "e2e_p50_s",
)
TUNED: Final = {"unsaid": N_("not said"), "yes": N_("yes"), "no": N_("no")}
ALLOCATIONS: Final = ("reserve_max", "buddy", "exact")


def draw(seen: Visit) -> None:
    """For the presenter only."""
    if seen.presenter:
        begin(seen.language)


@st.fragment
def begin(language: str) -> None:
    """The form. It is drawn anew at each choice, and nothing starts before Run."""
    draw_all_anew()
    running, t = engine.shared(), translator(language)
    latest = running.client.latest
    keep()
    fill(running.client.config, latest.info.max_model_len if latest else None)
    left, right = st.columns([1.0, 1.0], gap="medium")
    with left:
        _what(t)
        workload(t, language)
    with right:
        _arms(t)
        _limits(t)
        _run(t, language)


def key(name: str) -> str:
    """Of a field's control."""
    return FIELD + name


def _what(t: Translate) -> None:
    st.html(title(t("What is asked")))
    kind = st.segmented_control(
        t("Kind"), CHOICES, key=key("kind"), format_func=lambda name: t(KINDS[name]), required=True, width="stretch",
        label_visibility="collapsed", help=t("What the experiment answers."),
    )  # fmt: skip
    st.html(f'<p class="bs-quiet">{esc(t(KIND_HELP[kind or "ab"]))}</p>')
    name, repeats, seed = st.columns([2.2, 1.0, 1.0])
    name.text_input(
        t("Name"), key=key("name"), max_chars=80, placeholder=t("what is compared"),
        help=t("Stands over the results and on the claim card."),
    )  # fmt: skip
    number_box(
        repeats, t("Repeats"), key("repeats"),
        t("Runs of each arm. Four and more tell the spread; an even number cancels slow drift of the machine."),
    )  # fmt: skip
    number_box(
        seed, t("Seed"), key("seed"),
        t("Of the made workload and of random prompts: the same seed gives the same requests."),
    )  # fmt: skip


def _arms(t: Translate) -> None:
    kind = st.session_state[key("kind")]
    st.html(title(t("Policies")))
    if kind == "ab":
        a, b = st.columns(2)
        with a:
            _arm("a", t("A, the baseline"), t)
        with b:
            _arm("b", t("B"), t)
    else:
        _arm("base", t("All other decisions as in"), t)
    if kind == "factorial":
        st.selectbox(
            t("Allocation without pages"), ALLOCATIONS, key=key("allocation_off"),
            format_func=lambda name: value_words(name, t),
            help=t("What stands for the allocation of the arms without pages."),
        )  # fmt: skip
    if kind == "chunk":
        sizes, long = st.columns([2.0, 1.0])
        sizes.text_input(
            t("Chunk sizes (tokens)"), key=key("sizes"), max_chars=200,
            help=t("Token budgets of an iteration, one arm each, with commas between. A knee needs four and more."),
        )  # fmt: skip
        number_box(
            long, t("Long prompt (tokens)"), key("long_prompt_len"),
            t("Prompts of at least so many tokens are the long ones; there must be some and not only those."),
        )  # fmt: skip


def _arm(name: str, label: str, t: Translate) -> None:
    st.selectbox(
        label, [LIVE, *PRESETS], key=key(f"{name}.preset"),
        format_func=lambda value: t("the policy in force now") if value == LIVE else value,
        help=t("A known engine's decisions, or those that the live engine has now."),
    )  # fmt: skip
    limit_boxes(
        st.columns(2), key(f"{name}.seqs"), key(f"{name}.budget"),
        t("max_num_seqs; empty = as the policy has it. Give both arms the same to compare decisions alone."), t,
    )  # fmt: skip


def _limits(t: Translate) -> None:
    st.html(title(t("Limits and claim"), t("empty = no limit; without limits there is no goodput")))
    columns = st.columns(3)
    for column, (name, label) in zip(
        columns, (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2e_s", t("End to end"))), strict=True
    ):
        number_box(
            column, t("{what} at most (s)", what=label), key(name),
            t("A request is good when it finishes within all limits."), placeholder=t("no limit"),
        )  # fmt: skip
    tuned, how, headline = st.columns([1.0, 1.6, 1.4])
    tuned.selectbox(
        t("Baseline tuned?"), list(TUNED), key=key("tuned"), format_func=lambda name: t(TUNED[name]),
        help=t("The claim card gives a headline number only when this is said."),
    )  # fmt: skip
    how.text_input(
        t("How, or why not"), key=key("tuning"), max_chars=200,
        help=t("Stands on the card: what was tried for the baseline."),
    )  # fmt: skip
    headline.selectbox(
        t("Headline"), HEADLINES, key=key("headline"), format_func=lambda name: metric_name(name, t),
        help=t("The number that the claim is about."),
    )  # fmt: skip


def _asked() -> tuple[Spec, Plan] | SpecError:
    """What the form stands for, or why that cannot be."""
    running = engine.shared()
    try:
        filled = form(running.client.config)
    except FieldsError as error:
        return error
    found = uploaded() if filled.source == "file" else None
    memo = (filled, found.sha256 if found else "", running.desk.policy if LIVE in _presets(filled) else None)
    kept: tuple[object, tuple[Spec, Plan] | SpecError] | None = st.session_state.get("exp.plan")
    if kept is not None and kept[0] == memo:
        return kept[1]
    try:
        spec = spec_of(filled, running.desk.policy)
        is_live = filled.model == running.client.config.model
        cost = workshop.shared().speed.cost(running.client) if is_live else None
        answer: tuple[Spec, Plan] | SpecError = spec, plan_of(spec, Path(), found.trace if found else None, cost)
        if cost is None and is_live:  # not kept: soon the engine has computed enough
            return answer
    except SpecError as error:
        answer = error
    st.session_state["exp.plan"] = memo, answer
    return answer


def _presets(filled: Form) -> tuple[str, ...]:
    return filled.a.preset, filled.b.preset, filled.base.preset


def _run(t: Translate, language: str) -> None:
    st.html(title(t("What will be done")))
    asked = _asked()
    mark(asked.wrong if isinstance(asked, FieldsError) else ())
    with st.container(height=118, border=False):
        if isinstance(asked, SpecError):
            st.warning(t("This cannot be run: {reason}", reason=plain(refused(asked, language))))
        else:
            st.html(views.plan_words(asked[1], t) + views.arms_words(asked[1], t))
    hold, run = st.columns([1.7, 1.0], vertical_alignment="center")
    hold.toggle(
        t("Hold the live engine meanwhile"), key=key("hold"),
        help=t("Both compute on this machine. Held, the live engine takes nothing from the runs; it goes on after."),
    )  # fmt: skip
    run.button(
        t("Run"), key="exp.run", type="primary", width="stretch", on_click=_begin,
        disabled=isinstance(asked, SpecError) or workshop.shared().job is not None,
        help=t("Runs in a process of its own; results are kept in a folder as soon as each run is made."),
    )  # fmt: skip
    told = st.session_state.get("exp.told")
    st.html(f'<p class="bs-quiet">{esc(told)}</p>' if told else "<span></span>")


@presenter_only
def _begin() -> None:
    """Nothing of what a browser sent is run before it was checked again."""
    running, shop = engine.shared(), workshop.shared()
    language = st.session_state.get("language", "en")
    t = translator(language)
    hold = bool(st.session_state[key("hold")])
    try:
        filled = form(running.client.config)
        found = uploaded() if filled.source == "file" else None
        spec = spec_of(filled, running.desk.policy)
        with tempfile.TemporaryDirectory() as empty:
            plan_of(spec, Path(empty), found.trace if found else None, None)
        name = workshop.holding(
            running.desk, hold, lambda then: shop.begin(spec, trace_bytes(found.trace) if found else None, then)
        )
        st.session_state["exp.told"] = t("Begun; its folder is {name}.", name=name)
        st.session_state[RESULT] = name
        begun()
    except workshop.BusyError:
        st.session_state["exp.told"] = t("Another experiment runs; two at once would measure each other.")
    except SpecError as error:
        st.session_state["exp.told"] = t("This cannot be run: {reason}", reason=refused(error, language))
