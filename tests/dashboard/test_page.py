"""The page as a script: controls change the policy, charts carry the snapshot, states are shown."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace

import pytest

from dashboard import changes, engine, live
from dashboard.arrow import decode
from dashboard.desk import Desk
from dashboard.settings import SettingsError
from model_runner.views import ClientState, PolicyReply
from scheduler import PRESET_NOTES, PRESETS, SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import charts, html, page
from tests.scheduler.own_files import registries_restored


@pytest.fixture
def client(monkeypatch):
    fake = FakeClient(SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=16))
    for i, (prompt, output) in enumerate([(20, 6), (3, 12), (9, 4), (5, 8), (4, 4), (7, 5)]):
        fake.add(f"r{i}", prompt, output)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    return fake


def test_the_page_draws_without_an_error_and_shows_the_snapshot(client):
    client.run(3)
    at = page()
    assert not at.exception
    drawn = charts(at)
    step = client.latest.step
    assert drawn["running"]["running"]["r"] == [r.request_id for r in sorted(step.running, key=lambda r: r.slot)]
    assert drawn["queue"]["queue"]["r"] == list(step.waiting.request_id)
    assert len(drawn["blocks"]["blocks"]["c"]) == step.num_used_blocks
    assert drawn["time"]["series"]["run"][-1] == len(step.running)
    assert drawn["time"]["series"]["kv"][-1] == pytest.approx(step.kv_cache_usage)
    assert "iteration 3:" in html(at)


@pytest.mark.parametrize(
    ("widget", "field", "value"),
    [
        ("select_slider", "max_num_seqs", 2),
        ("select_slider", "max_num_batched_tokens", 64),
        ("select_slider", "long_prefill_token_threshold", 32),
        ("select_slider", "kv_watermark", 0.1),
        ("select_slider", "kv_block_limit", 16),
        ("select_slider", "step_delay_ms", 100.0),
        ("selectbox", "admission_order", "shortest_prompt"),
        ("selectbox", "admission_rule", "worst_case"),
        ("selectbox", "prefill_mix", "prefill_first"),
        ("selectbox", "preemption_victim", "most_blocks"),
        ("toggle", "admission_paused", True),
        ("toggle", "single_step", True),
        ("button_group", "batching", "static"),
        ("button_group", "preemption_requeue", "back"),
    ],
)
def test_a_control_puts_its_value_in_force_and_echoes_the_version(client, widget, field, value):
    client.run(2)
    at = page()
    found = next(w for w in getattr(at, widget) if w.key == f"policy.{field}")
    found.set_value(value).run()
    assert not at.exception
    assert getattr(client.policy, field) == value
    assert client.policy.version == 2
    assert "In force from iteration 3 as policy v2" in at.success[0].value
    assert field.replace("_", r"\_") in at.success[0].value


def seats(at):
    """What the control of max_num_seqs shows; its key has a number when the engine was followed."""
    return next(w.value for w in at.select_slider if w.key.startswith("policy.max_num_seqs"))


def test_a_second_tab_follows_the_engine(client):
    client.run(1)
    first, second = page(), page()
    first.select_slider(key="policy.max_num_seqs").set_value(8).run()
    second.run()
    assert seats(second) == 8


def test_what_a_browser_still_says_of_a_control_from_before_a_change_is_no_choice(client):
    client.run(1)
    at = page()
    before = at.select_slider(key="policy.max_num_seqs").set_value(4)
    client.set_policy(replace(client.policy, max_num_seqs=8))
    at.run()
    version = client.policy.version
    before.run()  # a tick sent before the new value had come to the browser
    assert (client.policy.max_num_seqs, client.policy.version) == (8, version)
    assert seats(at.run()) == 8


def test_an_edit_that_changes_nothing_leaves_echo_and_undo(client, monkeypatch):
    client.run(1)
    monkeypatch.setattr(changes.st, "session_state", {})
    desk, before = Desk(client), client.policy
    changes.apply(desk, lambda policy: replace(policy, max_num_seqs=8))
    changes.apply(desk, lambda policy: replace(policy, max_num_seqs=8))
    assert changes.st.session_state["undo"] == before
    assert changes.st.session_state["echo"][1] == [("max_num_seqs", before.max_num_seqs, 8)]


def test_a_refused_change_says_why_and_the_control_shows_the_truth(client, monkeypatch):
    client.run(1)
    at = page()
    reply = PolicyReply(False, 1, 0, ("max_num_seqs is 8, refused by the test",))
    monkeypatch.setattr(client, "set_policy", lambda policy: reply)
    at.select_slider(key="policy.max_num_seqs").set_value(8).run()
    assert "refused by the test" in at.error[0].value
    assert seats(at) == 4


def test_a_preset_is_explained_and_compared_before_it_is_applied(client):
    client.run(1)
    before = client.policy
    at = page()
    at.selectbox(key="preset").set_value("sarathi").run()
    assert client.policy == before, "looking changes nothing"
    shown = html(at)
    assert PRESET_NOTES["sarathi"].description in shown
    assert "Sarathi-Serve, OSDI 2024" in shown
    assert "<td><code>max_num_batched_tokens</code></td><td>16 → <b>64</b></td>" in shown
    assert "<td><code>max_num_seqs</code></td><td>4 → <b>8</b></td>" in shown
    assert "admission_order" not in shown.split("bs-preset")[-1]


def test_a_preset_changes_the_decisions_but_not_pace_and_memory(client):
    client.set_policy(replace(client.policy, kv_block_limit=20, step_delay_ms=50.0))
    client.run(1)
    at = page()
    at.selectbox(key="preset").set_value("sarathi").run()
    at.button(key="preset.apply").click().run()
    assert client.policy == replace(
        PRESETS["sarathi"], kv_block_limit=20, step_delay_ms=50.0, version=client.policy.version
    )
    assert at.button(key="preset.apply").disabled, "nothing would change any more"
    at.button(key="undo.button").click().run()
    assert client.policy.max_num_batched_tokens == 16


def test_whole_prompts_raise_the_budget_and_chunks_put_it_back(client):
    client.run(1)
    at = page()
    at.toggle(key="policy.enable_chunked_prefill").set_value(False).run()
    assert not client.policy.enable_chunked_prefill
    assert client.policy.max_num_batched_tokens == client.latest.info.max_model_len - 1
    at.toggle(key="policy.enable_chunked_prefill").set_value(True).run()
    assert client.policy.max_num_batched_tokens == 16


def test_a_press_of_pause_that_is_obeyed_twice_still_pauses(client, monkeypatch):
    client.run(2)
    at = page()
    obey = live.hold

    def twice(*args):
        obey(*args)
        obey(*args)

    monkeypatch.setattr(live, "hold", twice)
    at.run()
    at.button(key="pause").click().run()
    assert client.policy.paused


@pytest.mark.parametrize("press", ["burst", "pause"])
def test_why_a_step_was_refused_is_said_no_longer_once_something_else_was_asked_for(client, press):
    client.run(2)
    at = page()
    at.session_state["step.problem"] = "step: no request is there to be computed"
    assert "no request is there" in html(at.run())
    at.button(key=press).click().run()
    assert "no request is there" not in html(at)


def test_traffic_burst_pause_and_step_reach_the_engine(client):
    client.run(1)
    at = page()
    at.select_slider(key="traffic.rate").set_value(4.0).run()
    at.selectbox(key="traffic.output_mix").set_value("long").run()
    at.toggle(key="traffic.enabled").set_value(False).run()
    at.button(key="burst").click().run()
    assert (client.traffic.spec.rate, client.traffic.spec.output_mix, client.traffic.spec.enabled) == (
        4.0,
        "long",
        False,
    )
    assert client.traffic.bursts == [24]
    at.button(key="pause").click().run()
    assert client.policy.paused
    at.button(key="step").click().run()
    assert client.steps_asked == 1
    at.button(key="pause").click().run()
    assert not client.policy.paused


def test_a_prompt_is_sent_followed_and_recognisable_in_every_view(client):
    client.run(1)
    at = page()
    at.text_area(key="prompt.text").set_value("why is the sky blue")
    at.number_input(key="prompt.max_tokens").set_value(5)
    at.button(key="prompt.send").click().run()
    assert client.views["u6"].prompt_text == "why is the sky blue"
    assert client.views["u6"].origin == "user"
    client.run(1)
    at.run()
    shown = charts(at)
    names = shown["queue"]["queue"]["t"] + shown["running"]["running"]["t"]
    assert any("★" in name and "u6" in name for name in names)
    assert "why is the sky blue" in html(at)
    at.button(key="prompt.abort").click().run()
    client.run(2)
    assert "u6" not in client.latest.step.waiting.request_id


def test_choosing_a_request_dims_the_others(client):
    client.run(3)
    at = page()
    chosen = client.latest.step.running.request_id[0]
    at.selectbox(key="chosen").set_value(chosen).run()
    drawn = charts(at)
    assert set(drawn["time"]["chosen"]["r"]) == {chosen}
    assert drawn["blocks"]["veil"]["v"] == [1]


def test_a_restart_is_asked_for_with_the_chosen_values_and_only_by_the_button(client):
    client.run(1)
    at = page()
    next(w for w in at.number_input if w.label == "Blocks in the pool").set_value(64)
    assert client.restarts == []
    next(b for b in at.button if b.label == "Restart the engine").click().run()
    assert [c.num_blocks for c in client.restarts] == [64]


def test_the_host_pool_is_a_start_up_choice(client):
    client.run(1)
    at = page()
    next(w for w in at.number_input if w.label == "Blocks in the host pool").set_value(7)
    next(b for b in at.button if b.label == "Restart the engine").click().run()
    assert [c.num_host_blocks for c in client.restarts] == [7]


def test_a_running_request_is_evicted_by_hand_and_comes_back(client):
    client.run(3)
    at = page()
    assert at.button(key="evict").disabled, "nobody is highlighted"
    chosen = client.latest.step.running.request_id[-1]
    at.selectbox(key="chosen").set_value(chosen).run()
    assert at.button(key="evict").label == f"Evict {chosen} now"
    at.button(key="evict").click().run()
    step = client.run(1)
    assert chosen in step.preempted
    at.run()
    assert f"{chosen} evicted by hand" in html(at)
    client.run(20)
    assert chosen in {record.request_id for s in client.history() for record in s.step.resumes}
    at.run()
    assert "1 came back" in html(at)


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("down", "no request is lost"), ("failed", "cannot run"), ("stalled", "does not answer"),
        ("restarting", "new engine is being started"), ("computing", "A long iteration is being computed"),
    ],
)  # fmt: skip
def test_a_state_of_trouble_says_so_and_takes_the_colour_away(client, phase, words):
    client.run(2)
    client.state = ClientState(phase, time.time(), 4.0, "layer 3", None, 1)
    text = html(page())
    assert words in text
    assert "grayscale(1)" in text
    assert "4.0 s" in text


@pytest.mark.parametrize("view", ["request", "numbers", "lesson", "room"])
def test_every_view_says_that_the_engine_is_in_trouble(client, view):
    client.run(2)
    assert 'role="alert"' not in html(page(view=view))
    client.state = ClientState("restarting", time.time(), 4.0, "the worker was killed by SIGKILL", None, 1)
    text = html(page(view=view, lang="ko"))
    assert "새 엔진을 시작하고 있으며" in text
    assert "워커가 SIGKILL 신호로 종료됨" in text


def test_before_the_first_snapshot_there_is_a_progress_bar(client):
    client.state = ClientState("loading", time.time(), None, "layer 3", 0.5, 0)
    at = page()
    assert not at.exception
    assert not at.get("vega_lite_chart")
    assert at.get("progress")[0].proto.value == 50
    client.state = ClientState("loading", time.time(), None, "reading the tokenizer", 0.0, 0)
    at = page()
    assert not at.get("progress"), "a stage that cannot tell how far it is has no bar"
    assert "LOADING" in html(at)
    assert "LOADING 0%" not in html(at)


def test_the_page_speaks_korean_when_asked(client):
    client.run(2)
    at = page(lang="ko")
    assert "대기열" in html(at)
    assert any(e.label == "수용: 누구를 들일까" for e in at.expander)
    at.button_group(key="language").set_value("en").run()
    assert "Queue" in html(at)


def test_a_language_chosen_on_the_page_outlives_a_reload(client):
    client.run(2)
    at = page()
    at.button_group(key="language").set_value("ko").run()
    asked = {name: values if isinstance(values, str) else values[0] for name, values in at.query_params.items()}
    assert asked == {"lang": "ko"}
    assert "대기열" in html(page(**asked))


def test_an_error_in_one_element_leaves_the_others_alive(client, monkeypatch):
    client.run(2)

    def broken(*_: object) -> str:
        raise ValueError("broken tile")

    monkeypatch.setattr("dashboard.views.tiles.tiles", broken)
    at = page()
    assert "broken tile" in html(at)
    assert set(charts(at)) == {"queue", "running", "blocks", "time", "ends"}


def test_a_bad_start_up_choice_is_shown_by_name(monkeypatch):
    def refuse() -> None:
        raise SettingsError("BATCHSCOPE_RATE='fast': a number from 0 to 50 (requests a second) is needed")

    monkeypatch.setattr(engine, "shared", refuse)
    assert "BATCHSCOPE" in page().error[0].value


def test_the_same_elements_come_in_the_same_order_whatever_is_shown(client):
    """A changed order would make the browser build charts again."""
    client.run(2)
    at = page()
    before = [type(e).__name__ for e in at.main]
    client.run(25)
    at.run()
    assert [type(e).__name__ for e in at.main] == before
    assert len(at.get("vega_lite_chart")) == 5


OWN_RULE = """
from scheduler import VictimRule
class Oldest(VictimRule):
    name = "oldest"
    description = "Evicts the *oldest*."
    def choose(self, candidates, draft):
        return candidates[0]
