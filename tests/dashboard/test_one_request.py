"""The page of one request: its totals add up, its gaps name who was in the way, its text stays text."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from dashboard import engine, location
from dashboard.arrow import decode
from dashboard.charts.theme import THEMES
from dashboard.hub import Hub
from dashboard.i18n import translator
from dashboard.life_numbers import numbers_of, rounded
from dashboard.life_tables import (
    GROUPS,
    NO_WORD,
    POINTS,
    STAGES,
    WINDOWS,
    WORD_ROOM,
    life_data,
    shares,
    ticks,
    window_of,
    words_beside,
)
from dashboard.lives import LifeBook
from dashboard.reasons import CAUSE_WORDS, SENTENCES, STAGE_WORDS, gap_words
from dashboard.views.life import gaps
from dashboard.views.why import decided, not_done, why
from scheduler import SchedulerPolicy
from scheduler.blame_parts import CAUSES, Part
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import charts, html, page

EN = translator("en")


@pytest.fixture
def client(monkeypatch):
    fake = FakeClient(SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=16))
    for i, (prompt, output) in enumerate([(20, 6), (3, 12), (40, 4), (5, 8)]):
        fake.add(f"r{i}", prompt, output)
    shared = engine_with(fake)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    return fake


def lives_of(client: FakeClient) -> LifeBook:
    hub = Hub(client)  # type: ignore[arg-type]
    hub.frame()
    return hub.lives


def test_every_cause_has_its_words_and_one_row_of_the_lane():
    assert set(CAUSE_WORDS) == set(SENTENCES) - {"memory who", "others_decode 1"} == set(CAUSES)
    assert sorted(cause for _, causes in GROUPS.values() for cause in causes) == sorted(CAUSES)
    assert tuple(STAGE_WORDS) == STAGES


def test_rounded_totals_add_up_to_the_rounded_sum():
    rng = random.Random(1)
    for _ in range(500):
        totals = {cause: rng.randrange(10**9) for cause in rng.sample(CAUSES, rng.randint(1, 8))}
        shown = rounded(totals)
        assert sum(shown.values()) == round(sum(totals.values()) / 1000)
        assert all(abs(shown[cause] * 1000 - value) < 1000 for cause, value in totals.items() if value)


def test_the_lane_shows_of_each_moment_what_the_parts_say(client):
    client.run(30)
    life = lives_of(client).life("r1")
    window = window_of(life, "whole")
    columns = shares(life.parts, window)
    summed = {cause: sum(column.get(cause, 0) for column in columns) for cause in CAUSES}
    assert {cause: length for cause, length in summed.items() if length} == life.totals
    assert sum(sum(column.values()) for column in columns) == life.end_to_end
    table = decode(life_data(life, "whole")["blame"])
    assert all(0 < share <= 1 for share in table["h"])
    assert max(table["e"]) == pytest.approx(life.end_to_end / 1e9)


@pytest.mark.parametrize("which", WINDOWS)
def test_every_window_lies_in_the_life_and_has_an_axis(client, which):
    client.run(30)
    life = lives_of(client).life("r1")
    low, high = window_of(life, which)
    assert life.known_from <= low < high <= life.until
    data = {name: decode(table) for name, table in life_data(life, which).items()}
    assert len(data["ticks"]["x"]) >= 2
    assert len(data["tokens"]["x"]) >= 2


def test_words_of_the_life_line_do_not_overlap_and_the_end_has_one():
    rng = random.Random(2)
    for _ in range(500):
        points = [(rng.random(), rng.choice(POINTS)) for _ in range(rng.randint(0, 12))] + [(rng.random(), "finished")]
        placed = [
            (row, at - WORD_ROOM * left) for (at, _), (row, left) in zip(points, words_beside(points), strict=True)
        ]
        written = sorted(word for word in placed if word[0] != NO_WORD)
        assert all(0 <= low <= 1 - WORD_ROOM + 1e-9 for _, low in written)
        assert all(a[0] != b[0] or b[1] - a[1] >= WORD_ROOM - 1e-9 for a, b in pairwise(written))
        assert any(kind == "finished" and word[0] != NO_WORD for (_, kind), word in zip(points, placed, strict=True))
    crowded = [(0.0, "queued"), (0.01, "admitted"), (0.04, "preempted"), (0.05, "resumed"), (1.0, "finished")]
    assert words_beside(crowded) == [(0, 0), (1, 0), (NO_WORD, 0), (NO_WORD, 0), (1, 1)]
    assert [row for row, _ in words_beside([(0, "queued"), (0.2, "admitted"), (0.25, "resumed")])] == [0, 1, 0]


def test_an_axis_has_few_round_ticks_whatever_its_span():
    for span in (1e-6, 0.003, 0.9, 7.0, 61.0, 5000.0):
        places = ticks(0.0, span)
        assert 2 <= len(places) <= 10
        assert len({label for _, label in places}) == len(places)


def test_the_longest_gap_comes_first_and_its_sentence_names_who_was_in_the_way(client):
    client.run(2)
    client.add("long", 60, 2)
    client.set_policy(replace(client.policy, max_num_seqs=3, max_num_batched_tokens=256))
    client.run(12)
    table = gaps(lives_of(client).life("r1"), EN)
    assert list(table["ms"]) == sorted(table["ms"], reverse=True)
    assert any("prefill of long (60 tokens)" in words for words in table["who was in the way"])


def test_a_gap_is_told_by_its_longest_causes_and_the_rest_is_counted():
    parts = [Part(0, 5_000_000, "own_decode", 1, "a", 1, 1)]
    parts += [Part(5_000_000 * i, 5_000_000 * i + 4_000_000 - i, "others_prefill", 1, f"r{i}", 9, 1) for i in (1, 2, 3)]
    told = gap_words(parts, EN)
    assert (
        told == "5.0 ms own decode · 4.0 ms prefill of r1 (9 tokens) · 4.0 ms prefill of r2 (9 tokens) · 4.0 ms other"
    )
    assert [gap_words([Part(0, 5_000_000, "others_decode", 1, "", 1, n)], EN) for n in (1, 2)] == [
        "5.0 ms decodes of 1 other",
        "5.0 ms decodes of 2 others",
    ]


def test_the_numbers_are_those_of_the_record(client):
    client.run(40)
    records = {r.request_id: r for s in client.history() for r in s.step.records}
    for request_id, record in records.items():
        numbers = numbers_of(lives_of(client).life(request_id))
        assert numbers.queue / 1e9 == pytest.approx(record.first_scheduled_time - record.arrival_time, abs=1e-6)
        assert numbers.ttft / 1e9 == pytest.approx(record.first_token_time - record.arrival_time, abs=1e-6)
        tpot = (record.last_token_time - record.first_token_time) / (record.num_output_tokens - 1)
        assert numbers.tpot / 1e9 == pytest.approx(tpot, abs=1e-6)
        assert numbers.end_to_end / 1e9 == pytest.approx(record.end_time - record.arrival_time, abs=1e-6)


def test_a_life_goes_on_over_a_restart_of_the_worker(client):
    client.run(3)
    before = lives_of(client).life("r1")
    client.start_run("run-2", client.policy)
    client.add("r1", 3, 12)
    client.run(3)
    life = lives_of(client).life("r1")
    assert [moment.kind for moment in life.moments].count("restart") == 1
    assert len(life.tokens) > len(before.tokens)
    assert sum(life.totals.values()) == life.end_to_end


def test_held_time_is_told_apart_from_the_life(client):
    client.run(6)
    book, away = LifeBook(), 0.0
    for snapshot in client.history():
        away += 2.0 if snapshot.step.step_id == 4 else 0.0
        book.add(replace_struct(snapshot, monotonic_time=snapshot.monotonic_time + away))
    life = book.life("r1")
    assert life.held == pytest.approx(2e9)
    assert life.end_to_end == pytest.approx(0.6e9)


def replace_struct(snapshot, **changes):
    import msgspec

    return msgspec.structs.replace(snapshot, **changes)


def test_the_page_shows_totals_that_add_up_to_the_end_to_end_time(client):
    client.run(30)
    at = page(view="request", request="r2")
    assert not at.exception
    text = html(at)
    cells = re.findall(r"<td>(?:<b[^>]*>)?([\d,]+\.\d{3})(?:</b>)?</td>", text)
    values = [int(cell.replace(",", "").replace(".", "")) for cell in cells]
    assert sum(values[1:]) == values[0] > 0
    drawn = charts(at)
    assert set(drawn) == {"frame"}
    assert list(at.dataframe[0].value.columns)[-1] == "who was in the way"


def test_the_page_finds_ended_requests_says_who_is_unknown_and_speaks_korean(client):
    client.run(60)
    at = page(view="request", lang="ko")
    assert not at.exception
    assert {"r0", "r1", "r2", "r3"} <= set(at.selectbox(key="chosen").options)
    at.selectbox(key="chosen").set_value("r0").run()
    assert "전체 시간" in html(at)
    unknown = page(view="request", request="<b>nobody</b>")
    assert not unknown.exception
    assert "&lt;b&gt;nobody&lt;/b&gt;" in html(unknown)


def shown(at):
    """Whose life is drawn, by its alternative text."""
    return next(e.proto.alt for e in at.get("vega_lite_chart")).removeprefix("life of ").partition(":")[0]


def named(at):
    """The request in the address; "" for none. The test's browser holds a text or a list of one."""
    return "".join(at.query_params.get("request", ""))


