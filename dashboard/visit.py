"""Who looks, and how: what every page needs before it draws anything."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Final, ParamSpec

import streamlit as st

from dashboard import engine, location
from dashboard.i18n import LANGUAGES, Translate, language_of, translator
from dashboard.settings import SettingsError

P = ParamSpec("P")

TICKET: Final = "presenter"
SEAT: Final = "seat"
"""Kinds of cookies."""

LANGUAGE: Final = "lang"
"""Name of the chosen language in the address, so that a reload and a copied link keep it."""

VIEW: Final = "view"
"""Name of the page in the address, and key of the control that chooses it."""

PROJECTOR: Final = "projector"
"""Name in the address (``?projector=1``), and key of what is remembered after that."""
PROJECTOR_THEME: Final = "projector.theme"


@dataclass(frozen=True, slots=True)
class Visit:
    """One browser's view of the page. language: key of LANGUAGES; theme_name: "dark" or "light", as it is shown.

    view: name of the page it is on, "" when that was not asked for. projector: for a room, with a theme of its own.
    presenter: has the controls; everybody has where no token is asked for.
    """

    language: str
    theme_name: str
    view: str = ""
    presenter: bool = True
    projector: bool = False

    @property
    def t(self) -> Translate:
        """The translator into this language."""
        return translator(self.language)


def visit(views: Sequence[str] = ()) -> Visit:
    """The present one. Language: chosen on the page, else asked for in the address, else the browser's.

    views: names of the pages, the default one first.
    """
    if "language" not in st.session_state:
        st.session_state["language"] = language_of(location.field(LANGUAGE) or st.context.locale)
    if views and (st.session_state.get(VIEW) not in views or location.is_navigation()):
        asked = location.field(VIEW)
        st.session_state[VIEW] = asked if asked in views else views[0]
    chosen = st.session_state["language"]
    projector = _is_projected()
    kind = (st.session_state.get(PROJECTOR_THEME) if projector else None) or st.context.theme.type
    return Visit(
        language=chosen if chosen in LANGUAGES else "en",
        theme_name=kind if kind in ("dark", "light") else "dark",
        view=st.session_state[VIEW] if views else "",
        presenter=is_presenter(),
        projector=projector,
    )


def _is_projected() -> bool:
    if PROJECTOR not in st.session_state:
        st.session_state[PROJECTOR] = location.field(PROJECTOR) == "1"
    return bool(st.session_state[PROJECTOR])


def cookie_name(kind: str, host: str) -> str:
    """Browsers keep cookies by name and machine, whatever the port: two dashboards must not take each other's.

    host: the Host header, "name:port".
    """
    port = re.search(r":(\d{1,5})$", host)
    return f"batchscope_{kind}_{port.group(1) if port else 'web'}"


def _cookie(kind: str) -> str | None:
    return st.context.cookies.get(cookie_name(kind, st.context.headers.get("host", "")))


def is_presenter() -> bool:
    """Whether the browser whose page runs now may act. Asked again by every callback: what is drawn proves nothing."""
    try:
        door = engine.shared().door
    except SettingsError:  # told by the page; without an engine there is nothing to control
        return False
    return door.is_open or door.admits(_cookie(TICKET))


def presenter_only(act: Callable[P, None]) -> Callable[P, None]:
    """A callback that does nothing for the audience: a message forged by a browser must not reach the engine."""

    @wraps(act)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        if is_presenter():
            act(*args, **kwargs)

    return guarded


def voter() -> str:
    """What tells this browser from the others: a random cookie that outlives reloads, else the present session's id.

    It is no proof of a person: a second browser, a private window or cleared cookies vote again.
    """
    seat = _cookie(SEAT)
    if seat and re.fullmatch(r"[\w-]{8,64}", seat):
        return seat
    return str(st.session_state.setdefault("seat", secrets.token_urlsafe(12)))
