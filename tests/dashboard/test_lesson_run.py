"""A scene on the engine: what it sets, what it takes, what it gives back, and how it ends when something goes wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.desk import Desk
from dashboard.lesson.scene import policy_of
from dashboard.lesson.scenes import BY_NAME
from dashboard.lesson.teacher import Teacher
from scheduler import SamplingParams, SchedulerPolicy
from tests.dashboard.lessons import LessonClient, no_pace, simulated

OWN = SchedulerPolicy(max_num_seqs=3, admission_order="shortest_job", step_delay_ms=5.0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """A teacher whose moves alternate with the engine's."""

    def __init__(self) -> None:
        self.client = LessonClient(OWN)
        self.desk = Desk(self.client)  # type: ignore[arg-type]
        self.clock = Clock()
        self.teacher = Teacher(self.clock)

    def begin(self, name: str) -> bool:
        return self.teacher.begin(name, self.client, self.desk)  # type: ignore[arg-type]

    def move(self) -> bool:
        self.client.pump()
        return self.teacher.advance()

    def until(self, reached) -> None:
        for _ in range(4000):
            if reached():
                return
            if not self.move():
                break
        assert reached(), self.teacher.state

    def finish(self) -> None:
        for _ in range(4000):
            if not self.move():
                return
        raise AssertionError("does not end")

    def give_back(self) -> bool:
        return self.teacher.give_back(self.client, self.desk)  # type: ignore[arg-type]


@pytest.fixture
def stage():
    return Stage()


@pytest.mark.parametrize("name", ["static", "starve", "preemption", "dictionary"])
def test_a_scene_on_the_engine_counts_what_the_scheduler_alone_decides(stage, name):
    """The same requests, the same arrivals by iteration: decisions do not depend on the clock or on the page."""
    scene = BY_NAME[name]
    assert stage.begin(name)
    stage.finish()
    state = stage.teacher.state
    assert state.phase == "measured", state.fault
    result = state.results[name]
    for side, measured in ((scene.a, result.a), (scene.b, result.b)):
        alone = simulated(scene, side)
        for fact in ("steps", "padding", "preemptions", "recompute", "joins", "wait", "max_running", "mixed", "ended"):
            assert measured.values[fact] == alone.values[fact], fact
    assert result.conditions.model == "toy"
    assert dict(result.conditions.policy_b).get("batching", "continuous") == "continuous"


def test_it_sets_both_policies_and_stops_arrivals_and_gives_both_back(stage):
    traffic = stage.client.traffic.spec
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.phase == "a" and stage.teacher.state.ended)
    info = stage.client.latest.info
    assert no_pace(stage.client.policy) == no_pace(policy_of(BY_NAME["static"].a, info))
    assert not stage.client.traffic.spec.enabled
    assert not stage.give_back(), "a scene runs"
    stage.until(lambda: stage.teacher.state.phase == "b" and stage.teacher.state.ended)
    assert no_pace(stage.client.policy) == no_pace(policy_of(BY_NAME["static"].b, info))
    stage.finish()
    assert stage.teacher.state.keeps_settings
    stage.begin("rebuild")
    stage.finish()
    assert stage.give_back()
    assert replace(stage.client.policy, version=1) == OWN, "from before the first scene"
    assert stage.client.traffic.spec == traffic
    assert not stage.give_back()


def test_requests_of_before_end_first_under_a_policy_that_lets_them(stage):
    stage.client.set_policy(replace(OWN, admission_paused=True, paused=True))
    stage.client.add("earlier", 9, 12, origin="api")
    stage.client.pump()
    stage.begin("static")
    assert stage.move()
    assert (stage.teacher.state.phase, stage.teacher.state.waiting_for) == ("clearing", 1)
    stage.finish()
    assert stage.teacher.state.results["static"].strangers == 0
    assert not stage.client.abandoned


