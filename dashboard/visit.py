"""Who looks, and how: what every page needs before it draws anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import streamlit as st

from dashboard.i18n import LANGUAGES, Translate, language_of, translator

VIEW: Final = "view"
"""Name of the page in the address, and key of the control that chooses it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One browser's view of the page. language: key of LANGUAGES; theme_name: "dark" or "light", as it is shown.

    view: name of the page it is on, "" when that was not asked for.
    """

    language: str
    theme_name: str
    view: str = ""

    @property
    def t(self) -> Translate:
        """The translator into this language."""
        return translator(self.language)


def visit(views: Sequence[str] = ()) -> Visit:
    """The present one. Language: chosen on the page, else asked for in the address, else the browser's.

    views: names of the pages, the default one first.
    """
    if "language" not in st.session_state:
        st.session_state["language"] = language_of(st.query_params.get("lang") or st.context.locale)
    if views and st.session_state.get(VIEW) not in views:
        asked = st.query_params.get(VIEW, "")
        st.session_state[VIEW] = asked if asked in views else views[0]
    chosen = st.session_state["language"]
    kind = st.context.theme.type
    return Visit(
        language=chosen if chosen in LANGUAGES else "en",
        theme_name=kind if kind in ("dark", "light") else "dark",
        view=st.session_state[VIEW] if views else "",
    )
