"""The page of numbers as a script, its charts' data, and the files it gives away."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from dashboard import engine
from dashboard.arrow import decode
from dashboard.chart_frames import blocks_frame, lanes_frame, life_frame, queue_frame, running_frame, series_frame
from dashboard.charts.specs import epoch_specs
from dashboard.downloads import csv_of, guarded_text
from dashboard.epoch_tables import SHARES, TOKENS, ceiling, shown, spread_data, tokens_data
from dashboard.frame import with_selection
from dashboard.i18n import translator
from dashboard.number_frames import epochs_frame, events_frame, filtered, requests_frame, steps_frame
from dashboard.spread_axis import EVEN, LOG
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import charts, html, page
from tests.dashboard.test_charts import objects


@pytest.fixture
def running(monkeypatch):
    fake = FakeClient(SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=16))
    for i, (prompt, output) in enumerate([(20, 6), (3, 12), (9, 4), (5, 8), (4, 4), (7, 5)]):
        fake.add(f"r{i}", prompt, output)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    fake.run(10)
    fake.set_policy(replace(fake.policy, max_num_seqs=4))
    fake.run(30)
    return shared


def summary(running):
    running.hub.frame()
    return running.hub.epochs.summary()


def test_the_page_shows_epochs_side_by_side_with_counts_and_why_a_percentile_is_missing(running):
    at = page(view="numbers")
    assert not at.exception
    text = html(at)
    assert "max_num_seqs 2 → 4" in text
    assert "p99 needs 100 samples, there are" in text
    assert "vllm:time_to_first_token_seconds" in text
    assert set(charts(at)) == {"curves", "bars"}
    assert len(at.dataframe[0].value) == 6


@pytest.mark.parametrize("metric", ["itl", "tpot", "queue", "e2e"])
def test_every_metric_draws_and_the_choice_is_in_the_title(running, metric):
    at = page(view="numbers", lang="ko")
    at.button_group(key="numbers.metric").set_value(metric).run()
    assert not at.exception
    assert "백분위수" in html(at)


def test_tables_are_chosen_and_filtered_by_words(running):
    at = page(view="numbers")
    at.button_group(key="numbers.table").set_value("events").run()
    at.text_input(key="numbers.filter").set_value("ADMITTED r3").run()
    assert not at.exception
    shown_rows = at.dataframe[0].value
    assert set(shown_rows["kind"]) == {"admitted"}
    assert set(shown_rows["request_id"]) == {"r3"}
    for name in ("steps", "epochs"):
        at.button_group(key="numbers.table").set_value(name).run()
        assert not at.exception


def test_for_a_room_there_are_no_tables_to_sort(running):
    at = page(view="numbers", projector="1")
    assert not at.exception
    assert len(at.get("vega_lite_chart")) == 2
    assert not at.dataframe


@pytest.mark.parametrize("scale", [LOG, EVEN])
def test_curves_rise_to_the_end_of_the_axis_and_each_epoch_has_its_name(running, scale):
    epochs = shown(summary(running))
    tables = spread_data(epochs, "e2e", translator("en"), whole_only=False, scale=scale)
    data = {name: decode(table) for name, table in tables.items()}
    (high,) = data["frame"]["hi"]
    for place in range(len(epochs)):
        xs = [x for x, e in zip(data["curves"]["x"], data["curves"]["e"], strict=True) if e == place]
        assert xs == sorted(xs)
        assert xs[-1] <= high
    assert data["names"]["t"] == ["v2", "v1"]


@pytest.mark.parametrize("value", [0.0004, 0.9, 1, 1.01, 14.9, 15, 99, 700, 701, 123456.0])
def test_the_end_of_an_axis_is_round_and_at_most_twice_what_is_shown(value):
    assert value <= ceiling(value) * (1 + 1e-9) <= 2 * value * (1 + 1e-6)
    assert ceiling(0) == 1


def test_bars_are_divided_as_the_tokens_are(running):
    epochs = shown(summary(running))
    shares = decode(tokens_data(epochs, SHARES)["bars"])
    tokens = decode(tokens_data(epochs, TOKENS)["bars"])
    for row, epoch in enumerate(epochs):
        total = sum(epoch.counts[k] for k in ("prefill", "decode", "recompute", "padding", "idle"))
        assert max(e for e, r in zip(tokens["e"], tokens["r"], strict=True) if r == row) == total
        assert max(e for e, r in zip(shares["e"], shares["r"], strict=True) if r == row) == pytest.approx(100)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_curves_of_epochs_differ_by_stroke_and_not_by_colour_alone(theme):
    marks = [o["mark"] for o in objects(epoch_specs(theme, "en")["spread"]) if isinstance(o.get("mark"), dict)]
    strokes = [(m["strokeWidth"], tuple(m["strokeDash"])) for m in marks if m.get("type") == "line"]
    assert len(set(strokes)) == len(strokes) == 5


def test_a_picture_of_the_bars_says_what_each_colour_stands_for_and_one_of_curves_what_is_measured(running):
    marks = [o["mark"] for o in objects(epoch_specs("dark", "ko")["tokens"]) if isinstance(o.get("mark"), dict)]
    told = [m["text"] for m in marks if m.get("type") == "text" and "text" in m]
    assert told == ["prefill", "decode", "재계산", "padding", "유휴 슬롯"]
    tables = spread_data(shown(summary(running)), "queue", translator("ko"), whole_only=False, scale=LOG)
    assert decode(tables["frame"])["t"] == ["대기 시간"]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_saved_picture_has_the_background_it_was_drawn_for(theme):
    spec = epoch_specs(theme, "en")["spread"]
    assert spec["config"]["background"] == {"dark": "#0e1117", "light": "#ffffff"}[theme]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =cmd", "\r@x", "\u200b=1"])
def test_text_that_a_spreadsheet_would_compute_is_made_text(text):
    assert guarded_text(text) == f"'{text}"


def test_numbers_and_plain_text_go_into_a_file_as_they_are():
    assert [guarded_text(v) for v in (-1.5, -3, "r1", "a=b", "", None)] == [-1.5, -3, "r1", "a=b", "", None]


def test_a_file_has_a_line_a_row_and_units_in_its_header(running):
    rows = summary(running).requests
    hostile = [replace(rows[0], request_id='=HYPERLINK("x")', reason='a,"b"\nc')]
    text = csv_of(requests_frame([*rows, *hostile])).decode("utf-8-sig")
    told = list(csv.DictReader(io.StringIO(text)))
    assert len(told) == 7
    assert told[0]["request_id"] == '\'=HYPERLINK("x")'
    assert told[0]["reason"] == 'a,"b"\nc'
    by_id = {row["request_id"]: row for row in told}
    assert float(by_id["r1"]["ttft_ms"]) == pytest.approx(1000 * next(r.ttft_s for r in rows if r.request_id == "r1"))


def test_the_table_of_iterations_has_each_once_and_its_tokens_are_the_counters(running):
    table = steps_frame(running.client.history())
    totals = running.client.latest.step.totals
    assert list(table["iteration"]) == list(range(40, 0, -1))
    assert table["prefill_tokens"].sum() == totals.prefill_tokens
    assert table["decode_tokens"].sum() == totals.decode_tokens
    assert table["delivered_tokens"].sum() == totals.output_tokens


def test_the_other_tables_have_their_rows_and_a_filter_leaves_those_with_all_words(running):
    events = events_frame(running.client.history())
    assert len(events) == sum(len(s.step.events) for s in running.client.history())
    assert set(filtered(events, "r2 Finished")["kind"]) == {"finished"}
    assert len(filtered(events, "")) == len(events)
    epochs = epochs_frame(summary(running), (1000, 100), whole_only=False)
    assert list(epochs["epoch"]) == [2, 1]
    assert epochs["finished_requests"].sum() == 6
    assert epochs_frame(None, (1, 1), whole_only=True).empty


def test_the_files_of_the_live_charts_say_what_the_step_says(running):
    step = running.client.latest.step
    frame = running.hub.frame()
    assert list(queue_frame(step)["request_id"]) == list(step.waiting.request_id)
    assert sorted(running_frame(step)["request_id"]) == sorted(step.running.request_id)
    lanes, series = lanes_frame(frame.facts), series_frame(frame.facts)
    assert lanes["tokens"].sum() == sum(sum(s.step.num_scheduled_tokens.values()) for s in running.client.history())
    assert series["delivered_tokens"].sum() == step.totals.output_tokens


def test_the_file_of_the_block_map_has_each_used_block_and_the_filled_tokens(running):
    running.client.add("more", 9, 9)
    step = running.client.run(2)
    blocks = blocks_frame(step)
    assert len(blocks) == step.num_used_blocks > 0
    assert blocks["filled_tokens"].sum() == step.memory.filled
    assert blocks_frame(replace(step, running=type(step.running)())).empty


def test_the_file_of_a_life_adds_up_to_its_end_to_end_time(running):
    running.hub.frame()
    life = running.hub.lives.life("r1")
    table = life_frame(life)
    assert (table["until_ms"] - table["from_ms"]).sum() == pytest.approx(life.end_to_end / 1e6)
    assert life_frame(None).empty


def test_live_and_request_pages_offer_their_data(running):
    for view, key in (("live", "save.queue"), ("request", "save.life")):
        at = page(view=view)
        assert not at.exception
        assert any(key in button.proto.id for button in at.get("download_button"))


def test_idle_slots_of_a_static_batch_do_not_dim_the_picture_when_nobody_is_singled_out():
    policy = SchedulerPolicy(batching="static", max_num_seqs=4, admission_rule="worst_case")
    client = FakeClient(policy, num_blocks=8, block_size=4)
    for name in "abc":
        client.add(name, 8, 8)
    client.run(2)
    frame = engine_with(client).hub.frame()
    assert any(not run.request_id for run in frame.runs), "the scene has idle slots"
    assert decode(with_selection(frame, "")["time"]["veil"]) == decode(with_selection(frame, "nobody")["time"]["veil"])
