"""Refusals, start-up choices and self-preemption in words a reader can act on."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from dataclasses import replace

import pytest
from msgspec import structs

import app
from dashboard import engine
from dashboard.charts.theme import DARK
from dashboard.evictions import Eviction
from dashboard.fields import CONTROLS
from dashboard.i18n import translator
from dashboard.prompt import MAX_PROMPT
from dashboard.refusals import refusal_words
from dashboard.settings import MAX_BLOCKS, MAX_THREADS, SettingsError, from_environment
from dashboard.values import GLOSS, value_words
from dashboard.views import status, step
from dashboard.views.preemptions import preemptions
from dashboard.words import ENGINE_MESSAGES, event_words
from model_runner.views import ClientState
from scheduler import Request, SamplingParams, SchedulerPolicy, StepEvent, choices, problems
from scheduler.policy import limit_problems
from scheduler.registry import REGISTRIES
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.messages import messages
from tests.dashboard.page_script import html, page

EN, KO = translator("en"), translator("ko")
BUILT_IN = tuple(REGISTRIES)


def test_a_text_too_long_is_not_sent_and_the_reader_is_told(monkeypatch):
    client = FakeClient()
    client.run(1)
    shared = engine_with(client)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    at = page()
    at.text_area(key="prompt.text").set_value("a" * (MAX_PROMPT + 1))
    at.button(key="prompt.send").click().run()
    assert not client.views
    assert "8,001 characters" in html(at)


def test_a_refusal_of_the_scheduler_is_put_into_plain_words_of_both_languages():
    client = FakeClient()
    outcome = client.scheduler.add(Request("r", tuple(range(3931)), SamplingParams(max_tokens=1)))
    assert refusal_words(outcome.reason, EN) == "the prompt has 3,931 tokens; at most 255 fit"
    assert "3,931 토큰" in refusal_words(outcome.reason, KO)
    rejected = StepEvent(1, 0.0, "rejected", "r", outcome.reason)
    assert "prompt_token_ids" not in event_words(rejected, EN)
    assert refusal_words("something new", KO) == "something new"


def test_who_evicts_itself_gave_up_its_own_blocks():
    own = StepEvent(
        3, 0.0, "preempted", "r5", "latest_arrival",
        {"for_request_id": "r5", "freed_blocks": 2, "recompute_tokens": 9},
    )  # fmt: skip
    assert "r5 gave up its own blocks" in event_words(own, EN)
    eviction = Eviction("run", 3, "r5", 0, "r5", "latest_arrival", 2, 9, 0.0, back_step=4, away_s=0.02)
    shown = preemptions((eviction,), 64, DARK, EN, 100)
    assert "r5 gave up its own blocks" in shown
    assert "evicted for r5" not in shown
    assert "20 ms later" in shown


@pytest.mark.parametrize(
    ("name", "value", "largest"), [("NUM_BLOCKS", "999999999999", MAX_BLOCKS), ("THREADS", "9999999999", MAX_THREADS)]
)
def test_a_number_beyond_the_form_is_refused_with_the_largest_one(name, value, largest):
    with pytest.raises(SettingsError, match=f"to {largest} is needed"):
        from_environment({f"BATCHSCOPE_{name}": value})
    from_environment({f"BATCHSCOPE_{name}": str(largest)})


@pytest.mark.parametrize("name", ["BATCHSCOPE_CACHE", "BATCHSCOPE_RENDERER"])
def test_a_variable_that_another_module_reads_is_not_called_unknown(name, caplog):
    from_environment({name: "svg"})
    assert "not known" not in caplog.text


def test_an_unknown_variable_is_named(caplog):
    with caplog.at_level(logging.WARNING):
        from_environment({"BATCHSCOPE_BLOCKS": "9", "BATCHSCOPE_RATE": "1"})
    assert "BATCHSCOPE_BLOCKS: not known" in caplog.text


def test_a_bad_start_ends_with_one_line(monkeypatch, capsys):
    def fail() -> None:
        raise SettingsError("BATCHSCOPE_THREADS='x': a whole number is needed")

    def leave(code: int) -> None:
        raise KeyboardInterrupt(code)

    monkeypatch.setattr(engine, "shared", fail)
    monkeypatch.setattr(app.os, "_exit", leave)

    async def start() -> None:
        async with app.lifespan(None):
            pass

    with pytest.raises(KeyboardInterrupt, match="2"):
        asyncio.run(start())
    assert capsys.readouterr().err.splitlines() == [
        "Batchscope was not started: BATCHSCOPE_THREADS='x': a whole number is needed"
    ]


def test_the_command_for_a_model_uses_this_interpreter_and_says_what_comes_next():
    client = FakeClient()
    client.run(1)
    shown = status.toy_notice(client.latest, EN)
    assert f"{sys.executable} -m pip install" in shown
    assert "Then choose the model under Restart" in shown


def test_events_are_not_newer_than_the_picture_beside_them():
    client = FakeClient()
    client.add("r0", 4, 20)
    client.run(2)
    frame = engine_with(client).hub.frame()
    client.run(3)
    assert [s.step_id for s in frame.recent] == [2, 1]


def test_a_queue_that_grows_is_said_and_a_steady_one_is_not():
    client = FakeClient()
    client.add("r0", 2, 100)
    client.run(60)
    facts = engine_with(client).hub.frame().facts
    assert step.growth(facts) == 0
    grown = [replace(f, waiting=i // 2) for i, f in enumerate(facts)]
    assert step.growth(grown) == 29
    waiting = replace(client.latest.step, num_waiting=29, num_waiting_tokens=1200)
    assert step.queue_length(waiting, 29, EN) == "29 (+29) waiting, 1,200 tok"


def test_a_failure_is_told_once():
    reason = "no folder /models/none"
    failed = ClientState("failed", 0.0, None, reason, None, 0, (reason,))
    shown = status.notices(failed, EN) + status.strip(failed, None, (), 1, EN)
    assert shown.count(reason) == 1


def test_a_restart_before_its_first_step_is_said():
    client = FakeClient()
    client.run(1)
    peek = structs.replace(client.latest, step=replace(client.latest.step, step_id=0))
    state = replace(client.state, restarts=1)
    assert "restarted, before iteration 1" in status.strip(state, peek, (), 1, EN)


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_num_seqs", 0), ("kv_watermark", 1.0), ("kv_block_limit", 0), ("step_delay_ms", -1), ("batching", "no"),
     ("admission_paused", 3)],
)  # fmt: skip
def test_a_refused_policy_is_told_in_korean_with_its_field_and_value(field, value):
    (reason,) = problems(replace(SchedulerPolicy(), **{field: value}))
    told = refusal_words(reason, KO)
    assert field in told
    assert str(value) in told
    assert not re.search(r"expected|number|needed|True or", told), told


def test_limits_that_contradict_each_other_are_told_in_korean():
    policy = SchedulerPolicy(enable_chunked_prefill=False, max_num_batched_tokens=16)
    (reason,) = limit_problems(policy, 256)
    assert "255 토큰" in refusal_words(reason, KO)


def test_a_value_keeps_its_code_word_and_has_a_korean_gloss():
    assert value_words("paged", KO) == "paged (페이지 단위)"
    assert value_words("paged", EN) == "paged"
    assert value_words("somebodys_own", KO) == "somebodys_own"
    assert set(GLOSS) >= {name for field in BUILT_IN for name in choices(field)}


def test_every_named_value_is_explained_by_the_help_of_its_control():
    fields = {c.field: c for c in CONTROLS if c.field in BUILT_IN}
    assert set(fields) == set(BUILT_IN)
    for field, control in fields.items():
        assert all(re.search(rf"\b{name}\b", control.help) for name in choices(field)), field


def test_english_prose_calls_an_iteration_an_iteration():
    """step_id and single_step are names; a button may say Step. Nothing else on the page says step."""
    commands = {"Step", "Single step", "Each iteration waits for the step button (key N)."}
    told = {m: re.sub(r"\{\w+\}", "", m) for m in messages() if m not in commands and m not in ENGINE_MESSAGES}
    assert [m for m, words in told.items() if re.search(r"\bsteps?\b", words, re.I)] == []
