"""Latencies, counters and limits say the truth: while requests run, over a restart, and above the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from dashboard.block_squares import map_geometry
from dashboard.fields import CONTROLS
from dashboard.figures import LATENCY_SAMPLES, FigureBook, Percentiles
from dashboard.i18n import translator
from dashboard.views import status, tiles
from dashboard.views.memory_account import account_line
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with

EN = translator("en")


def book_of(client: FakeClient) -> FigureBook:
    book = FigureBook()
    for snapshot in client.history():
        book.add(snapshot)
    return book


def test_ttft_counts_a_request_when_its_first_token_appears_and_only_once():
    client = FakeClient(SchedulerPolicy(max_num_seqs=2))
    client.add("r0", 4, 20)
    client.run(3)
    figures = book_of(client).figures(client.latest)
    assert (figures.ttft.n, figures.tpot.n) == (1, 0)
    assert figures.ttft.p50 == pytest.approx(100)
    client.run(20)
    assert book_of(client).figures(client.latest).ttft.n == 1


def test_latencies_are_those_under_the_policy_in_force_and_no_others():
    client = FakeClient(SchedulerPolicy(max_num_seqs=2))
    for i in range(6):
        client.add(f"a{i}", 3, 2)
    client.run(14)
    client.set_policy(SchedulerPolicy(max_num_seqs=1))
    client.run(1)
    before = book_of(client).figures(client.latest)
    assert (before.ttft.n, before.ttft.p50, before.ttft.since_version) == (0, None, 2)
    for i in range(3):
        client.add(f"b{i}", 3, 2)
    client.run(9)
    after = book_of(client).figures(client.latest)
    assert (after.ttft.n, after.ttft.since_version) == (3, 2)
    assert (after.tpot.n, after.tpot.since_version) == (3, 2)
    assert "n = 3 since v2" in tiles.tiles(after, EN)


def test_a_latency_of_the_newest_samples_only_says_so():
    client = FakeClient(SchedulerPolicy())
    client.add("r0", 4, 2)
    client.run(1)
    few = book_of(client).figures(client.latest)
    full = replace(few, ttft=Percentiles(1.0, 2.0, LATENCY_SAMPLES, 2), tpot=Percentiles(1.0, 2.0, 7, 2))
    drawn = tiles.tiles(full, EN)
    assert "to first token, newest 200 since v2" in drawn
    assert "n = 7 admitted since v2" in drawn


def test_a_request_continued_after_a_restart_is_in_no_latency():
    client = FakeClient(SchedulerPolicy(max_num_seqs=2))
    client.add("r0", 4, 3)
    client.run(5)
    last = next(s for s in client.history() if s.step.records)
    record = replace(last.step.records[0], num_output_tokens=9, num_prior_output_tokens=6)
    book = FigureBook()
    book.add(structs.replace(last, step=replace(last.step, records=(record,))))
    figures = book.figures(client.latest)
    assert (figures.ttft.n, figures.tpot.n) == (0, 0)


def test_counters_of_preemption_go_on_over_a_restart():
    client = FakeClient(SchedulerPolicy(max_num_seqs=4, kv_block_limit=8, admission_rule="next_chunk"))
    for i in range(3):
        client.add(f"r{i}", 9, 9)
    client.run(40)
    hub = engine_with(client).hub
    before = hub.frame().figures
    assert before.preemptions > 0
    client.start_run("run-2", SchedulerPolicy())
    client.run(1)
    after = hub.frame().figures
    assert (after.preemptions, after.recompute_tokens) == (before.preemptions, before.recompute_tokens)


def test_after_a_restart_the_policy_is_in_force_since_the_restart():
    client = FakeClient()
    client.run(3)
    client.set_policy(SchedulerPolicy(max_num_seqs=3))
    client.run(1)
    assert status.in_force(client.marks, 2, "run-1", EN) == "policy v2 since iteration 4"
    assert status.in_force(client.marks, 2, "run-2", EN) == "policy v2 since the restart"


def test_use_above_the_limit_is_explained_and_not_a_share_of_more_than_all():
    client = FakeClient(SchedulerPolicy(max_num_seqs=4))
    client.add("r0", 40, 30)
    client.run(3)
    client.set_policy(SchedulerPolicy(max_num_seqs=4, kv_block_limit=4))
    now = client.run(1)
    line = account_line(now, map_geometry(32), EN)
    assert now.num_used_blocks > 4
    assert f"r0 alone holds {now.num_used_blocks} of the 4 usable: the limit yields" in line
    shown = tiles.tiles(engine_with(client).hub.frame().figures, EN)
    assert "of usable" not in shown
    assert "above the limit of 4: one runs alone" in shown
    limit = next(c for c in CONTROLS if c.field == "kv_block_limit")
    assert "runs alone may exceed it" in limit.help
