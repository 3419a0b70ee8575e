"""The page for a room: three numbers, one picture at a time, one sentence, readable from 5 metres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import streamlit as st

from dashboard import choice, engine, lanes, moment, style
from dashboard.charts.large import large_specs
from dashboard.charts.theme import THEMES
from dashboard.comparison import comparison
from dashboard.dense_map import block_map
from dashboard.elements import guarded, vega
from dashboard.hub import Frame, with_selection
from dashboard.i18n import N_, Translate, translator
from dashboard.narration import Sentence, caption, narrate
from dashboard.projector_style import projector_sheet
from dashboard.views import status
from dashboard.views.markup import esc
from dashboard.views.step import growth, queue_length
from dashboard.visit import Visit
from scheduler import StepSnapshot

TICK_S: Final = 0.25
PICTURES: Final = {
    "flow": N_("Queue and running requests"),
    "memory": N_("KV blocks"),
    "lanes": N_("Iterations"),
    "change": N_("Before and after the last change of policy"),
}
"""Key 1, 2, 3, 4: name to title."""
PICTURE: Final = "projector.picture"
COLUMNS: Final = 48
"""Iterations in the lanes: bars that a pointer hits from 5 metres."""
PAGE: Final = 8
MAP_HEIGHT: Final = 520


def draw(seen: Visit) -> None:
    """Everything but the controls, which the keys stand in for."""
    st.html(projector_sheet(seen.theme_name))
    picture = st.session_state.get(PICTURE, "flow")
    _ticking(seen.language, seen.theme_name, picture)


@st.fragment(run_every=TICK_S, key="projector")
def _ticking(language: str, theme_name: str, picture: str) -> None:
    running, t = engine.shared(), translator(language)
    state, newest = running.client.state, running.hub.frame()
    if newest is None:
        st.html(f'<div class="bp-strip" id="bs-strip">{status.pill(state, t)}</div>')
        return
    moment.arrive(running.hub, running.client, newest)
    frame = moment.to_show(running.hub, newest)
    moment.keep_address()
    behind = status.Behind(newest.n - frame.n, newest.snapshot.step.step_id) if moment.looking() else None
    st.html(style.state_sheet(frozen=behind is None and status.is_frozen(state), past=behind is not None))
    st.html(_strip(status.past_pill(behind, t) if behind else status.pill(state, t), frame, t(PICTURES[picture]), t))
    st.html(_tiles(frame, t))
    guarded(lambda: st.html(_caption(frame, t)), "caption")
    charts = large_specs(theme_name, language, frame.geometry)
    data = with_selection(frame, choice.chosen())
    if picture == "flow":
        queue, active = st.columns([1.0, 1.0], gap="large")
        now = frame.snapshot.step
        with queue:
            st.html(_line(queue_length(now, growth(frame.facts), t)))
            guarded(lambda: vega(charts["queue"], data["queue"], t("waiting queue")), "queue")
        with active:
            st.html(_line(t("{n} of {max} slots", n=len(now.running), max=now.policy.max_num_seqs)))
            guarded(lambda: vega(charts["running"], data["running"], t("running set")), "running")
    elif picture == "memory":
        theme = THEMES[theme_name]
        guarded(lambda: block_map(frame, charts["map"], data["map"], theme, MAP_HEIGHT, t), "map")
    elif picture == "lanes":
        near = {**data["time"], **recent_lanes(frame)}
        guarded(lambda: vega(charts["time"], near, t("iterations, token budget and time lines")), "time")
    else:
        guarded(lambda: st.html(comparison(frame, running.client.marks, t)), "comparison")


def _line(words: str) -> str:
    return f'<div class="bp-quiet">{esc(words)}</div>'


def _strip(pill: str, frame: Frame, title: str, t: Translate) -> str:
    step = frame.snapshot.step
    number = f'<span>{esc(t("iteration"))} <b id="bs-step">{step.step_id:,}</b></span>'
    version = f'<span id="bs-version" data-version="{step.policy.version}">{esc(_policy(step, t))}</span>'
    head = f'<h1 class="bp-title">{esc(title)}</h1>'
    return f'<div class="bp-strip" id="bs-strip">{pill}{number}{version}{head}</div>'


def _policy(step: StepSnapshot, t: Translate) -> str:
    policy = step.policy
    words = [policy.batching, policy.admission_order, policy.allocation]
    return f"{t('policy v{version}', version=policy.version)}: {' · '.join(words)}"


def _tiles(frame: Frame, t: Translate) -> str:
    f = frame.figures
    rate = "–" if f.tokens_per_s is None else f"{f.tokens_per_s:,.0f}"
    waited = "–" if f.ttft.p50 is None else f"{f.ttft.p50 / 1000:.2f} s"
    tiles = (
        (t("output tokens per second"), rate),
        (t("time to first token, median"), waited),
        (t("KV blocks in use"), f"{f.kv_usage:.0%}"),
    )
    parts = [f'<div class="bp-tile"><div>{esc(name)}</div><b>{esc(value)}</b></div>' for name, value in tiles]
    return f'<div class="bp-tiles">{"".join(parts)}</div>'


def _caption(frame: Frame, t: Translate) -> str:
    """What happened in the shown iteration, in two sentences; the room reads no list.

    A snapshot between two steps repeats the number of the last one and plans nothing: the kept one tells what it did.
    """
    steps = frame.recent or (frame.snapshot.step,)
    before = steps[1] if len(steps) > 1 and steps[1].step_id == steps[0].step_id - 1 else None
    told: Sequence[Sentence] = caption(narrate(steps[0], t, before))
    return f'<div class="bp-caption" role="status">{esc(" ".join(s.text for s in told), 240)}</div>'


def _last_x(frame: Frame) -> int:
    return frame.facts[-1].x if frame.facts else frame.snapshot.step.step_id


def recent_window(frame: Frame) -> tuple[int, int]:
    """The first of the last COLUMNS iterations on the axis, and the end of the axis."""
    end = ((_last_x(frame) + 1) // PAGE + 1) * PAGE
    return max(end - COLUMNS, frame.x0), end


@lru_cache(maxsize=4)
def recent_lanes(frame: Frame) -> Mapping[str, bytes]:
    """The tables of the lanes for the last COLUMNS iterations, which are few and wide enough for a room."""
    facts = frame.facts
    start, end = recent_window(frame)
    shown = [f for f in facts if f.x >= start]
    runs = lanes.lane_runs(shown, start)
    most = max([f.num_slots for f in shown] or [frame.snapshot.step.policy.max_num_seqs])
    num_lanes = lanes.num_lanes(runs, most)
    runs = [r for r in runs if r.y1 < num_lanes]
    return {
        "frame": lanes.frame_table(shown, start, end, num_lanes),
        "now": lanes.now_table(_last_x(frame) + 1),
        "runs": lanes.runs_table(runs),
        "points": lanes.points_table(shown, start),
        "labels": lanes.labels_table(runs, start, frame.starred, num_lanes),
        "series": lanes.series_table(shown, start),
        "ticks": lanes.ticks_table(shown, start, end),
        "chosen": lanes.runs_table([]),
        "veil": lanes.veil_table(on=False),
    }
