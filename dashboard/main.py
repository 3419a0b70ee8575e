"""What all pages share: the look, the engine, the language, and the way from one page to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import streamlit as st

from dashboard import engine, style
from dashboard.i18n import LANGUAGES, N_, Translate
from dashboard.pages import live
from dashboard.settings import SettingsError
from dashboard.views.markup import plain
from dashboard.visit import VIEW, visit
from scheduler import custom

SIDEBAR_PX: Final = 300


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its title in English, and what draws it, sidebar included."""

    title: str
    draw: Callable[[], None]


PAGES: Final[Mapping[str, Page]] = {"live": Page(N_("Live"), live.draw)}
"""By the name in the address (``?view=``); the first is shown where the address names none of them.

Streamlit's own navigation is not used: a widget that all pages share forgets its value there in every other run.
"""


def page() -> None:
    """Draw what is shared, then the page that was asked for."""
    st.set_page_config(page_title="Batchscope", page_icon="▦", layout="wide", initial_sidebar_state=SIDEBAR_PX)
    seen = visit(tuple(PAGES))
    t = seen.t
    st.html(style.sheet(seen.theme_name))
    custom.load_from_environment()  # again after an edit of our sources, which Streamlit re-imports
    try:
        engine.shared()
    except SettingsError as error:
        st.error(t("The engine was not started: {reason}", reason=plain(str(error))))
        return
    with st.sidebar:
        _shared_sidebar(t)
    PAGES[seen.view].draw()


def _shared_sidebar(t: Translate) -> None:
    if len(PAGES) > 1:
        st.segmented_control(
            t("Page"),
            list(PAGES),
            key=VIEW,
            format_func=lambda name: t(PAGES[name].title),
            label_visibility="collapsed",
            required=True,
            width="stretch",
            on_change=_into_the_address,
        )
    st.segmented_control(
        t("Language"),
        list(LANGUAGES),
        key="language",
        format_func=lambda code: LANGUAGES[code],
        label_visibility="collapsed",
        required=True,
        width="stretch",
    )


def _into_the_address() -> None:
    st.query_params[VIEW] = st.session_state[VIEW]


if __name__ == "__main__":
    page()
