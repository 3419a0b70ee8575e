"""The presenter's page for the room: the way in, the question that is on, its votes, and a question of one's own."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import addresses, engine
from dashboard.door import is_local
from dashboard.elements import trouble
from dashboard.i18n import Translate, translator
from dashboard.room import MAX_CHOICES, MIN_CHOICES, Room
from dashboard.views import room as views
from dashboard.views.markup import esc, plain
from dashboard.visit import is_presenter, presenter_only, visit

TICK_S: Final = 1.0
MAX_QUESTION: Final = 300
MAX_ANSWERS: Final = 1000


def draw() -> None:
    """The invitation once; what the room does ticks."""
    seen = visit()
    t = seen.t
    address = room_address()
    if address:
        st.html(views.invitation(address, t))
    else:
        st.info(t("Only this machine can open the page. To let the room in, start with: make run HOST=0.0.0.0"))
    room_live(seen.language)
    _own_question(engine.shared().room, t)


def room_address() -> str:
    """Where the room finds the page: as the presenter opened it, else as this machine is reached; "" = nowhere."""
    bound, port = st.get_option("server.address"), int(st.get_option("server.port"))
    hosts = addresses.own_hosts(bound)
    opened = st.context.headers.get("host", "")
    name = opened.rpartition(":")[0] or opened
    if hosts and opened and not is_local(name):
        return f"http://{opened}"
    return addresses.url(hosts[0], port) if hosts else ""


@st.fragment(run_every=TICK_S, key="room")
def room_live(language: str) -> None:
    """Who is here, the present question and its votes, and what to do with it."""
    if not is_presenter():
        st.rerun()
    running, t = engine.shared(), translator(language)
    room = running.room
    trouble(running.client.state, t)
    state = room.state
    counted = t("Open pages of the audience: {pages}. Votes: {votes}.", pages=state.num_here, votes=state.num_votes)
    st.html(f'<p id="bs-here">{esc(counted)}</p>{views.question(state, t)}')
    st.html(views.bars(state, state.counts, t) if state.choices else views.EMPTY)
    asked, is_open = state.phase != "none", state.phase == "open"
    show, close, reveal, clear = st.columns(4, vertical_alignment="center")
    show.toggle(
        t("Show the votes while they come in"), value=state.shows_counts, key=f"room.shows.{state.round}",
        on_change=_show_counts, args=(room, f"room.shows.{state.round}"), disabled=not asked,
        help=t("Otherwise the room sees the votes when you reveal them."),
    )  # fmt: skip
    close.button(
        t("Close the vote"), key="room.close", on_click=_close, args=(room,), disabled=not is_open, width="stretch",
        help=t("No more votes are taken, and none can be changed."),
    )  # fmt: skip
    reveal.button(
        t("Show the result"), key="room.reveal", on_click=_reveal, args=(room,), width="stretch",
        disabled=not asked or state.phase == "revealed", help=t("Closes the vote and shows it to everybody."),
    )  # fmt: skip
    clear.button(
        t("Take the question away"), key="room.clear", on_click=_clear, args=(room,), disabled=not asked,
        width="stretch", help=t("The question and its votes are forgotten."),
    )  # fmt: skip


def _own_question(room: Room, t: Translate) -> None:
    with st.form("room.ask", border=True):
        asked = st.text_input(
            t("A question of your own"), key="room.question", max_chars=MAX_QUESTION,
            help=t("It is shown to the room as you write it."),
        )  # fmt: skip
        answers = st.text_area(
            t("Choices, one a line"), key="room.choices", max_chars=MAX_ANSWERS, height=120,
            help=t("{min} to {max} of them.", min=MIN_CHOICES, max=MAX_CHOICES),
        )  # fmt: skip
        sent = st.form_submit_button(
            t("Ask the room"),
            type="primary",
            help=t("Puts it on every page at once, in place of the one before."),
        )
    if sent:
        _ask(room, asked.strip(), [line.strip() for line in answers.splitlines() if line.strip()], t)


@presenter_only
def _ask(room: Room, asked: str, choices: list[str], t: Translate) -> None:
    if not asked:
        st.warning(t("Write a question first."))
    elif not MIN_CHOICES <= len(choices) <= MAX_CHOICES:
        wanted = t(
            "{n} choices are there; {min} to {max} are needed.", n=len(choices), min=MIN_CHOICES, max=MAX_CHOICES
        )
        st.warning(plain(wanted))
    else:
        room.ask("own", choices, asked)
        st.rerun()


@presenter_only
def _show_counts(room: Room, key: str) -> None:
    room.show_counts(bool(st.session_state[key]))


@presenter_only
def _close(room: Room) -> None:
    room.close()


@presenter_only
def _reveal(room: Room) -> None:
    room.reveal()


@presenter_only
def _clear(room: Room) -> None:
    room.clear()
