"""What the presenter's buttons do to the room. Texts are messages of the catalogue, told in each reader's language."""

from __future__ import annotations

from typing import Final, Literal

from dashboard.i18n import N_
from dashboard.lesson.scene import Scene
from dashboard.lesson.scenes import BY_NAME, next_of
from dashboard.lesson.teacher import Lesson
from dashboard.lesson.verdict import answer_of
from dashboard.lesson.words import outcome
from dashboard.room import Room, RoomState

Act = Literal["ask", "close", "start", "reveal", "next", ""]
NOT_GIVEN_BACK: Final = N_("The engine did not take the settings back. Try again when it runs.")


def show(room: Room, name: str) -> None:
    """Put a scene on everybody's page. A question of another scene goes."""
    scene = BY_NAME[name]
    state = room.state
    if state.phase != "none" and state.question_id != name:
        room.clear()
    if state.board.scene != name:
        room.show(name, scene.title, scene.look)


def ask(room: Room, name: str) -> None:
    """Open the scene's question."""
    show(room, name)
    room.ask(name, BY_NAME[name].choices, BY_NAME[name].question)


def reveal(room: Room, name: str, lesson: Lesson) -> None:
    """Show votes, right choice and outcome; a question that was never asked is revealed without votes."""
    scene, result = BY_NAME[name], lesson.results.get(name)
    if room.state.question_id != name or room.state.phase == "none":
        ask(room, name)
    room.reveal(answer_of(scene, result), outcome(scene, result))


def go_on(room: Room, name: str) -> None:
    """To the scene after this one."""
    show(room, next_of(name))


def is_revealed(scene: Scene, state: RoomState) -> bool:
    """Whether this scene's outcome may be seen."""
    return state.question_id == scene.name and state.phase == "revealed"


def next_act(scene: Scene, state: RoomState, lesson: Lesson) -> Act:
    """The button to press next, where a scene is taught in order: ask, close, start, reveal, next."""
    if lesson.is_running:
        return ""
    if state.question_id != scene.name or state.phase == "none":
        return "ask"
    if state.phase == "open":
        return "close"
    if state.phase == "revealed":
        return "next"
    return "reveal" if scene.name in lesson.results or not scene.runs else "start"
