"""A long tail does not press the distribution curves together, and what an axis does not show is counted."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from dashboard.arrow import decode
from dashboard.epoch_rows import EpochSummary
from dashboard.epoch_tables import spread_data
from dashboard.i18n import translator
from dashboard.samples import EDGES, Reservoir
from dashboard.spread_axis import EVEN, LOG, axis_of, on_axis, share_at, short_ms

BULK = tuple(100.0 + i for i in range(1, 98))
TAIL = (3_000.0, 5_000.0, 14_000.0)
"""Milliseconds: 97 requests of 101 to 197, and three slow ones. The last curve point before the tail, p96, is 197.04:
place 0.96 x 99 = 95.04, between the 96th sample (196) and the 97th (197)."""


def spread(samples, *, capacity=2_000, whole_only=False, spanning=()):
    kept = Reservoir(capacity)
    for ms in samples:
        kept.add(ms / 1000, spans=False)
    for ms in spanning:
        kept.add(ms / 1000, spans=True)
    return kept.spread(whole_only=whole_only)


def epoch(serial: int, version: int, samples) -> EpochSummary:
    spreads = {("ttft", False): spread(samples)}
    return EpochSummary(serial, version, (), 0.0, 1, 1.0, 0, {}, {}, 0, spreads)


def drawn(epochs, scale, language="en"):
    tables = spread_data(epochs, "ttft", translator(language), whole_only=False, scale=scale)
    return {name: decode(table) for name, table in tables.items()}


def test_a_linear_axis_ends_behind_the_bulk_and_says_how_many_lie_beyond():
    data = drawn([epoch(1, 1, BULK + TAIL)], EVEN)
    # p75 lies at place 0.75 x 99 = 74.25: 175.25 ms. Twice that is 350.5 ms; the next round end is 500 ms.
    assert data["frame"]["hi"] == [500]
    assert data["notes"]["t"] == ["v1: 3 of 100 beyond 500 ms, the longest 14 s"]
    # p97 lies at place 96.03: 197 + 0.03 x 2,803 = 281.09 ms. p98 at 97.02: 3,040 ms. The line crosses 500 ms at
    # 97 + (500 - 281.09) / (3,040 - 281.09) = 97.08 percent, and is not drawn up to 100.
    assert data["curves"]["x"][-1] == 500
    assert data["curves"]["q"][-1] == pytest.approx(97.08, abs=0.005)
    assert len(data["curves"]["q"]) == 99


def test_a_logarithmic_axis_holds_everything_to_the_longest():
    data = drawn([epoch(1, 1, BULK + TAIL)], LOG)
    assert data["notes"]["t"] == []
    assert data["frame"]["hi"][0] == pytest.approx(math.log10(15_000 / 100)), "from 100 ms to 15 s"
    assert len(data["curves"]["q"]) == 101
    assert data["curves"]["v"][-1] == pytest.approx(14_000)
    assert data["curves"]["x"][-1] == pytest.approx(math.log10(140))
    ticks = dict(zip(data["ticks"]["t"], data["ticks"]["x"], strict=True))
    assert list(ticks) == ["100 ms", "200 ms", "500 ms", "1 s", "2 s", "5 s", "10 s"]
    assert ticks["1 s"] == pytest.approx(1)


def test_the_curve_of_a_fast_epoch_keeps_its_width_beside_one_with_a_long_tail():
    epochs = [epoch(2, 2, BULK + TAIL), epoch(1, 1, BULK)]
    for scale, least in ((EVEN, 0.19), (LOG, 0.13)):
        data = drawn(epochs, scale)
        xs = [x for x, e in zip(data["curves"]["x"], data["curves"]["e"], strict=True) if e == 1]
        assert (xs[-1] - xs[0]) / data["frame"]["hi"][0] > least
    assert drawn(epochs, EVEN, "ko")["notes"]["t"] == ["v2: 100개 중 3개가 500 ms 초과, 최대 14 s"]


def test_of_each_epoch_that_reaches_beyond_there_is_a_line_the_newest_on_top():
    data = drawn([epoch(3, 3, BULK + TAIL), epoch(2, 2, BULK), epoch(1, 1, (*BULK, 9_000.0))], EVEN)
    assert data["notes"]["i"] == [0, 1]
    assert [text.partition(":")[0] for text in data["notes"]["t"]] == ["v1", "v3"], "counted from below"


def test_the_bulk_of_a_slow_epoch_and_its_p90_are_on_the_linear_axis():
    many = (10.0,) * 85 + (400.0,) * 15
    assert axis_of([spread(many)], EVEN).high == 500, "p90 is 400 ms"
    assert axis_of([spread(many[:4])], EVEN).high == 10, "all the same: the axis ends there"
    assert axis_of([spread((100, 110, 120, 130, 14_000))], EVEN).high == 300, "twice 130, rounded up"
    slow, fast = spread((8_000.0, 9_000.0)), spread(BULK)
    assert axis_of([fast, slow], EVEN).high == 10_000


def test_what_lies_beyond_is_counted_of_all_samples_and_not_of_those_kept():
    rng = random.Random(3)
    samples = [rng.lognormvariate(4, 1.5) for _ in range(5_000)]
    few = spread(samples, capacity=50)
    assert few.kept == 50
    for edge in EDGES:
        assert few.num_beyond(edge) == sum(ms > edge for ms in samples), edge
    assert few.longest == few.curve[-1] == pytest.approx(max(samples))


def test_samples_that_span_are_left_out_of_the_count_when_they_are_left_out_of_the_curve():
    both = spread(BULK, spanning=(20_000.0,))
    whole = spread(BULK, spanning=(20_000.0,), whole_only=True)
    assert (both.num_beyond(1_000), both.longest) == (1, 20_000)
    assert (whole.num_beyond(1_000), whole.longest) == (0, 197)


@pytest.mark.parametrize("samples", [(), (0.0,), (0.0, 0.0, 5.0), (1e9,), (15.2, 15.3), (0.0001, 90_000.0)])
@pytest.mark.parametrize("scale", [LOG, EVEN])
def test_an_axis_has_length_and_round_ends_for_any_samples(samples, scale):
    seen = spread(samples)
    axis = axis_of([seen, spread(())], scale)
    assert 0 < axis.length < math.inf
    assert axis.high in EDGES
    shown = on_axis(seen.curve, axis)
    places = [axis.at(ms) for ms, _ in shown]
    assert places == sorted(places)
    assert all(0 <= x <= axis.length for x in places)
    assert 1 <= len(axis.ticks()) <= 15


def test_a_curve_that_begins_left_of_the_axis_begins_at_the_share_it_has_there():
    axis = replace(axis_of([spread(BULK)], LOG), low=150.0)
    shown = on_axis(spread(BULK).curve, axis)
    # 150 ms is the 50th of 97 samples: place 49 of 96.
    assert shown[0] == (150.0, pytest.approx(100 * 49 / 96))


def test_the_share_at_a_time_is_read_off_the_line_through_the_percentiles():
    curve = tuple(float(q) for q in range(101))
    assert [share_at(curve, ms) for ms in (-1, 0, 12.25, 100, 200)] == [0, 0, 12.25, 100, 100]
    assert share_at((5.0,) * 101, 5.0) == 100


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.05, "0.05 ms"), (7, "7 ms"), (150.44, "150 ms"), (999.7, "1,000 ms"), (1_000, "1 s"), (14_200, "14.2 s")],
)
def test_times_are_told_in_few_characters(ms, text):
    assert short_ms(ms) == text
