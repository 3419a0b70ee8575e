"""What a scene measures, against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dashboard.i18n import translator
from dashboard.lesson.facts import ENOUGH, FACTS, Value, measure
from dashboard.lesson.lives import Own, Seen, trimmed
from dashboard.lesson.scene import Asked, Side, policy_of
from dashboard.lesson.scenes import BY_NAME
from dashboard.lesson.verdict import Result, answer_of, direction
from dashboard.lesson.words import number_words, outcome, verdict
from scheduler.simulate import Simulation
from scheduler.workload import WorkloadRequest
from tests.dashboard.lessons import ENGINE, FIXED_S, TOKEN_S, conditions, simulated

STATIC = {"batching": "static", "max_num_seqs": 4, "admission_rule": "worst_case"}


def scene(*burst: Asked) -> Any:
    return replace(BY_NAME["static"], burst=burst)


def values(burst: tuple[Asked, ...], policy: dict[str, Any], kv_tokens: int | None = None) -> dict[str, float | None]:
    run = simulated(scene(*burst), Side("", policy, kv_tokens))
    return {name: value.number for name, value in run.values.items()}


@pytest.mark.parametrize(("batch", "longest"), [(2, 2), (4, 10), (3, 25)])
def test_the_textbook_case_holds_b_minus_1_times_n_minus_1_slots_and_pads_as_many_tokens(batch, longest):
    """B equal prompts, one answer of n tokens and B - 1 of one: each of these waits n - 1 iterations for the last."""
    burst = (Asked(8, longest), *[Asked(8, 1)] * (batch - 1))
    static = values(burst, STATIC)
    assert static["padding"] == static["held"] == (batch - 1) * (longest - 1)
    assert static["steps"] == longest
    continuous = values(burst, {"max_num_seqs": 4})
    assert (continuous["padding"], continuous["held"], continuous["steps"]) == (0, 0, longest)


def test_left_padding_of_short_prompts_is_padding_and_holds_nobody():
    measured = values((Asked(3, 1), Asked(10, 1)), STATIC)
    assert (measured["padding"], measured["held"]) == (7, 0)


def test_the_known_case_of_twelve_requests_on_four_slots_takes_150_and_83_iterations():
    one = BY_NAME["static"]
    assert simulated(one, one.a).num_steps == 150
    assert simulated(one, one.b).num_steps == 83


def test_waits_and_joins_count_iterations_from_the_arrival():
    """Two slots; the third joins when the first has made its 2 tokens, in iteration 2 (from 0), the fourth in 4."""
    burst = (Asked(4, 2), Asked(4, 9), Asked(4, 2), Asked(4, 2, at=1))
    measured = values(burst, {"max_num_seqs": 2})
    assert measured["joins"] == 2
    assert measured["wait"] == (0 + 0 + 2 + 3) / 4
    assert (measured["longest_wait"], measured["max_running"]) == (3, 2)
    assert measured["steps"] == 9


def test_latencies_add_up_the_iterations_they_span():
    """One decodes (prompt 4); in iteration 2 a prompt of 40 arrives and is computed whole beside it."""
    burst = (Asked(4, 5), Asked(40, 2, at=2, role="long"))
    measured = values(burst, {"max_num_batched_tokens": 64})
    one, both = FIXED_S + TOKEN_S, FIXED_S + 41 * TOKEN_S
    assert measured["itl_max"] == pytest.approx(1000 * both)
    assert measured["ttft_long"] == pytest.approx(1000 * both)
    assert (measured["ttft_long_steps"], measured["gap_tokens"], measured["gap_steps"]) == (1, 41, 1)
    total = (FIXED_S + 4 * TOKEN_S) + one + both + (FIXED_S + 2 * TOKEN_S) + one
    assert measured["total_ms"] == pytest.approx(1000 * total)
    assert measured["tokens_per_s"] == pytest.approx(7 / total)
    assert measured["mixed"] == 1


def test_a_percentile_of_too_few_samples_is_no_number_and_says_so():
    run = simulated(scene(Asked(4, 5)), Side("", {}))
    assert run.values["itl_p95"] == Value(None, 4)
    words = number_words("itl_p95", run.values["itl_p95"], translator("en"))
    assert words == f"too few: n = 4, {ENOUGH} needed"
    assert simulated(scene(Asked(4, ENOUGH + 1)), Side("", {})).values["itl_p95"].number is not None


def test_other_requests_count_as_strangers_and_in_no_fact_of_the_scene():
    three = scene(Asked(4, 6), Asked(4, 3), Asked(4, 3))
    whole = simulated(three, Side("", {}))
    assert (whole.strangers, whole.num_requests, whole.values["ended"].number) == (0, 3, 3)
    burst = [WorkloadRequest(n, 0, 4, size) for n, size in (("mine", 6), ("other", 3), ("third", 3))]
    run = Simulation(policy_of(Side("", {}), ENGINE), burst, num_blocks=192, block_size=16, max_model_len=512)
    seen = [Seen(step, 1.0) for _, step in run.run()]
    mine = measure(trimmed(seen, {"mine": Own("other")}))
    assert (mine.strangers, mine.num_requests, mine.num_steps) == (2, 1, 6)
    assert mine.values["max_running"].number == 1
    assert mine.values["tokens_per_s"].number == 1.0


def result_of(name: str, a: dict[str, float | None], b: dict[str, float | None]) -> Result:
    one = BY_NAME[name]
    measured = simulated(one, one.b)
    sides = [
        replace(measured, values={**measured.values, **{k: Value(v, 9) for k, v in given.items()}}) for given in (a, b)
    ]
    return Result(name, *sides, conditions())


def test_the_measurement_decides_and_not_what_theory_expects():
    one = BY_NAME["starve"]
    otherwise = result_of("starve", {"itl_max": 10.0}, {"itl_max": 20.0})
    assert direction(otherwise, "itl_max") == "more" != one.expected
    assert answer_of(one, otherwise) == 2
    assert "otherwise than theory" in verdict(one, otherwise).message
    assert outcome(one, otherwise)[0] == verdict(one, otherwise)
    as_expected = result_of("starve", {"itl_max": 20.0}, {"itl_max": 10.0})
    assert answer_of(one, as_expected) == 0
    assert "as theory expects" in verdict(one, as_expected).message


def test_times_within_5_percent_are_about_the_same_and_counts_must_be_equal():
    assert direction(result_of("starve", {"itl_max": 100.0}, {"itl_max": 104.0}), "itl_max") == "same"
    assert direction(result_of("static", {"steps": 100.0}, {"steps": 101.0}), "steps") == "more"
    assert direction(result_of("static", {"steps": None}, {"steps": 1.0}), "steps") is None


def test_every_fact_that_a_scene_names_exists():
    named = {name for one in BY_NAME.values() for name in one.facts}
    assert named <= set(FACTS)
