"""The page: sidebar of controls, and one fragment that ticks four times a second."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import engine, style
from dashboard.controls import sidebar
from dashboard.i18n import LANGUAGES, language_of, translator
from dashboard.live import live
from dashboard.settings import SettingsError
from dashboard.views.markup import plain
from scheduler import custom

SIDEBAR_PX: Final = 300


def choose_language() -> str:
    """The language in force: chosen on the page, else asked for in the address, else the browser's."""
    if "language" not in st.session_state:
        st.session_state["language"] = language_of(st.query_params.get("lang") or st.context.locale)
    chosen = st.session_state["language"]
    return chosen if chosen in LANGUAGES else "en"


def theme_name() -> str:
    """ "dark" or "light", as the browser shows it."""
    kind = st.context.theme.type
    return kind if kind in ("dark", "light") else "dark"


def page() -> None:
    """Draw everything once; the live part then ticks by itself."""
    st.set_page_config(page_title="Batchscope", page_icon="▦", layout="wide", initial_sidebar_state=SIDEBAR_PX)
    language = choose_language()
    t = translator(language)
    st.html(style.sheet(theme_name()))
    custom.load_from_environment()  # again after an edit of our sources, which Streamlit re-imports
    try:
        running = engine.shared()
    except SettingsError as error:
        st.error(t("The engine was not started: {reason}", reason=plain(str(error))))
        return
    with st.sidebar:
        st.segmented_control(
            t("Language"),
            list(LANGUAGES),
            key="language",
            format_func=lambda code: LANGUAGES[code],
            label_visibility="collapsed",
            required=True,
            width="stretch",
        )
        for fault in custom.faults():
            st.warning(t("A policy was left out: {file}: {reason}", file=plain(fault.file), reason=plain(fault.reason)))
        sidebar(running.desk, t)
    live(language, theme_name())


if __name__ == "__main__":
    page()