def test_arrivals_that_were_made_up_are_ended_and_not_waited_for(stage):
    """Behind a slow model a queue of them kept a room waiting for more than a minute."""
    for name, origin in (("made-up", "traffic"), ("asked", "user")):
        stage.client.add(name, 9, 40, origin=origin)
    stage.client.pump()
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.phase == "a")
    assert set(stage.client.abandoned) == {"made-up"}
    stage.finish()
    assert stage.teacher.state.results["static"].strangers == 0


def test_requests_of_others_are_counted_and_do_not_enter_the_facts(stage):
    stage.begin("rebuild")
    stage.until(lambda: stage.teacher.state.phase == "a" and stage.teacher.state.ended)
    stage.client.submit((1, 2, 3), SamplingParams(max_tokens=2, ignore_eos=True), origin="api")
    stage.finish()
    result = stage.teacher.state.results["rebuild"]
    assert result.strangers == 1
    assert result.a.values["ended"].number == len(BY_NAME["rebuild"].burst)


def test_only_one_scene_runs_and_a_scene_without_a_run_starts_nothing(stage):
    assert not stage.begin("check_when")
    assert stage.begin("static")
    assert not stage.begin("rebuild")
    assert stage.teacher.state.scene == "static"


def broken(stage: Stage, words: str) -> None:
    stage.finish()
    state = stage.teacher.state
    assert state.phase == "failed"
    assert words in str(state.fault)
    assert not state.results
    assert replace(stage.client.policy, version=1) == OWN, "the settings are given back"
    assert stage.client.traffic.spec.enabled


def test_a_policy_changed_by_hand_ends_the_scene(stage):
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.ended)
    stage.desk.change(lambda now: replace(now, max_num_seqs=7))
    broken(stage, "max_num_seqs")
    assert stage.client.abandoned, "its requests are ended"


def test_a_pause_by_hand_only_delays_it(stage):
    stage.begin("rebuild")
    stage.until(lambda: stage.teacher.state.ended)
    stage.desk.change(lambda now: replace(now, paused=True))
    for _ in range(20):
        stage.clock.now += 100
        assert stage.move()
    stage.desk.change(lambda now: replace(now, paused=False))
    stage.finish()
    assert stage.teacher.state.phase == "measured"


def test_an_engine_that_was_started_again_ends_the_scene(stage):
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.ended)
    stage.client.start_run("run-2", stage.client.policy)
    broken(stage, "started again")


def test_an_aborted_request_ends_the_scene(stage):
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.ended and stage.client.scheduler.running_ids)
    stage.client.scheduler.abort(stage.client.scheduler.running_ids[0])
    broken(stage, "aborted")


def test_an_engine_that_stands_still_ends_the_scene(stage):
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.ended)
    stage.client.pump = lambda: None
    stage.teacher.advance()
    stage.clock.now += 31
    broken(stage, "No iteration")


def test_breaking_off_ends_the_requests_and_gives_the_settings_back(stage):
    stage.begin("static")
    stage.until(lambda: stage.teacher.state.ended)
    stage.teacher.cancel()
    stage.finish()
    assert (stage.teacher.state.phase, stage.teacher.state.fault) == ("ready", None)
    assert replace(stage.client.policy, version=1) == OWN
    assert len(stage.client.abandoned) == len(BY_NAME["static"].burst)
    assert stage.begin("static"), "and it can be started again"
    stage.finish()
    assert stage.teacher.state.phase == "measured"


def test_a_fault_of_our_own_is_told_and_gives_the_settings_back(stage, monkeypatch):
    monkeypatch.setattr(stage.client, "submit", lambda *a, **k: 1 / 0)
    stage.begin("static")
    broken(stage, "division by zero")


def test_its_own_thread_moves_a_scene_that_was_started(stage):
    """The engine has ended everything, so nothing is waited for but the thread itself."""
    stage.client.submit = lambda *a, **k: 1 / 0
    assert stage.teacher.start("static", stage.client, stage.desk)
    for _ in range(200):
        if not stage.teacher.state.is_running:
            break
        stage.teacher._cancelled.wait(0.05)
    assert stage.teacher.state.phase == "failed"
