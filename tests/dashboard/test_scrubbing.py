"""The page in the past: what it shows, where it can go, what its address says, and that the engine is still told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import engine, location
from dashboard.arrow import decode
from dashboard.hub import Hub
from dashboard.past import Past
from dashboard.strip import SPANS, StripBook
from model_runner.views import ClientState
from scheduler import SchedulerPolicy
from tests.dashboard import page_script
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import charts, html


@pytest.fixture
def client(monkeypatch):
    fake = FakeClient(SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=16), num_blocks=16)
    for i, (prompt, output) in enumerate([(20, 16), (9, 30), (7, 24), (5, 8), (12, 20), (6, 9)]):
        fake.add(f"r{i}", prompt, output)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    return fake


def page(**params: str) -> AppTest:
    at = page_script.page(**params)
    assert not at.exception
    return at


def iteration(at: AppTest) -> int:
    return int(html(at).split('<b id="bs-step">')[1].split("<")[0].replace(",", ""))


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception
    return at


def address(at: AppTest) -> dict[str, str]:
    return {name: v if isinstance(v, str) else v[0] for name, v in at.query_params.items()}


def slider(at: AppTest):
    return next(s for s in at.slider if s.key.startswith("scrub."))


def listed(at):
    """The list of requests; it has a new key whenever something else than a hand at it chose."""
    return next(box for box in at.selectbox if (box.key or "").startswith("chosen"))


def test_every_chart_shows_the_step_the_page_went_back_to(client):
    client.run(40)
    at = press(press(page(), "past.-10"), "past.-1")
    step = next(s.step for s in client.history() if s.step.step_id == 29)
    drawn = charts(at)
    assert drawn["queue"]["queue"]["r"] == list(step.waiting.request_id)
    assert sorted(drawn["running"]["running"]["r"]) == sorted(step.running.request_id)
    assert len(drawn["blocks"]["blocks"]["c"]) == step.num_used_blocks
    assert drawn["time"]["series"]["x"][-1] == 29
    assert "iteration 29:" in html(at), "the decision"
    assert iteration(at) == 29


def test_the_engine_goes_on_and_the_page_says_how_far_it_is_behind(client):
    client.run(40)
    at = press(page(), "past.-1")
    client.run(5)
    at.run()
    shown = html(at)
    assert iteration(at) == 39
    assert "PAST" in shown
    assert "−6" in shown
    assert "the engine goes on, at iteration 45; the controls act on it" in shown
    assert at.button(key="past.live").label == "Live (+6)"
    client.state = replace(client.state, phase="paused")
    at.run()
    assert "the engine is held at iteration 45" in html(at)
    at = press(at, "past.live")
    assert iteration(at) == 45
    assert "PAST" not in html(at)


def test_an_engine_that_dies_is_said_while_the_page_looks_at_the_past(client):
    client.run(20)
    at = press(page(), "past.-10")
    client.state = ClientState("down", 0.0, 3.2, "the worker was killed", None, 1)
    shown = html(at.run())
    assert "ENGINE DOWN 3.2 s" in shown
    assert "the worker was killed" in shown
    assert "the engine does not run; it was at iteration 20" in shown
    assert "grayscale" not in shown, "the past is shown on purpose, and stays what it was"


def test_controls_act_on_the_engine_and_leave_the_page_in_the_past(client):
    client.run(20)
    at = press(page(), "past.-10")
    at.select_slider(key="policy.max_num_seqs").set_value(2).run()
    assert client.policy.max_num_seqs == 2
    assert iteration(at) == 10
    at.selectbox(key="chosen").set_value("r0").run()
    runs_now = "r0" in client.latest.step.running.request_id
    assert at.button(key="evict").disabled is not runs_now


def test_the_address_carries_step_run_and_request_and_live_takes_step_and_run_away(client):
    client.run(30)
    at = press(page(lang="en"), "past.-10")
    at.selectbox(key="chosen").set_value("r1").run()
    assert address(at) == {"lang": "en", "step": "20", "run": "run-1", "request": "r1"}
    at = press(at, "past.live")
    assert address(at) == {"lang": "en", "request": "r1"}
    at.selectbox(key="chosen").set_value(None).run()
    assert address(at) == {"lang": "en"}


def test_a_link_opens_what_it_names(client):
    client.run(30)
    client.start_run("run-2", SchedulerPolicy())
    client.add("s0", 4, 30)
    client.run(10)
    at = page(step="12", run="run-1", request="r1")
    assert iteration(at) == 12
    assert listed(at).value == "r1"
    assert charts(at)["time"]["series"]["x"][-1] == 12
    assert iteration(page(step="3")) == 3
    assert "step=12&amp;run=run-1&amp;request=r1" in str(at.code[0].value).replace("&", "&amp;")


def goes(at: AppTest, monkeypatch: pytest.MonkeyPatch, *, back: bool) -> AppTest:
    """The browser's next message carries the address from before: somebody went back, or it is only slow."""
    for name in ("step", "run"):
        del at.query_params[name]
    monkeypatch.setattr(location, "is_navigation", lambda: back)
    return at.run()


