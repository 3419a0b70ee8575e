"""What the audience sees: what the presenter has put on, the question with its buttons, and the live page below."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import engine
from dashboard.elements import guarded
from dashboard.i18n import N_, Translate, translator
from dashboard.live import pictures, places, words
from dashboard.room import Outcome, Room, RoomState
from dashboard.views import room as views
from dashboard.views.markup import plain
from dashboard.visit import is_presenter, voter

TICK_S: Final = 1.0
"""Nobody's hand waits for a page without controls, and there may be many of them."""

SAID: Final[dict[Outcome, str]] = {
    "taken": N_("Your vote is counted. You can change it until the vote is closed."),
    "changed": N_("Your vote is changed."),
    "not_open": N_("The vote was closed before yours came in."),
    "other_question": N_("A new question had come up; please choose again."),
    "no_such_choice": N_("A new question had come up; please choose again."),
    "full": N_("No more votes can be counted."),
}


@st.fragment(run_every=TICK_S, key="watch")
def audience(language: str, theme_name: str) -> None:
    """One tick."""
    if is_presenter():
        st.rerun()
    room, t, me = engine.shared().room, translator(language), voter()
    room.here(me)
    state = room.state
    guarded(lambda: st.html(views.board(state, t)), "board")
    guarded(lambda: question(room, state, me, t), "question")
    parts = places(has_controls=False)
    pictures(language, theme_name, parts, has_controls=False)
    words(language, theme_name, parts, has_controls=False)


def question(room: Room, state: RoomState, me: str, t: Translate) -> None:
    """The question, a button a choice, and what came out. Always the same three elements."""
    st.html(views.question(state, t))
    with st.container(key="bs-vote"):
        mine = room.choice_of(me)
        for i, choice in enumerate(state.choices if state.phase in ("open", "closed") else ()):
            st.button(
                ("✓ " if i == mine else "") + plain(choice.told(t)),
                key=f"vote.{state.round}.{i}",
                on_click=_vote,
                args=(room, i, state.round),
                type="primary" if i == mine else "secondary",
                disabled=state.phase != "open",
                width="stretch",
                help=t("One vote a browser. You can change it until the vote is closed."),
            )
    asked_round, said = st.session_state.get("vote.said", (0, ""))
    words = t(said) if said and asked_round == state.round and state.phase == "open" else ""
    st.html(views.result(state, words, t))


def _vote(room: Room, choice: int, asked_round: int) -> None:
    outcome = room.vote(voter(), choice, asked_round)
    st.session_state["vote.said"] = (room.state.round, SAID[outcome])
