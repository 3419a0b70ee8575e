"""The part of the page that ticks: always the same elements in the same order, with new data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import engine, style
from dashboard.charts.lanes import TITLE
from dashboard.charts.specs import specs
from dashboard.charts.theme import THEMES, Theme
from dashboard.controls import one_step, shown_truth, toggle_pause
from dashboard.desk import Desk
from dashboard.hub import Frame, with_selection
from dashboard.i18n import N_, Translate, translator
from dashboard.preempted import preempted_panel
from dashboard.prompt import prompt_panel
from dashboard.views import memory_account, status, step, tiles, twin
from dashboard.views.markup import esc, plain, scroll
from dashboard.visit import is_presenter
from dashboard.why_panel import why_panel
from dashboard.words import engine_words
from model_runner.client import RunnerClient
from model_runner.messages import EngineSnapshot
from model_runner.views import ClientState
from scheduler import SchedulerPolicy, StepSnapshot

TICK_S: Final = 0.25
PANEL_HEIGHT: Final = 248
RECENT_STEPS: Final = 40
_log = logging.getLogger(__name__)


@st.fragment(run_every=TICK_S, key="live")
def live(language: str, theme_name: str) -> None:
    """One tick of a page with controls; they are drawn anew when they no longer show the truth."""
    if not is_presenter() or st.session_state.get("drawn") != shown_truth(engine.shared().desk):
        st.rerun()
    tick(language, theme_name, has_controls=True)


def tick(language: str, theme_name: str, *, has_controls: bool) -> None:
    """Draw the live page. No chart comes before the first snapshot: a progress bar says what takes long."""
    running = engine.shared()
    client, t, theme = running.client, translator(language), THEMES[theme_name]
    frame, state = running.hub.frame(), client.state
    _top(running.desk, state, frame, t, has_controls)
    if frame is None:
        _loading(state, t)
        return
    chosen = st.session_state.get("chosen") or ""
    charts = specs(theme_name, language, frame.geometry)
    data = with_selection(frame, chosen)
    _present(frame, charts, data, t)
    wide, side = st.columns([3.25, 1.15])
    with wide:
        legend = _legend(frame.snapshot.step.policy)
        guarded(lambda: st.html(_title(t(TITLE), t(legend))), "lanes title")
        guarded(lambda: _chart(charts["time"], data["time"], t("iterations, token budget and time lines")), "time")
    with side:
        _side(client, frame, theme, t, has_controls)
    _below(frame, t)


LEGEND: Final = N_("○ admitted · ▽ preempted · • finished · red edge = recompute")
LEGEND_STATIC: Final = N_("○ admitted · • finished · grey outline = padding · faint line = idle slot")
LEGEND_NEVER: Final = N_("○ admitted · • finished · faint line = waits for KV blocks")


def _legend(policy: SchedulerPolicy) -> str:
    if policy.batching == "static":
        return LEGEND_STATIC
    return LEGEND_NEVER if policy.preemption_mode == "never" else LEGEND


def guarded(draw: Callable[[], Any], name: str) -> None:
    """Draw one element; an error in it is shown in its place and the tick goes on."""
    try:
        draw()
    except Exception as error:
        _log.exception("element %s", name)
        st.html(f'<div class="bs-notice bs-bad">{esc(name)}: {esc(type(error).__name__)}: {esc(error, 300)}</div>')


def _title(title: str, more: str = "") -> str:
    return f'<div class="bs-title">{esc(title)} <span>{esc(more)}</span></div>'


def _chart(spec: Mapping[str, Any], data: Mapping[str, bytes], alt: str) -> None:
    st.vega_lite_chart(spec={**spec, "datasets": dict(data)}, width="stretch", theme=None, alt=alt)


def _top(desk: Desk, state: ClientState, frame: Frame | None, t: Translate, has_controls: bool) -> None:
    snapshot = frame.snapshot if frame else None
    every = frame.steps_per_frame if frame else 1
    st.html(style.frozen_sheet(frame is not None and status.is_frozen(state)))
    widths = [6.0, 1.7, 1.25, 0.95] if has_controls else [8.2, 1.7]
    left, pick, *hold = st.columns(widths, vertical_alignment="center")
    with left:
        guarded(lambda: st.html(status.strip(state, snapshot, desk.client.marks, every, t)), "status")
    with pick:
        guarded(lambda: _choose(frame, t), "selection")
    if has_controls:
        _holds(desk, hold, t)
    problem = st.session_state.get("step.problem", "")
    guarded(
        lambda: st.html(status.notices(state, snapshot, problem, t, has_controls=has_controls) or "<span></span>"),
        "notices",
    )
    guarded(lambda: st.html(tiles.tiles(frame.figures if frame else None, t)), "tiles")


def _holds(desk: Desk, places: Sequence[DeltaGenerator], t: Translate) -> None:
    pause, step_once = places
    held = desk.policy.paused or desk.policy.single_step
    pause.button(
        t("▶ Go on") if held else t("❚❚ Pause"), key="pause", on_click=toggle_pause, args=(desk,), shortcut="P",
        width="stretch",
    )  # fmt: skip
    step_once.button(t("Step"), key="step", on_click=one_step, args=(desk,), shortcut="N", width="stretch")


def _choose(frame: Frame | None, t: Translate) -> None:
    """The request that all pictures single out.

    An option is the bare id: a browser sends what an option looks like, and one whose letter changes is gone.
    """
    ids = [*frame.snapshot.step.running.request_id, *frame.snapshot.step.waiting.request_id[:40]] if frame else []
    chosen = st.session_state.get("chosen")
    if chosen and chosen not in ids:
        ids.insert(0, chosen)
    st.selectbox(
        t("Highlight a request"),
        ids,
        index=None,
        key="chosen",
        placeholder=t("Highlight a request"),
        label_visibility="collapsed",
    )


def _loading(state: ClientState, t: Translate) -> None:
    if state.phase in status.TOLD:
        return
    words = engine_words(state.message, t) or t("The engine is starting.")
    st.progress(state.progress or 0.0, text=plain(words))


def _present(frame: Frame, charts: Mapping[str, Any], data: Mapping[str, Mapping[str, bytes]], t: Translate) -> None:
    now = frame.snapshot.step
    queue, running, memory = st.columns([1.0, 1.05, 2.35])
    with queue:
        more = t("{n} waiting, {tokens} tokens", n=now.num_waiting, tokens=f"{now.num_waiting_tokens:,}")
        more = step.growth(frame.facts, t) or more
        guarded(
            lambda: st.html(_title(t("Queue"), more) + step.head_reason(now, t)),
            "queue title",
        )
        guarded(lambda: _chart(charts["queue"], data["queue"], t("waiting queue")), "queue")
    with running:
        more = t("{n} of {max} slots", n=len(now.running), max=now.policy.max_num_seqs)
        guarded(lambda: st.html(_title(t("Running"), more)), "running title")
        guarded(lambda: _chart(charts["running"], data["running"], t("running set")), "running")
    with memory:
        guarded(lambda: st.html(memory_account.account_line(now, frame.geometry, t)), "account")
        guarded(lambda: _chart(charts["map"], data["map"], t("KV block map")), "map")


def _side(client: RunnerClient, frame: Frame, theme: Theme, t: Translate, has_controls: bool) -> None:
    names = [t("Last iteration"), t("Why"), t("Preemptions"), *([t("Your request")] if has_controls else [])]
    happened, reasons, evicted, *own = st.tabs(names)
    with happened:
        guarded(lambda: st.html(step.decision(frame.snapshot, frame.marks, theme, t)), "decision")
        recent = shown_steps(frame, client.history(last=RECENT_STEPS))
        guarded(lambda: st.html(scroll(step.events(recent, frame.marks, theme, t), PANEL_HEIGHT)), "events")
    with reasons:
        guarded(lambda: why_panel(frame, theme, t), "reasons")
    with evicted:
        guarded(lambda: preempted_panel(client, frame, theme, t), "preemptions")
    if own:
        with own[0]:
            guarded(lambda: prompt_panel(client, frame, theme, t), "prompt")


def shown_steps(frame: Frame, history: Sequence[EngineSnapshot]) -> list[StepSnapshot]:
    """Steps up to the one the frame shows, newest first: what came since belongs to the next picture."""
    shown = (frame.snapshot.run_id, frame.snapshot.step.step_id)
    at = next((i for i in reversed(range(len(history))) if (history[i].run_id, history[i].step.step_id) == shown), None)
    return [s.step for s in reversed(history[: None if at is None else at + 1])]


def _below(frame: Frame, t: Translate) -> None:
    if st.toggle(t("What the picture says, as tables"), key="twin"):
        guarded(lambda: st.html(twin.twin(frame.snapshot.step, frame.marks, t)), "tables")