def test_somebody_who_goes_back_in_the_browser_goes_where_the_page_was(client, monkeypatch):
    client.run(30)
    at = press(page(), "past.-10")
    assert iteration(at) == 20
    assert iteration(goes(at, monkeypatch, back=True)) == 30


def test_an_old_address_of_a_busy_browser_moves_nothing_and_is_built_on_by_nothing(client, monkeypatch):
    client.run(30)
    at = goes(press(page(lang="en"), "past.-10"), monkeypatch, back=False)
    assert iteration(at) == 20
    at.selectbox(key="chosen").set_value("r1").run()
    assert address(at) == {"lang": "en", "step": "20", "run": "run-1", "request": "r1"}


def test_a_link_to_the_past_waits_for_the_first_snapshot(client):
    client.state = ClientState("loading", 0.0, None, "reading weights", 0.5, 0)
    at = page(step="4")
    client.run(9)
    client.state = ClientState("running", 0.0, 0.1, "", None, 0)
    assert iteration(at.run()) == 4


@pytest.mark.parametrize(
    ("params", "said", "step"),
    [
        ({"step": "soon"}, "?step=soon: a whole number from 1 on is needed", 30),
        ({"step": "-3"}, "?step=-3: a whole number from 1 on is needed", 30),
        ({"step": "0"}, "?step=0: a whole number from 1 on is needed", 30),
        ({"step": "<img src=x>"}, "?step=&lt;img src=x&gt;", 30),
        ({"step": "99999"}, "Iteration 99,999 is still to come; the newest is 30.", 30),
        ({"step": "5", "run": "run-7"}, "Of the run run-7 nothing is kept", 30),
        ({"step": "5", "request": "<b>nobody</b>"}, "?request=&lt;b&gt;nobody&lt;/b&gt;: no request of that name", 5),
    ],
)
def test_a_bad_address_says_what_is_wrong_and_leaves_no_trace(client, params, said, step):
    client.run(30)
    at = page(**params)
    assert said in html(at)
    assert iteration(at) == step
    assert address(at) == ({"step": "5", "run": "run-1"} if step == 5 else {})
    assert 'class="bs-problem"' not in html(press(at, "past.-1"))


def test_what_is_not_kept_any_more_is_said_and_the_oldest_shown(client, monkeypatch):
    client.run(30)
    everything = client.history()
    monkeypatch.setattr(client, "history", lambda last=None: everything[-10:])
    at = page(step="4")
    assert iteration(at) == 21
    assert "Iteration 4 is not kept any more: kept are 10, from 21 to 30. Shown: the oldest of them." in html(at)
    assert address(at)["step"] == "21"


def test_going_back_to_a_step_that_is_gone_leaves_the_address_so_that_one_can_go_further_back(client, monkeypatch):
    client.run(30)
    everything = client.history()
    monkeypatch.setattr(client, "history", lambda last=None: everything[-10:])
    at = page(step="25")
    monkeypatch.setattr(location, "is_navigation", lambda: True)
    at.query_params["step"] = "4"
    assert iteration(at.run()) == 21
    assert address(at)["step"] == "4"
    monkeypatch.setattr(location, "is_navigation", lambda: False)
    at = press(at, "past.1")
    assert iteration(at) == 22
    assert address(at)["step"] == "22"


def test_buttons_go_to_events_and_to_the_worst_gap(client):
    client.run(25)
    client.set_policy(replace(client.policy, max_num_seqs=2))
    client.run(25)
    victims = [s.step.step_id for s in client.history() if s.step.preempted]
    at = press(page(), "past.policy")
    assert iteration(at) == 26
    at = press(at, "past.preemption")
    assert iteration(at) == victims[-1]
    at = press(at, "past.event.back")
    assert iteration(at) == max(s for s in [*victims, 26] if s < victims[-1])
    at = press(at, "past.event.on")
    assert iteration(at) == victims[-1]
    at = press(at, "past.gap")
    assert listed(at).value in {f"r{i}" for i in range(6)}
    for _ in range(len(victims) + 2):
        at = press(at, "past.event.back")
    assert "No preemption, change of policy or restart earlier than this is kept." in html(at)


