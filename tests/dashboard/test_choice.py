"""A request is singled out by a click on any picture of it, as from the list; what a browser sends is checked."""

from __future__ import annotations

import re

import pytest
import streamlit as st

from dashboard import choice, engine, keys
from dashboard.views.markup import picks
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with


@pytest.fixture
def session(monkeypatch):
    """What Streamlit keeps of a page, as a plain mapping."""
    kept: dict[str, object] = {}
    monkeypatch.setattr(st, "session_state", kept)
    return kept


def sent(session, *actions):
    session[keys.KEY] = {"pressed": {"page": "p", "presses": [[i, a] for i, a in enumerate(actions, 1)]}}
    keys._pressed()


def test_a_click_singles_a_request_out_and_the_next_one_lets_it_go(session, monkeypatch):
    monkeypatch.setattr(engine, "shared", lambda: None)
    sent(session, "choose.r.7")
    assert choice.chosen() == "r.7"
    sent(session, "choose.r.7")
    assert choice.chosen() == "r.7", "the same press, told again"
    sent(session, "choose.r.7", "choose.r.7")
    assert choice.chosen() == ""


def test_a_click_on_a_block_of_the_map_singles_out_who_owns_it(session, monkeypatch):
    client = FakeClient(SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=64), num_blocks=16)
    for name in ("a", "b"):
        client.add(name, 20, 16)
    client.run(3)
    shared = engine_with(client)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    table = client.latest.step.running
    owned = dict(zip(table.request_id, table.block_ids, strict=True))
    sent(session, f"block.{owned['b'][-1]}")
    assert choice.chosen() == "b"
    sent(session, *["none"] * 1, "block.15", "block.x", "block.999999", "block.", "choose.")
    assert choice.chosen() == ""


def test_an_id_of_any_length_is_cut(session):
    choice.choose("r" * 10_000)
    assert choice.chosen() == "r" * choice.MAX_ID


def test_a_mark_for_clicks_escapes_its_id():
    assert picks('"><script>') == ' data-request="&quot;&gt;&lt;script&gt;"'
    assert picks("") == ""
    assert re.fullmatch(r' data-request="r7"', picks("r7"))
