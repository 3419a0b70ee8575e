"""Scaling: every factor, cut and drop is counted and stated, against figures worked out by hand."""

from __future__ import annotations

import pytest

from experiments.trace import Trace, TraceOrigin, TraceRequest
from experiments.traces import ScaleSpec, TraceError, generate, in_style_of, scale, suggest


def trace_of(*rows: tuple[float, int, int]) -> Trace:
    requests = tuple(TraceRequest(f"r{index}", *row) for index, row in enumerate(rows))
    return Trace("t", requests, TraceOrigin("test", "by hand", parameters=(("rows", "4"),), dropped=1))


def rows_of(trace: Trace) -> list[tuple[float, int, int]]:
    return [(r.arrival_s, r.prompt_len, r.output_len) for r in trace.requests]


FOUR = trace_of((0.0, 100, 10), (1.0, 5, 3), (1.0, 40, 90), (4.0, 1, 1))


def test_nothing_asked_for_changes_nothing() -> None:
    assert scale(FOUR, ScaleSpec()) == FOUR


def test_factors_multiply_times_and_lengths_rounded_half_up_and_at_least_one() -> None:
    scaled = scale(FOUR, ScaleSpec(time_factor=2.5, prompt_factor=0.1, output_factor=0.5))
    assert rows_of(scaled) == [(0.0, 10, 5), (2.5, 1, 2), (2.5, 4, 45), (10.0, 1, 1)]
    stated = scaled.origin.parameters
    assert stated[0] == ("rows", "4"), "what was done before stays"
    assert dict(stated) == {
        "rows": "4",
        "scale.time_factor": "2.5",
        "scale.prompt_factor": "0.1",
        "scale.output_factor": "0.5",
    }


def test_a_cut_takes_from_the_prompt_leaves_it_half_and_then_from_the_output_and_is_counted() -> None:
    scaled = scale(FOUR, ScaleSpec(max_model_len=60))
    assert rows_of(scaled) == [(0.0, 50, 10), (1.0, 5, 3), (1.0, 30, 30), (4.0, 1, 1)]
    assert (scaled.origin.truncated, scaled.origin.dropped) == (2, 1)
    assert dict(scaled.origin.parameters)["scale.too_long_cut"] == "2"


def test_too_long_requests_can_be_dropped_instead_and_are_counted() -> None:
    scaled = scale(FOUR, ScaleSpec(max_model_len=60, too_long="drop"))
    assert [r.request_id for r in scaled.requests] == ["r1", "r3"]
    assert (scaled.origin.truncated, scaled.origin.dropped) == (0, 3)
    assert dict(scaled.origin.parameters)["scale.too_long_dropped"] == "2"


def test_a_window_begins_at_0_and_what_lies_outside_is_counted() -> None:
    scaled = scale(FOUR, ScaleSpec(start_s=1.0, duration_s=3.0))
    assert rows_of(scaled) == [(0.0, 5, 3), (0.0, 40, 90)]
    assert scaled.origin.dropped == 1 + 2
    first = scale(FOUR, ScaleSpec(max_requests=1))
    assert (rows_of(first), dict(first.origin.parameters)["scale.outside_window"]) == ([(0.0, 100, 10)], "3")


def test_requests_of_one_tick_are_spread_up_to_the_next() -> None:
    ticks = trace_of((0.0, 1, 1), (0.0, 1, 1), (0.0, 1, 1), (3.0, 1, 1), (3.0, 1, 1), (9.0, 1, 1), (9.0, 1, 1))
    scaled = scale(ticks, ScaleSpec(spread_ticks=True))
    assert [r.arrival_s for r in scaled.requests] == [0.0, 1.0, 2.0, 3.0, 6.0, 9.0, 12.0]


def test_token_ids_are_cut_with_the_prompt_and_given_up_where_it_grows() -> None:
    trace = Trace("t", (TraceRequest("a", 0.0, 4, 2, 0, (7, 8, 9, 10)),), TraceOrigin("test", ""))
    assert scale(trace, ScaleSpec(prompt_factor=0.5)).requests[0].prompt == (7, 8)
    assert scale(trace, ScaleSpec(max_model_len=5)).requests[0].prompt == (7, 8, 9)
    longer = scale(trace, ScaleSpec(prompt_factor=2)).requests[0]
    assert (longer.prompt_len, longer.prompt) == (8, ())


@pytest.mark.parametrize("share", [1.0, 0.9, 0.5])
def test_the_suggested_length_factor_makes_the_share_fit_and_no_more_is_cut(share: float) -> None:
    trace = generate(in_style_of("azure-conv", 500, 2))
    spec = suggest(trace, max_model_len=2048, share_fits=share)
    scaled = scale(trace, spec)
    assert all(r.prompt_len + r.output_len <= 2048 for r in scaled.requests)
    assert scaled.origin.truncated <= (1 - share) * 500 + 1e-9
    looser = scale(
        trace,
        ScaleSpec(prompt_factor=spec.prompt_factor * 1.05, output_factor=spec.output_factor * 1.05, max_model_len=2048),
    )
    assert looser.origin.truncated >= scaled.origin.truncated
    assert suggest(FOUR, max_model_len=5000).prompt_factor == 1.0, "nothing is made longer"


def test_the_suggested_time_factor_offers_the_load_that_was_asked_for() -> None:
    spec = suggest(FOUR, tokens_per_s=100.0, load=0.5)
    scaled = scale(FOUR, spec)
    work = 110 + 8 + 130 + 2
    assert scaled.requests[-1].arrival_s == pytest.approx(work / (0.5 * 100))
    with pytest.raises(TraceError, match="at 0 s"):
        suggest(trace_of((0.0, 1, 1)), tokens_per_s=1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_factor", 0.0), ("time_factor", float("nan")), ("prompt_factor", -1.0), ("output_factor", float("inf")),
        ("start_s", -1.0), ("duration_s", 0.0), ("max_requests", 0), ("max_model_len", 1), ("too_long", "shrink"),
    ],
)  # fmt: skip
def test_a_factor_out_of_range_is_refused_naming_the_field(field: str, value: object) -> None:
    with pytest.raises(TraceError) as caught:
        scale(FOUR, ScaleSpec(**{field: value}))
    assert caught.value.field == field


def test_a_scale_that_leaves_nothing_or_grows_without_bound_is_refused() -> None:
    with pytest.raises(TraceError, match="no request of 4 is left"):
        scale(FOUR, ScaleSpec(start_s=100.0))
    with pytest.raises(TraceError, match="prompt_factor"):
        scale(FOUR, ScaleSpec(prompt_factor=1e6))
    with pytest.raises(TraceError, match="time_factor"):
        scale(trace_of((0.0, 1, 1), (1e6, 1, 1)), ScaleSpec(time_factor=1e6))
