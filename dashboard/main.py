"""What all pages share: the look, the engine, the language, and the way from one page to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import streamlit as st

from dashboard import choice, engine, location, projector, style
from dashboard.following import follow, is_current
from dashboard.i18n import LANGUAGES, N_, Translate
from dashboard.keys import keys
from dashboard.moment import REQUEST
from dashboard.projector_style import projector_sheet, reading_sheet
from dashboard.screens import experiments, lesson, live, numbers, request, room
from dashboard.settings import SettingsError
from dashboard.views.markup import esc, plain
from dashboard.visit import LANGUAGE, VIEW, is_presenter, visit
from scheduler import custom

SIDEBAR_PX: Final = 300
PAGE: Final = "page"
"""Name of the control that goes from one page to another."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its title in English, and what draws it, sidebar included. for_audience: not for the presenter only."""

    title: str
    draw: Callable[[], None]
    for_audience: bool = True


PAGES: Final[Mapping[str, Page]] = {
    "live": Page(N_("Live"), live.draw),
    "request": Page(N_("One request"), request.draw),
    "numbers": Page(N_("Numbers"), numbers.draw),
    "experiments": Page(N_("Experiments"), experiments.draw),
    "lesson": Page(N_("Lesson"), lesson.draw),
    "room": Page(N_("Room"), room.draw, for_audience=False),
}
"""By the name in the address (``?view=``); the first is shown where the address names none of them.

Streamlit's own navigation is not used: a widget that all pages share forgets its value there in every other run.
"""
READ_DOWN: Final = frozenset({"request", "numbers", "experiments"})
"""Pages without a look of their own in projector mode."""


def page() -> None:
    """Draw what is shared, then the page that was asked for."""
    presenter = is_presenter()
    st.set_page_config(
        page_title="Batchscope",
        page_icon="▦",
        layout="wide",
        initial_sidebar_state=SIDEBAR_PX if presenter else "auto",  # on a phone it would cover the page
    )
    names = tuple(name for name, page in PAGES.items() if presenter or page.for_audience)
    seen = visit(names)
    t = seen.t
    st.html(style.sheet(seen.theme_name))
    custom.load_from_environment()  # again after an edit of our sources, which Streamlit re-imports
    try:
        engine.shared()
    except SettingsError as error:
        st.error(t("The engine was not started: {reason}", reason=plain(str(error))))
        return
    asked = location.field(VIEW)
    if asked and asked not in names:
        known = ", ".join(names)
        st.warning(
            plain(t("?view={value}: there is no such page here; there are {names}.", value=asked[:40], names=known))
        )
    with st.sidebar:
        _shared_sidebar(names, seen.view, t)
        if not engine.shared().door.is_open:
            _role(presenter, t)
    if seen.projector and seen.view == "live":
        live.draw_sidebar(seen)
        projector.draw(seen)
    else:
        if seen.projector:
            sheets = projector_sheet(seen.theme_name)
            st.html(sheets + reading_sheet(seen.theme_name) if seen.view in READ_DOWN else sheets)
        PAGES[seen.view].draw()
    keys(seen)


def _shared_sidebar(names: tuple[str, ...], view: str, t: Translate) -> None:
    if len(names) > 1:
        control = follow(PAGE, view)
        st.segmented_control(
            t("Page"),
            list(names),
            key=control.key,
            default=control.among(names, view),
            format_func=lambda name: t(PAGES[name].title),
            label_visibility="collapsed",
            required=True,
            width="stretch",
            on_change=_go,
            args=(control.key,),
            help=t("What is shown. The engine goes on whatever you look at."),
        )
    st.segmented_control(
        t("Language"),
        list(LANGUAGES),
        key="language",
        format_func=lambda code: LANGUAGES[code],
        label_visibility="collapsed",
        required=True,
        width="stretch",
        on_change=_language_into_the_address,
        help=t("The language of this browser's page; others keep theirs."),
    )


def _role(presenter: bool, t: Translate) -> None:
    """Which of the two this browser is, and the way to the other."""
    words = t("You are the presenter.") if presenter else t("You are in the audience: you see everything and can vote.")
    way = t("Be audience again") if presenter else t("I am the presenter")
    st.html(f'<p class="bs-quiet" id="bs-role">{esc(words)} <a href="./presenter" target="_self">{esc(way)}</a></p>')


def _go(key: str) -> None:
    """Obey the control, unless the page has gone elsewhere since that control was drawn. A request that nobody chose is
    named in the address of its own page only."""
    if is_current(PAGE, key):
        st.session_state[VIEW] = view = st.session_state[key]
        location.write(**{VIEW: view, REQUEST: request.named() if view == "request" else choice.chosen()})


def _language_into_the_address() -> None:
    location.write(**{LANGUAGE: st.session_state["language"]})


if __name__ == "__main__":
    page()
