"""The lesson: the chapter's scenes on the live engine, a prediction before each, and what was measured after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from dashboard import engine
from dashboard.elements import trouble
from dashboard.engine import Engine
from dashboard.following import follow, is_current
from dashboard.i18n import Translate, translator
from dashboard.lesson import acts, lesson_style, view
from dashboard.lesson.scene import Scene
from dashboard.lesson.scenes import BY_NAME, SCENES, number_of
from dashboard.lesson.teacher import Lesson, scene_of
from dashboard.room import Room, RoomState
from dashboard.screens import lesson_parts as parts
from dashboard.views.markup import plain
from dashboard.visit import is_presenter, presenter_only, visit

TICK_S: Final = 0.25
AUDIENCE_TICK_S: Final = 1.0
CHOICE: Final = "lesson.scene"


def draw() -> None:
    """The list of scenes once; the scene then ticks by itself."""
    seen = visit()
    running, t = engine.shared(), seen.t
    st.html(lesson_style.sheet(seen.theme_name, is_room=seen.projector))
    now = scene_of(running.room.state.board.scene)
    st.session_state["lesson.drawn"] = (now.name, frozenset(running.teacher.state.results))
    with st.sidebar:
        if seen.presenter:
            _choose(running, now, t)
        else:
            st.html(view.contents(now, running.teacher.state, t))
    (presenter_lesson if seen.presenter else audience_lesson)(seen.language, seen.theme_name, seen.projector)


def _choose(running: Engine, now: Scene, t: Translate) -> None:
    control = follow(CHOICE, now.name)
    names = [scene.name for scene in SCENES]

    def words(name: str) -> str:
        return plain(f"{number_of(name)}. {t(BY_NAME[name].title)}")

    st.radio(
        t("Scenes"),
        names,
        index=names.index(control.start),
        key=control.key,
        format_func=words,
        help=t("What you choose is shown to everybody who looks."),
        on_change=_chosen,
        args=(running.room, control.key),
    )
    done = [str(number_of(name)) for name in BY_NAME if name in running.teacher.state.results]
    if done:
        st.caption(t("Measured in this session: {scenes}", scenes=", ".join(done)))


@presenter_only
def _chosen(room: Room, key: str) -> None:
    name = st.session_state[key]
    # A browser that still shows another language sends a label that is none of ours any more: no choice.
    if is_current(CHOICE, key) and name in BY_NAME:
        acts.show(room, name)


@st.fragment(run_every=TICK_S, key="lesson")
def presenter_lesson(language: str, theme_name: str, is_room: bool) -> None:
    """One tick for the presenter."""
    _tick(language, theme_name, presenter=True, is_room=is_room)


@st.fragment(run_every=AUDIENCE_TICK_S, key="lesson.watch")
def audience_lesson(language: str, theme_name: str, is_room: bool) -> None:
    """One tick for everybody else."""
    _tick(language, theme_name, presenter=False, is_room=is_room)


def _tick(language: str, theme_name: str, *, presenter: bool, is_room: bool) -> None:
    """What is before a picture must stay there all the time, for a picture is made anew where it moves to."""
    running, t = engine.shared(), translator(language)
    state, lesson = running.room.state, running.teacher.state
    scene = scene_of(state.board.scene)
    drawn = (scene.name, frozenset(lesson.results))
    if presenter != is_presenter() or st.session_state.get("lesson.drawn") != drawn:
        st.rerun()
    revealed = acts.is_revealed(scene, state)
    frame = running.hub.frame()
    st.html(view.head(scene, t, has_look=not (is_room and revealed)))
    if presenter:
        _buttons(running, scene, state, lesson, t)
    st.html(view.status(scene, lesson, t))
    trouble(running.client.state, t, has_controls=presenter)
    left, right = st.columns([1.55, 1.0])
    with right:
        sees_counts = not presenter and state.shows_counts
        parts.question(running.room, scene, state, t, sees_counts=sees_counts, is_room=is_room)
        if not is_room:
            parts.bars(scene, state, lesson, theme_name, t)
    with left:
        parts.outcome(scene, state, lesson, t)
        if not (is_room and revealed):
            parts.pictures(frame, scene, running.client.marks, (language, theme_name), t, is_room=is_room)
    st.html(view.foot(scene, lesson, revealed, t))


def _buttons(running: Engine, scene: Scene, state: RoomState, lesson: Lesson, t: Translate) -> None:
    """In the order in which a scene is taught; the next one to press stands out."""
    room = running.room
    asked = state.question_id == scene.name and state.phase != "none"
    is_open = asked and state.phase == "open"
    ready = scene.name in lesson.results or not scene.runs
    revealed = acts.is_revealed(scene, state)
    to_do = acts.next_act(scene, state, lesson)
    places = st.columns([0.75, 1.0, 1.65, 0.8, 1.05, 1.9])
    made: tuple[tuple[str, str, Callable[..., None], tuple[Any, ...], bool, str], ...] = (
        ("ask", t("Ask"), _ask, (room, scene.name), lesson.is_running,
         t("The room votes with a click. Votes so far are forgotten.")),
        ("close", t("Close vote"), _close, (room,), not is_open, t("No more votes are taken.")),
        ("start", t("Close vote and start") if is_open else t("Start scene"), _start, (running, scene.name),
         lesson.is_running or not scene.runs,
         t("Stops arrivals, waits until the engine is empty, then runs the same requests under A and under B. A vote "
           "that is open is closed.")),
        ("reveal", t("Reveal"), _reveal, (running, scene.name), revealed or not ready,
         t("Shows the votes and what was measured to everybody.")),
        ("next", t("Next scene"), _next, (room, scene.name), lesson.is_running or number_of(scene.name) == len(SCENES),
         t("Goes on to the next scene for everybody.")),
    )  # fmt: skip
    for place, (key, label, act, args, disabled, help_text) in zip(places, made, strict=False):
        place.button(
            label, key=f"lesson.{key}", on_click=act, args=args, disabled=disabled, help=help_text, width="stretch",
            type="primary" if key == to_do else "secondary",
        )  # fmt: skip
    if lesson.is_running:
        places[-1].button(t("Break off"), key="lesson.cancel", on_click=_cancel, args=(running,), width="stretch",
                          help=t("Ends the scene's requests and gives your settings back."))  # fmt: skip
    else:
        places[-1].button(
            t("Give back my settings"), key="lesson.give_back", on_click=_give_back, args=(running,),
            disabled=not lesson.keeps_settings, width="stretch",
            help=t("Policy and arrivals as they were before the first scene. Until then nothing new arrives."),
        )  # fmt: skip
    problem = st.session_state.get("lesson.problem", "")
    if problem:
        st.warning(plain(t(problem)))


@presenter_only
def _ask(room: Room, name: str) -> None:
    acts.ask(room, name)


@presenter_only
def _close(room: Room) -> None:
    room.close()


@presenter_only
def _start(running: Engine, name: str) -> None:
    acts.show(running.room, name)
    running.room.close()
    running.teacher.start(name, running.client, running.desk)


@presenter_only
def _reveal(running: Engine, name: str) -> None:
    acts.reveal(running.room, name, running.teacher.state)


@presenter_only
def _next(room: Room, name: str) -> None:
    acts.go_on(room, name)


@presenter_only
def _cancel(running: Engine) -> None:
    running.teacher.cancel()


@presenter_only
def _give_back(running: Engine) -> None:
    given = running.teacher.give_back(running.client, running.desk)
    st.session_state["lesson.problem"] = "" if given else acts.NOT_GIVEN_BACK
