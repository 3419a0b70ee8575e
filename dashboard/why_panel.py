"""The tab of reasons, and the way to the page of the highlighted request."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import choice, location
from dashboard.charts.theme import Theme
from dashboard.hub import Frame
from dashboard.i18n import Translate
from dashboard.moment import REQUEST
from dashboard.views.markup import plain, scroll
from dashboard.views.why import why
from dashboard.visit import VIEW

WHY_HEIGHT: Final = 336
_GO: Final = "request.go"


def why_panel(frame: Frame, theme: Theme, t: Translate) -> None:
    """The reasons of the step that is shown; while the engine is held or idle, of the last that ran."""
    chosen = choice.chosen()
    st.button(
        t("Open the page of {id}", id=plain(chosen)) if chosen else t("Open its page"), key="request.open",
        on_click=_ask, args=(chosen,), disabled=not chosen, width="stretch",
        help=t("Highlight a request first: its own page shows its whole life and who took its time."),
    )  # fmt: skip
    if st.session_state.pop(_GO, False):
        st.rerun()
    reasons = why(frame.snapshot.step, frame.marks, chosen, theme, t, frame.ran)
    st.html(scroll(reasons, WHY_HEIGHT, grows=True))


def _ask(request_id: str) -> None:
    """Go there with the next run of the whole page: what a tick draws is only a part of it."""
    st.session_state[VIEW] = "request"
    location.write(**{VIEW: "request", REQUEST: request_id})
    st.session_state["request.wanted"] = request_id
    st.session_state[_GO] = True