def go(at, name):
    next(c for c in at.segmented_control if c.key.startswith("page")).set_value(name).run()


def test_the_address_names_the_request_that_shows_before_anybody_chose_one(client):
    client.run(5)
    at = page(view="request")
    name = shown(at)
    assert named(at) == name
    client.run(25)
    assert shown(page(view="request")) != name, "a newcomer without it is shown another one"
    assert shown(at.run()) == name
    assert shown(page(view="request", request=name)) == name
    go(at, "live")
    assert named(at) == ""
    assert next(box for box in at.selectbox if box.key.startswith("chosen")).value is None, "nobody is dimmed"
    go(at, "request")
    assert shown(at) == named(at) == name


def test_going_back_to_the_page_without_a_request_leaves_the_address_so_that_one_can_go_further_back(
    client, monkeypatch
):
    client.run(5)
    at = page(view="request")
    name = shown(at)
    at.selectbox(key="chosen").set_value("r3" if name != "r3" else "r0").run()
    del at.query_params["request"]
    monkeypatch.setattr(location, "is_navigation", lambda: True)
    assert shown(at.run()) == name
    monkeypatch.setattr(location, "is_navigation", lambda: False)
    at.run()
    assert named(at) == ""
    next(b for b in at.selectbox if b.key.startswith("chosen")).set_value("r1").run()
    assert named(at) == "r1"


