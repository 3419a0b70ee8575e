"""The part of the page that ticks: always the same elements in the same order, with new data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import choice, engine, moment, style
from dashboard.charts.lanes import TITLE
from dashboard.charts.memory import HEIGHT
from dashboard.charts.specs import live_specs
from dashboard.charts.theme import THEMES, Theme
from dashboard.charts.window import SHARES
from dashboard.controls import hold, one_step, shown_truth
from dashboard.dense_map import block_map
from dashboard.desk import Desk
from dashboard.elements import guarded, title, trouble, vega
from dashboard.hub import Frame, with_selection
from dashboard.i18n import N_, Translate, translator
from dashboard.narrow_style import HEAD, STATE, TIME
from dashboard.preempted import preempted_panel
from dashboard.prompt import prompt_panel
from dashboard.scrubber import scrubber
from dashboard.views import memory_account, status, step, tiles, twin
from dashboard.views.markup import esc, plain, scroll
from dashboard.visit import is_presenter
from dashboard.why_panel import why_panel
from dashboard.words import engine_words
from model_runner.client import RunnerClient
from model_runner.views import ClientState
from scheduler import SchedulerPolicy

TICK_S: Final = 0.25
REST_S: Final = 1.0
"""Between two drawings of the words and controls beside the pictures while the engine runs: nobody reads faster, and
each costs the browser as much as a chart."""
PANEL_HEIGHT: Final = 240


@dataclass(frozen=True, slots=True)
class Places:
    """Where each part of the page goes. They stand still, so that pictures and words tick apart from each other."""

    strip: DeltaGenerator
    choice: DeltaGenerator
    holds: tuple[DeltaGenerator, ...]
    tiles: DeltaGenerator
    queue: DeltaGenerator
    running: DeltaGenerator
    memory: DeltaGenerator
    lanes: DeltaGenerator
    side: DeltaGenerator
    below: DeltaGenerator


def places(*, has_controls: bool) -> Places:
    """The page from top to bottom, with nothing in it yet."""
    widths = [6.0, 1.7, 1.25, 0.95] if has_controls else [8.2, 1.7]
    strip, choice, *holds = st.container(key=HEAD).columns(widths, vertical_alignment="center")
    tiles = st.container()
    queue, running, memory = st.container(key=STATE).columns([1.0, 1.05, 2.35])
    lanes, side = st.container(key=TIME).columns([3.25, 1.15])
    return Places(strip, choice, tuple(holds), tiles, queue, running, memory, lanes, side, st.container())


def reserve(*left_empty: DeltaGenerator) -> None:
    """Keep places for a fragment that has nothing to put there yet: Streamlit lets it write later only where it wrote
    when the whole page was drawn."""
    for place in left_empty:
        place.empty()


def live(language: str, theme_name: str) -> None:
    """The page with its controls."""
    parts = places(has_controls=True)
    st.session_state["hurry"] = _is_still()
    _pictures(language, theme_name, parts)
    st.fragment(run_every=TICK_S if _is_still() else REST_S, key="words")(_words)(language, theme_name, parts)


@st.fragment(run_every=TICK_S, key="live")
def _pictures(language: str, theme_name: str, parts: Places) -> None:
    """One tick of what moves. The controls are drawn anew when they no longer show the truth."""
    is_true = is_presenter() and st.session_state.get("drawn") == shown_truth(engine.shared().desk)
    if not is_true or st.session_state["hurry"] != _is_still():
        st.rerun()
    pictures(language, theme_name, parts, has_controls=True)


def _words(language: str, theme_name: str, parts: Places) -> None:
    """One tick of what is read and pressed."""
    words(language, theme_name, parts, has_controls=True)


def _is_still() -> bool:
    """Whether somebody looks closely: the engine is held, or a step of the past is shown. Then words keep up with
    pictures, which do not change by themselves."""
    policy = engine.shared().desk.policy
    return policy.paused or policy.single_step or moment.looking() is not None


def pictures(language: str, theme_name: str, parts: Places, *, has_controls: bool) -> None:
    """State, numbers and charts. No chart comes before the first snapshot: a progress bar says what takes long."""
    running = engine.shared()
    client, t, theme = running.client, translator(language), THEMES[theme_name]
    newest, state = running.hub.frame(), client.state
    if newest is not None:
        moment.arrive(running.hub, client, newest)
    frame = moment.to_show(running.hub, newest) if newest is not None else None
    with parts.strip:
        _state(client, state, frame, newest, t)
    with parts.tiles:
        trouble(state, t, has_controls=has_controls)
        guarded(lambda: st.html(tiles.tiles(frame.figures if frame else None, t)), "tiles")
        if frame is None:
            _loading(state, t)
            reserve(parts.queue, parts.running, parts.memory, parts.lanes)
            return
    moment.keep_address()
    charts = live_specs(theme_name, language, frame.geometry)
    data = with_selection(frame, choice.chosen())
    _present(frame, charts, data, theme, parts, t)
    with parts.lanes:
        legend = _legend(frame.snapshot.step.policy)
        guarded(lambda: st.html(title(t(TITLE), t(legend))), "lanes title")
        guarded(lambda: vega(charts["time"], data["time"], t("iterations, token budget and time lines")), "time")


def words(language: str, theme_name: str, parts: Places, *, has_controls: bool) -> None:
    """What is read and pressed beside the pictures."""
    running = engine.shared()
    client, t, theme = running.client, translator(language), THEMES[theme_name]
    newest = running.hub.frame()
    frame = moment.to_show(running.hub, newest) if newest is not None else None
    with parts.choice:
        guarded(lambda: _choose(frame, t), "selection")
    if has_controls:
        _holds(running.desk, parts.holds, t)
    if frame is None or newest is None:
        reserve(parts.side, parts.below)
        return
    with parts.side:
        _side(client, frame, newest, theme, t, has_controls)
    with parts.below:
        strip = live_specs(theme_name, language, frame.geometry)["strip"]
        guarded(lambda: scrubber(running, strip, frame, newest, t), "scrubber")
        _below(frame, t, has_controls)


LEGEND: Final = N_("○ admitted · ▽ preempted · • finished · red edge = recompute")
LEGEND_STATIC: Final = N_("○ admitted · ▽ preempted · • finished · grey outline = padding · faint line = idle slot")
LEGEND_NEVER: Final = N_("○ admitted · • finished · faint line = waits for KV blocks")


def _legend(policy: SchedulerPolicy) -> str:
    if policy.batching == "static":
        return LEGEND_STATIC
    return LEGEND_NEVER if policy.preemption_mode == "never" else LEGEND


def _state(client: RunnerClient, state: ClientState, frame: Frame | None, newest: Frame | None, t: Translate) -> None:
    behind = None
    if frame is not None and newest is not None and moment.looking() is not None:
        behind = status.Behind(newest.n - frame.n, newest.snapshot.step.step_id)
    frozen = frame is not None and behind is None and status.is_frozen(state)
    look = style.state_sheet(frozen=frozen, past=behind is not None)
    guarded(lambda: st.html(look + _status(client, state, frame, behind, t)), "status")


def _status(
    client: RunnerClient, state: ClientState, frame: Frame | None, behind: status.Behind | None, t: Translate
) -> str:
    wrong = moment.problem()
    told = wrong.words(t) if wrong else st.session_state.get("step.problem", "")
    snapshot = frame.snapshot if frame else None
    every = frame.steps_per_frame if frame else 1
    return status.strip(state, snapshot, client.marks, every, t, behind=behind, problem=told)


def _holds(desk: Desk, places: Sequence[DeltaGenerator], t: Translate) -> None:
    pause, step_once = places
    held = desk.policy.paused or desk.policy.single_step
    pause.button(
        t("▶ Go on") if held else t("❚❚ Pause"), key="pause", on_click=hold, args=(desk, not held), width="stretch",
        help=t("Key: {key}", key="P"),
    )  # fmt: skip
    step_once.button(
        t("Step"), key="step", on_click=one_step, args=(desk,), width="stretch", help=t("Key: {key}", key="N")
    )


def _choose(frame: Frame | None, t: Translate) -> None:
    """The list of requests, of which all pictures single one out."""
    ids = [*frame.snapshot.step.running.request_id, *frame.snapshot.step.waiting.request_id[:40]] if frame else []
    choice.listed(
        t("Highlight a request"),
        ids,
        placeholder=t("Highlight a request"),
        help=t(
            "Dims every other request in all pictures of this page, in this browser only. A click on a picture of a "
            "request does the same."
        ),
        label_visibility="collapsed",
    )


def _loading(state: ClientState, t: Translate) -> None:
    if state.phase in status.TOLD:
        return
    words = engine_words(state.message, t) or t("The engine is starting.")
    if state.progress:
        st.progress(state.progress, text=plain(words))
    else:
        st.html(f'<p class="bs-quiet" role="status">{esc(words)}</p>')


def _present(
    frame: Frame,
    charts: Mapping[str, Any],
    data: Mapping[str, Mapping[str, bytes]],
    theme: Theme,
    parts: Places,
    t: Translate,
) -> None:
    now = frame.snapshot.step
    with parts.queue:
        growing = step.growth(frame.facts)
        head = title(t("Queue"), step.queue_length(now, growing, t))
        guarded(lambda: st.html(head + step.head_reason(now, t, growing, frame.ran)), "queue title")
        guarded(lambda: vega(charts["queue"], data["queue"], t("waiting queue")), "queue")
    with parts.running:
        more = t("{n} of {max} slots", n=len(now.running), max=now.policy.max_num_seqs)
        guarded(lambda: st.html(title(t("Running"), more)), "running title")
        guarded(lambda: vega(charts["running"], data["running"], t("running set")), "running")
    with parts.memory:
        guarded(lambda: st.html(memory_account.account_line(now, frame.geometry, t)), "account")
        guarded(lambda: block_map(frame, charts["map"], data["map"], theme, HEIGHT, t, SHARES["map"]), "map")


def _side(client: RunnerClient, frame: Frame, newest: Frame, theme: Theme, t: Translate, has_controls: bool) -> None:
    """Decision, reasons and evictions are those of the picture; what acts on the engine, and one's own request, are
    live."""
    names = [t("Last iteration"), t("Why"), t("Preemptions"), *([t("Your request")] if has_controls else [])]
    happened, reasons, evicted, *own = st.tabs(names)
    with happened:
        guarded(lambda: st.html(step.decision(frame.snapshot, frame.marks, theme, t, frame.ran)), "decision")
        events = step.events(frame.recent, frame.marks, theme, t)
        guarded(lambda: st.html(scroll(events, PANEL_HEIGHT, grows=True)), "events")
    with reasons:
        guarded(lambda: why_panel(frame, theme, t), "reasons")
    with evicted:
        guarded(lambda: preempted_panel(client, frame, newest, theme, t), "preemptions")
    if own:
        with own[0]:
            guarded(lambda: prompt_panel(client, newest, theme, t), "prompt")


def _below(frame: Frame, t: Translate, has_controls: bool) -> None:
    if st.toggle(
        t("What the picture says, as tables"),
        key="twin",
        help=t("The same numbers as text, for copying and for screen readers; each tick then sends a little more."),
    ):
        guarded(lambda: st.html(twin.twin(frame.snapshot.step, frame.marks, t)), "tables")
    notice = status.toy_notice(frame.snapshot, t, has_controls=has_controls)
    guarded(lambda: st.html(notice or "<span></span>"), "model notice")
