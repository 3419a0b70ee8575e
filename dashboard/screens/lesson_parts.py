"""What a scene of the lesson is made of: the question with its votes, the live pictures, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from dashboard.charts.theme import THEMES
from dashboard.dense_map import block_map
from dashboard.elements import guarded, vega
from dashboard.hub import Frame, with_selection
from dashboard.i18n import Translate
from dashboard.lesson import acts, view
from dashboard.lesson.pictures import map_spec, panels, panels_data, shown_charts, sides_spec, sides_table
from dashboard.lesson.scene import Scene
from dashboard.lesson.teacher import Lesson
from dashboard.room import Room, RoomState
from dashboard.views import memory_account, step
from dashboard.views.markup import esc
from dashboard.visit import voter
from model_runner.views import Mark

MAP_HEIGHT: Final = 260
MAP_HEIGHT_ROOM: Final = 420
NOTHING: Final = "<span></span>"
"""An element that shows nothing and keeps the places of those after it."""


def question(room: Room, scene: Scene, state: RoomState, t: Translate, *, sees_counts: bool, is_room: bool) -> None:
    """The vote as it stands; a button a choice while it is open, for the presenter too, who may vote alone.

    is_room: for projector mode, which has no place for buttons that nobody can press.
    """
    st.html(view.sides(scene, t))
    st.html(view.votes(scene, state, sees_counts, t))
    is_open = state.question_id == scene.name and state.phase == "open"
    if is_room and not is_open:
        return
    mine = room.choice_of(voter()) if is_open else None
    places = st.columns(len(scene.choices))
    for i, place in enumerate(places):
        place.button(
            t("Vote {letter}", letter=f"{'abcdefgh'[i]})"),
            key=f"lesson.vote.{i}", on_click=_vote, args=(room, i, state.round), disabled=not is_open,
            type="primary" if i == mine else "secondary", width="stretch",
        )  # fmt: skip


def _vote(room: Room, choice: int, asked_round: int) -> None:
    room.vote(voter(), choice, asked_round)


def pictures(
    frame: Frame | None, scene: Scene, marks: Sequence[Mark], look: tuple[str, str], t: Translate, *, is_room: bool
) -> None:
    """The live charts that matter in this scene, from the same data as the live page's. marks: of policy changes. look:
    language and theme."""
    if frame is None or not scene.runs:
        st.html(NOTHING)
        return
    language, theme_name = look
    data, wanted = with_selection(frame, ""), shown_charts(scene, is_room=is_room)
    if "dictionary" in wanted:
        st.html(step.decision(frame.snapshot, frame.marks, THEMES[theme_name], t, frame.ran))
    drawn = panels(theme_name, language, wanted, is_room=is_room)
    if drawn is not None:
        near = panels_data(drawn, frame, data["time"], marks, is_room=is_room)
        guarded(lambda: vega(drawn.spec, near, t("lanes and what belongs to the scene")), "time")
    if "map" in wanted:
        st.html(memory_account.account_line(frame.snapshot.step, frame.geometry, t))
        spec = map_spec(theme_name, language, frame.geometry, is_room=is_room)
        height = MAP_HEIGHT_ROOM if is_room else MAP_HEIGHT
        guarded(lambda: block_map(frame, spec, data["map"], THEMES[theme_name], height, t), "map")


def outcome(scene: Scene, state: RoomState, lesson: Lesson, t: Translate) -> None:
    """What was measured, once revealed, as a table; for a check question the model answer."""
    if not acts.is_revealed(scene, state):
        st.html(NOTHING)
    elif not scene.runs:
        st.html(view.model_answer(scene, lesson, t))
    elif (result := lesson.results.get(scene.name)) is None:
        st.html(f'<div class="bs-lesson"><p class="bs-say">{esc(t("Not measured yet."))}</p></div>')
    else:
        st.html(view.result_table(scene, result, t))


def bars(scene: Scene, state: RoomState, lesson: Lesson, theme_name: str, t: Translate) -> None:
    """A beside B, once revealed."""
    result = lesson.results.get(scene.name)
    if result is None or not acts.is_revealed(scene, state):
        st.html(NOTHING)
        return
    vega(sides_spec(theme_name), {"sides": sides_table(scene, result, t)}, t("A beside B, as bars"))