"""


def test_a_policy_from_a_file_is_offered_and_a_file_that_is_left_out_is_named(client, tmp_path, monkeypatch):
    (tmp_path / "oldest.py").write_text(OWN_RULE, encoding="utf-8")
    (tmp_path / "broken.py").write_text("x = (\n", encoding="utf-8")
    monkeypatch.setenv("BATCHSCOPE_POLICIES", str(tmp_path))
    with registries_restored():
        client.run(2)
        at = page()
        assert not at.exception
        assert at.selectbox(key="policy.preemption_victim").options[-1] == "oldest"
        notices = [element.value for element in at.warning if "broken" in element.value]
        assert len(notices) == 1
        assert "SyntaxError" in notices[0]
        at.selectbox(key="policy.preemption_victim").select("oldest").run()
        assert client.policy.preemption_victim == "oldest"


def test_the_page_goes_where_a_button_leads_and_a_late_choice_of_another_page_is_none(client):
    """A busy browser goes on sending what its control of pages said before."""
    client.run(6)
    at = page(lang="en")
    at.selectbox(key="chosen").set_value("r1").run()
    at.button(key="request.open").click().run()
    assert at.session_state["view"] == "request"
    assert at.query_params["view"] in ("request", ["request"])
    at.session_state["page"] = "live"
    assert at.run().session_state["view"] == "request"


def calculations(spec, name=None, found=()):
    """(name of the data set, expression, name of its result, names before that it does not refine) of each one."""
    name = (spec.get("data") or {}).get("name", name)
    for step in spec.get("transform", ()):
        if "calculate" in step:
            yield name, step["calculate"], step["as"], found
            found = found if f"datum.{step['as']}" in step["calculate"] else (*found, step["as"])
    for part in (*spec.get("layer", ()), *spec.get("vconcat", ())):
        yield from calculations(part, name, found)


@pytest.mark.parametrize("view", ["live", "request", "numbers"])
def test_no_calculation_of_a_chart_hides_a_column_that_a_later_one_reads(client, view):
    """A column may be refined by itself; one that is replaced by something else shows that instead."""
    client.run(12)
    at = page(view=view, request="r1")
    seen = 0
    for chart in at.get("vega_lite_chart"):
        columns = {d.name: set(decode(d.data.data)) for d in chart.proto.datasets}
        for name, expression, result, before in calculations(json.loads(chart.proto.spec)):
            read = set(re.findall(r"datum\.(\w+)", expression))
            replaced = {other for other in before if other in columns.get(name, ()) and other != result}
            assert not read & replaced, (name, expression)
            seen += 1
    assert seen > 20 or view != "live"
