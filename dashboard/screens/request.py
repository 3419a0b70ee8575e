"""One request: its life on a line, who took its time, each gap between its tokens, its text."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import choice, engine, location
from dashboard.charts.specs import life_spec
from dashboard.charts.theme import THEMES
from dashboard.elements import guarded, title, trouble, vega
from dashboard.hub import Frame, Hub
from dashboard.i18n import N_, Translate, translator
from dashboard.identity import NO_MARK
from dashboard.life_tables import WHOLE, WINDOWS, life_data
from dashboard.moment import REQUEST
from dashboard.save_panel import save_life
from dashboard.views import life as views
from dashboard.views.markup import esc, scroll
from dashboard.visit import is_presenter, visit
from model_runner.client import RunnerClient
from model_runner.views import RequestView
from scheduler.blame_life import Life

TICK_S: Final = 0.5
MAX_KNOWN: Final = 1_000
GAPS_HEIGHT: Final = 262
BOX_HEIGHT: Final = 284
PROPOSED: Final = "request.proposed"
"""Who is shown before anybody has chosen one."""
BARE: Final = "request.bare"
"""Whether somebody went back to an address of this page that names no request."""
EMPTY: Final = N_("Choose a request above: its whole life shows here. Requests that ended are kept for a while.")


def draw() -> None:
    """The chosen request, anew in every tick."""
    seen = visit()
    _obey()
    one_request(seen.language, seen.theme_name, seen.projector)
    if not seen.projector:
        save_life(engine.shared().hub, _shown(), seen.t)


def _obey() -> None:
    """Choose what a button or the address asks for. What this page has proposed by itself is no choice, though the
    address holds it: nobody wants all others dimmed on the live page for having looked here."""
    wanted, asked = st.session_state.pop("request.wanted", ""), location.field(REQUEST)
    proposed = asked == st.session_state.get(PROPOSED, "")
    if location.is_navigation():
        choice.choose("" if proposed else asked)
        st.session_state[BARE] = not asked
    elif wanted or (not choice.chosen() and not proposed):
        choice.choose(wanted or asked)


def named() -> str:
    """Whose life the page shows, or would show."""
    hub = engine.shared().hub
    return choice.chosen() or _of_interest(hub, hub.frame())


@st.fragment(run_every=TICK_S, key="request")
def one_request(language: str, theme_name: str, is_room: bool) -> None:
    """One tick. is_room: for projector mode."""
    running, t, theme = engine.shared(), translator(language), THEMES[theme_name]
    client, hub = running.client, running.hub
    frame = hub.frame()
    window = _choose(client, hub, t)
    chosen = named()
    _keep_address(chosen)
    trouble(client.state, t, has_controls=is_presenter())
    _shown()["id"] = chosen
    view = client.request(chosen) if chosen else None
    life = hub.lives.life(chosen) if chosen else None
    if view is None and life is None:
        words = t("No request named {id} is known here.", id=chosen) if chosen else t(EMPTY)
        st.html(f'<p class="bs-quiet">{esc(words, 300)}</p>')
        return
    mark = frame.marks.get(chosen, NO_MARK) if frame else NO_MARK
    guarded(lambda: st.html(views.head(view, life, mark, theme, t) + views.tiles(life, t, is_room=is_room)), "head")
    key = t(views.KEY_ROOM if is_room else views.KEY)
    guarded(lambda: st.html(title(t("Life and blame"), key)), "title")
    if life is not None:
        alt = t("life of {id}: what it did, and who took its time", id=chosen)
        guarded(lambda: vega(life_spec(theme_name, language), life_data(life, window), alt), "life")
    if is_room:
        _below_room(view, life, t)
    else:
        _below(view, life, t)


def _keep_address(shown: str) -> None:
    """Let the address name who is shown, chosen or not, so that a link shows the same. Only where somebody went back to
    an address without a name it stays: one put there would be a new entry of the browser's history, and nobody could go
    further back."""
    if choice.chosen() or not st.session_state.get(BARE):
        st.session_state[BARE] = False
        location.write(**{REQUEST: shown})


def _of_interest(hub: Hub, frame: Frame | None) -> str:
    """Whose life shows before anybody has chosen one: of those that run, the one that was evicted most often, else that
    with the most output; without any, the newest that is known. It stays until it is forgotten."""
    last = st.session_state.get(PROPOSED, "")
    if last and hub.lives.life(last) is not None:
        return str(last)
    rows = [row for row in frame.snapshot.step.running if hub.lives.life(row.request_id)] if frame else []
    best = max(rows, key=lambda row: (row.num_preemptions, row.num_output_tokens), default=None)
    found = best.request_id if best is not None else next(iter(hub.lives.ids()), "")
    st.session_state[PROPOSED] = found
    return found


def _shown() -> dict[str, str]:
    """The chosen id where a download finds it, which runs on a thread without a page."""
    held: dict[str, str] = st.session_state.setdefault("request.shown", {})
    return held


def _choose(client: RunnerClient, hub: Hub, t: Translate) -> str:
    """The controls: which request, and which part of its life; returns the part."""
    known = list(dict.fromkeys([v.request_id for v in reversed(client.requests())] + hub.lives.ids()))[:MAX_KNOWN]
    pick, part = st.columns([2, 1.2], vertical_alignment="center")
    with pick:
        choice.listed(
            t("Request"), known, label_visibility="collapsed",
            placeholder=t("Choose a request, or type its id (newest first)"),
            help=t("All requests that are kept, the newest first, those that ended too."),
        )  # fmt: skip
    with part:
        window = st.segmented_control(
            t("Part of its life"), list(WINDOWS), key="request.window", default=WHOLE, required=True,
            format_func=lambda name: t(WINDOWS[name]), label_visibility="collapsed", width="stretch",
            help=t("What the time axis shows."),
        )  # fmt: skip
    return window or WHOLE


def _below(view: RequestView | None, life: Life | None, t: Translate) -> None:
    sums, spaces = st.columns([1.0, 2.9])
    with sums:
        guarded(lambda: st.html(scroll(views.totals(life, t), BOX_HEIGHT)), "totals")
    with spaces:
        more = t("the longest first; a click on a head sorts")
        guarded(lambda: st.html(title(t("Gaps between tokens"), more)), "gaps title")
        guarded(lambda: _gaps(life, t), "gaps")
    guarded(lambda: st.html(views.text(view, t)), "text")


def _below_room(view: RequestView | None, life: Life | None, t: Translate) -> None:
    """The longest gaps first, whose reasons are what a room is shown; no table to sort."""
    guarded(lambda: st.html(views.longest(life, t)), "gaps")
    guarded(lambda: st.html(views.totals(life, t)), "totals")
    guarded(lambda: st.html(views.text(view, t)), "text")


def _gaps(life: Life | None, t: Translate) -> None:
    number = st.column_config.NumberColumn
    st.dataframe(
        views.gaps(life, t),
        key="gaps",
        hide_index=True,
        placeholder="–",
        height=GAPS_HEIGHT,
        column_config={
            t("token"): number(width=55, help=t("1 = the first; empty = after the last, until the end")),
            t("iteration"): number(width=70),
            t("ms"): number(format="%.2f", width=75),
            t("own work"): number(format="%.0f %%", width=75, help=t("share of the gap spent on its own tokens")),
            t("who was in the way"): st.column_config.TextColumn(width="large"),
        },
    )
