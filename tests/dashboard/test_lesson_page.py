"""The page of the lesson: what it draws, what its buttons do, and that the audience has none of them but its vote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import engine, visit
from dashboard.door import Door
from dashboard.i18n import translator
from dashboard.lesson.scenes import BY_NAME, SCENES
from dashboard.views.markup import esc
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import engine_with
from tests.dashboard.lessons import LessonClient
from tests.dashboard.page_script import charts, html, page

TOKEN = "open-sesame-42"


@pytest.fixture
def shared(monkeypatch):
    made = replace(engine_with(LessonClient(SchedulerPolicy())), door=Door(TOKEN))
    monkeypatch.setattr(engine, "shared", lambda: made)
    return made


@pytest.fixture
def ticket(monkeypatch, shared):
    """The presenter's cookie; None makes the page the audience's."""
    kept: list[str | None] = [shared.door.ticket()]
    monkeypatch.setattr(visit, "_cookie", lambda kind: kept[0] if kind == visit.TICKET else None)
    return kept


def lesson(language: str = "en") -> AppTest:
    at = page(view="lesson", lang=language)
    assert not at.exception, at.exception
    return at


def press(at: AppTest, name: str) -> AppTest:
    at.button(key=f"lesson.{name}").click().run()
    assert not at.exception, at.exception
    return at


def measure(shared, name: str) -> None:
    """Run a scene to its end."""
    assert shared.teacher.begin(name, shared.client, shared.desk)
    for _ in range(4000):
        shared.client.pump()
        if not shared.teacher.advance():
            break
    assert shared.teacher.state.phase == "measured", shared.teacher.state.fault


def test_a_scene_is_asked_measured_and_revealed(shared, ticket):
    at = press(lesson(), "ask")
    assert shared.room.state.question_id == "static"
    at.button(key="lesson.vote.0").click().run()
    assert shared.room.state.counts == (1, 0, 0)
    press(at, "close")
    assert at.button(key="lesson.reveal").disabled, "nothing is measured"
    measure(shared, "static")
    at.run()
    assert "150" not in html(at), "before the reveal"
    press(at, "reveal")
    shown = html(at)
    assert "<td>150</td><td>83</td><td>12</td>" in shown
    assert "Measured, and as theory expects." in shown
    for condition in ("toy (random weights)", "float32 on cpu", "batching static", "max_num_seqs 4", "seed 8"):
        assert condition in shown, condition
    assert (shared.room.state.answer, shared.room.state.phase) == (0, "revealed")
    press(at, "next")
    assert shared.room.state.board.scene == "rebuild"
    assert shared.room.state.phase == "none"


def test_a_start_that_closes_the_vote_says_so_before(shared, ticket):
    at = lesson()
    assert at.button(key="lesson.start").label == "Start scene"
    assert press(at, "ask").button(key="lesson.start").label == "Close vote and start"
    assert press(at, "close").button(key="lesson.start").label == "Start scene"


def test_in_projector_mode_the_result_takes_the_place_of_the_pictures(shared, ticket):
    measure(shared, "rebuild")
    shared.room.show("rebuild")
    at = page(view="lesson", projector="1")
    assert set(charts(at)) == {"time"}
    press(at, "reveal")
    shown = html(at)
    assert not charts(at)
    assert "<td>44</td><td>27</td><td>7</td>" in shown
    assert "max_num_seqs 3" in shown, "conditions"
    assert esc(BY_NAME["rebuild"].look[0]) not in shown, "there is nothing to look at"


def test_start_runs_the_scene_and_give_back_puts_the_settings_back(shared, ticket, monkeypatch):
    started = []
    monkeypatch.setattr(type(shared.teacher), "start", lambda self, *given: started.append(given[0]))
    at = press(lesson(), "start")
    assert started == ["static"]
    assert at.button(key="lesson.give_back").disabled
    measure(shared, "static")
    at.run()
    press(at, "give_back")
    assert shared.client.policy.batching == SchedulerPolicy().batching
    assert shared.client.traffic.spec.enabled


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_every_scene_draws_in_korean_before_and_after_its_reveal(shared, ticket, scene):
    shared.room.show(scene.name)
    at = lesson("ko")
    shown = html(at)
    t = translator("ko")
    for text in (scene.title, *scene.look, scene.question, *scene.choices, scene.not_shown):
        assert esc(t(text)) in shown
    if not scene.runs:
        press(at, "reveal")
        assert esc(t(scene.model_answer[0])) in html(at)
        assert (
            esc(t("Scene {n}: not measured yet; run scene {n}.", n=1 if "when" in scene.name else 3)) in (html(at))
            or scene.name == "check_trust"
        )


def test_a_check_question_is_backed_by_what_was_measured(shared, ticket):
    measure(shared, "static")
    shared.room.show("check_when")
    at = press(lesson(), "reveal")
    shown = html(at)
    assert "Scene 1, measured: iterations until all had ended: A 150, B 83 (n = 12)." in shown
    assert "Scene 2: not measured yet; run scene 2." in shown
    measure(shared, "rebuild")
    at.run()
    assert html(at).count("192 KV blocks of 16 tokens") == 1, "what holds for all of them is said once"
    assert shared.room.state.answer == BY_NAME["check_when"].answer


def test_the_audience_sees_the_scene_and_has_its_vote_alone(shared, ticket):
    shared.room.show("starve")
    shared.room.ask("starve", BY_NAME["starve"].choices)
    ticket[0] = None
    at = lesson()
    assert esc(BY_NAME["starve"].look[0]) in html(at)
    assert {str(b.key) for b in at.button} == {f"lesson.vote.{i}" for i in range(3)}
    assert not at.radio
    at.button(key="lesson.vote.2").click().run()
    assert shared.room.state.counts == (0, 0, 1)


def test_no_button_acts_for_who_is_not_the_presenter(shared, ticket, monkeypatch):
    started = []
    monkeypatch.setattr(type(shared.teacher), "start", lambda self, *given: started.append(given))
    at = lesson()
    before = shared.room.state
    ticket[0] = None
    for name in ("ask", "start", "next"):
        at.button(key=f"lesson.{name}").set_value(True)
    at.radio[0].set_value("chunks")
    at.run()
    assert not at.exception
    assert (shared.room.state, started) == (before, [])


def test_a_failed_scene_says_why(shared, ticket):
    shared.teacher.begin("static", shared.client, shared.desk)
    while not shared.teacher.state.ended:
        shared.client.pump()
        shared.teacher.advance()
    shared.client.start_run("run-2", shared.client.policy)
    assert not shared.teacher.advance()
    assert "started again" in html(lesson())