def test_the_last_eviction_singles_out_who_was_evicted_not_who_was_singled_out_before(client):
    client.run(50)
    last = [s.step for s in client.history() if s.step.preempted][-1]
    other = next(r for r in last.running.request_id if r not in last.preempted)
    at = press(page(request=other), "past.preemption")
    assert iteration(at) == last.step_id
    assert listed(at).value == last.preempted[0]
    assert address(at)["request"] == last.preempted[0]


def test_a_jump_that_finds_nothing_says_so_beside_the_state_of_the_engine(client):
    client.run(20)
    at = press(press(page(), "past.-10"), "past.policy")
    client.run(4)
    shown = html(at.run())
    assert "No change of policy in the kept history." in shown
    assert "the engine goes on, at iteration 24; the controls act on it" in shown
    at = press(press(at, "past.live"), "past.policy")
    assert "No change of policy in the kept history." in html(at)
    assert "M parameters" in html(at), "what runs where"


def test_one_iteration_past_the_newest_is_live(client):
    client.run(20)
    at = press(press(page(), "past.-1"), "past.1")
    assert iteration(at) == 20
    at = press(at, "past.1")
    client.run(1)
    assert iteration(at.run()) == 21


def test_the_slider_counts_back_from_where_live_was_left_and_keeps_its_place_while_the_engine_goes_on(client):
    client.run(40)
    at = page()
    slider(at).set_value(-7).run()
    assert iteration(at) == 33
    client.run(5)
    at.run()
    assert (iteration(at), slider(at).value) == (33, -7)
    slider(at).set_value(-8).run()
    assert iteration(at) == 32
    at = press(at, "past.-1")
    assert (iteration(at), slider(at).value) == (31, -14), "a button counts anew from the newest"


def test_a_page_stays_live_when_the_strip_and_its_slider_grow(client):
    client.add("long", 4, 40)
    client.run(SPANS[0] - 1)
    at = page()
    client.run(3)
    at.run()
    client.run(1)
    assert iteration(at.run()) == SPANS[0] + 3
    assert slider(at).min == 1 - SPANS[1]


def test_the_strip_sums_up_the_kept_steps(client):
    client.run(50)
    tables = charts(page())["ends"]
    steps = [s.step for s in client.history()]
    bins = tables["bins"]
    assert bins["s"] == [s.step_id for s in steps], "a column a step while few are kept"
    assert bins["k"] == [round(100 * s.num_used_blocks / s.num_blocks) for s in steps]
    assert bins["w"] == [s.num_waiting for s in steps]
    assert bins["p"] == [len(s.preempted) for s in steps]
    assert bins["n"] == list(range(50))
    assert tables["ends"] == {"lo": [50 - SPANS[0]], "hi": [50], "w": [max(s.num_waiting for s in steps)], "b": [1]}
    assert tables["thumb"]["n"] == [49.5]


def test_columns_that_are_kept_from_before_are_those_of_a_strip_made_at_once(client):
    for i in range(40):
        client.add(f"more{i}", 3 + i % 9, 20 + i % 17)
    hub, book = Hub(client), StripBook()
    past = Past(max_steps=300)
    client.run(420)
    hub.frame()
    seen = set()
    for place, kept in enumerate(hub.kept()):
        past.add(kept)
        if place % 7 == 0:
            tables = book.tables(past, client.marks, hub.frame(), fresh=True)
            assert tables == StripBook().tables(past, client.marks, hub.frame()), place
            columns = decode(tables["bins"])
            seen.add(decode(tables["ends"])["b"][0])
            width = max(seen)
            assert sum(columns["p"]) == sum(k.facts.preemptions for k in past.all())
            assert all(n % width == 0 for n in columns["n"][1:])
            assert columns["n"][0] == past.all()[0].n
    assert seen == {1, 2}, "the case needs both widths"
    assert past.all()[0].n > 100, "and steps that go"


def test_the_tables_of_the_strip_are_the_same_bytes_for_a_second_unless_somebody_moves(client):
    now, hub = [10.0], Hub(client)
    book = StripBook(clock=lambda: now[0])
    past = Past()
    client.run(30)
    first_frame = hub.frame()
    for kept in hub.kept()[:20]:
        past.add(kept)
    first = book.tables(past, client.marks, first_frame)
    past.add(hub.kept()[20])
    now[0] += 0.9
    assert book.tables(past, client.marks, first_frame) is first
    assert decode(book.tables(past, client.marks, first_frame, fresh=True)["ends"])["hi"] == [21]
    past.add(hub.kept()[21])
    now[0] += 1.0
    assert decode(book.tables(past, client.marks, first_frame)["ends"])["hi"] == [22]
