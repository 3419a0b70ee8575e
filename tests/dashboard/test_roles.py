"""The audience sees everything and changes nothing, whatever its browser says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import engine, visit
from dashboard.door import Door
from dashboard.visit import is_presenter
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import charts, page

TOKEN = "open-sesame-42"
RESTART = "Restart the engine"
LEAVE = "request.open"
"""Key of the button that goes to another page, where these widgets are not."""


@pytest.fixture
def client(monkeypatch):
    fake = FakeClient(SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=16))
    for i in range(4):
        fake.add(f"r{i}", 9, 12)
    fake.run(3)
    evicted: list[str] = []
    monkeypatch.setattr(fake, "evicted", evicted, raising=False)
    preempt = fake.preempt
    monkeypatch.setattr(fake, "preempt", lambda request_id: evicted.append(request_id) or preempt(request_id))
    shared = replace(engine_with(fake), door=Door(TOKEN))
    monkeypatch.setattr(engine, "shared", lambda: shared)
    return fake


@pytest.fixture
def ticket(monkeypatch):
    """The cookie of every page, None = it has none."""
    kept: list[str | None] = [None]
    monkeypatch.setattr(visit, "_cookie", lambda kind: kept[0] if kind == visit.TICKET else None)
    return kept


def everything(client: FakeClient) -> tuple[object, ...]:
    """What a control could change."""
    return (
        client.policy, client.traffic.spec, tuple(client.traffic.bursts), tuple(client.restarts), client.steps_asked,
        len(client.views), tuple(client.evicted),
    )  # fmt: skip


def acting(at: AppTest) -> list[str]:
    """Keys of widgets that are no choice of the reader's own view."""
    own = {"language", "page", "chosen", "twin", LEAVE}
    kinds = (
        "button", "toggle", "select_slider", "selectbox", "button_group", "number_input", "text_area", "text_input",
    )  # fmt: skip
    keys = [str(w.key or w.label) for kind in kinds for w in getattr(at, kind) if w.key not in own]
    return [key for key in keys if not key.startswith("past.")]


def test_the_audience_sees_the_charts_and_not_one_control(client, ticket):
    at = page(view="live")
    assert not at.exception
    assert charts(at)["running"]["running"]["r"], "the same live page"
    assert acting(at) == []
    assert TOKEN not in str(at.main) + str(at.sidebar) + repr(at.session_state)


def test_who_has_a_ticket_gets_the_controls_and_a_forged_one_gets_none(client, ticket):
    ticket[0] = engine.shared().door.ticket()
    assert "pause" in acting(page(view="live"))
    ticket[0] = "9999999999." + "0" * 64
    assert acting(page(view="live")) == []


def test_without_a_token_everybody_has_the_controls(client, ticket, monkeypatch):
    shared = replace(engine.shared(), door=Door())
    monkeypatch.setattr(engine, "shared", lambda: shared)
    assert "pause" in acting(page(view="live"))


def press_restart(at: AppTest) -> None:
    """By itself: it draws the page anew before other forms are read."""
    next(b for b in at.button if b.label == RESTART).click().run()


def highlighted() -> AppTest:
    """A page that singles out a running request, so that it can be evicted."""
    return page(view="live").selectbox(key="chosen").set_value("r0").run()


def press_everything(at: AppTest) -> None:
    """Give every widget that was drawn another value, as a forged message could."""
    for button in at.button:
        if not button.disabled:
            button.set_value(button.label != RESTART and button.key != LEAVE)
    for toggle in at.toggle:
        toggle.set_value(not toggle.value)
    moved = {"policy.max_num_seqs": 2, "policy.max_num_batched_tokens": 64, "traffic.rate": 8.0}
    for slider in at.select_slider:
        if slider.key in moved:
            slider.set_value(moved[slider.key])
    at.selectbox(key="policy.preemption_victim").set_value("most_blocks")
    at.selectbox(key="traffic.prompt_mix").set_value("bimodal")
    for area in at.text_area:
        area.set_value("a prompt of the audience")
    at.run()


@pytest.mark.parametrize("press", [press_everything, press_restart])
def test_no_callback_acts_for_a_page_that_is_not_the_presenters(client, ticket, press):
    """The widgets are real, drawn for a presenter whose ticket then ends: only the check in the callback is left."""
    ticket[0] = engine.shared().door.ticket()
    at = highlighted()
    assert len(acting(at)) > 20
    before = everything(client)
    ticket[0] = None
    press(at)
    assert not at.exception
    assert everything(client) == before


def test_the_same_presses_act_for_the_presenter(client, ticket):
    ticket[0] = engine.shared().door.ticket()
    before = everything(client)
    press_everything(highlighted())
    press_restart(highlighted())
    after = everything(client)
    assert all(a != b for a, b in zip(before, after, strict=True)), (before, after)


def test_outside_a_page_a_door_with_a_token_admits_nobody(client, ticket):
    assert not is_presenter()