def test_for_a_room_the_page_has_three_numbers_and_the_longest_gaps_in_large(client):
    client.run(30)
    desk, room = page(view="request", request="r1"), page(view="request", request="r1", projector="1")
    assert not room.exception
    assert (html(desk).count('class="bs-tile"'), html(room).count('class="bs-tile"')) == (5, 3)
    assert (len(desk.dataframe), len(room.dataframe)) == (1, 0)
    longest = list(desk.dataframe[0].value["who was in the way"][:3])
    told = html(room).split("The longest gaps between its tokens")[1].split("</table>")[0]
    assert re.findall(r"<td>([^<]*)</td></tr>", told) == longest
    drawn = json.loads(room.get("vega_lite_chart")[0].proto.spec)
    assert drawn["usermeta"]["embedOptions"]["renderer"] == "svg", "sharp when it is zoomed"


def test_hostile_text_stays_text(client):
    hostile = "<script>alert(1)</script>\u202e"
    client.views["r1"] = replace(client.views["r1"], prompt_text=hostile, text=hostile * 100)
    client.run(5)
    text = html(page(view="request", request="r1"))
    assert "<script>" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text


def test_why_says_what_each_waiting_request_needs_what_is_there_and_who_is_in_front(client):
    step = client.run(3)
    text = why(step, {}, "r3", THEMES["dark"], EN)
    row = step.waiting[0]
    assert f"needs {row.needed_blocks} blocks, {row.free_blocks} there" in text
    assert "max_num_seqs requests are running already" in text
    assert decided(step, EN)[0].startswith(f"{len(step.num_scheduled_tokens)} requests compute")
    assert f"{len(step.waiting)} not admitted: batch is full." in not_done(step, EN)
    alone = replace(step, num_scheduled_tokens={"r0": 1}, num_padding_tokens={})
    assert decided(alone, EN)[0] == "1 request computes 1 token; 15 of 16 are not used."


def test_while_the_engine_is_held_why_tells_the_decisions_of_the_last_iteration_that_ran(client):
    client.run(3)
    before = html(page())
    told = re.search(r"[0-9]+ requests compute [0-9]+ tokens; [0-9]+ of 16 are not used[.]", before).group()
    assert not told.startswith("0 ")
    client.beat()
    after = html(page())
    assert told in after
    assert "computes nothing" not in after


def test_why_tells_of_a_running_request_without_tokens():
    client = FakeClient(SchedulerPolicy(max_num_seqs=4, preemption_mode="never"), num_blocks=6, block_size=4)
    client.add("a", 8, 12)
    client.add("b", 11, 12)
    told: list[str] = []
    for _ in range(12):
        told += not_done(client.run(), EN)
    assert any("computes nothing: no KV block is free" in words for words in told)
