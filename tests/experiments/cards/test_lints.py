"""Each lint fires on the comparison it is for, with its numbers, and is silent on one without that fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from experiments.cards.card import Card
from experiments.cards.lints import CHECKS
from experiments.record import RequestRow, Run
from tests.experiments.cards.hand import (
    CONTINUOUS,
    FACTS,
    STATIC,
    baseline,
    candidate,
    card,
    request,
    requests,
    under,
    with_rows,
)

THROUGHPUT = replace(FACTS, headline="output_tokens_per_s")


def found(made: Card) -> dict[str, str]:
    return {lint.key: lint.text.told() for lint in made.lints}


def queueing(per_s: float, gap: float = 0.02) -> tuple[RequestRow, ...]:
    """One arrives every 0.5 s, ``per_s`` are let in a second: below 2 the queue grows by half a request and more."""
    return tuple(
        request(n, due=0.5 * n, wait=max(0.1, n / per_s - 0.5 * n), gap=gap, tokens=6 + n % 9) for n in range(120)
    )


def at_once() -> tuple[RequestRow, ...]:
    return tuple(request(n, due=0.0, wait=0.2 * n, gap=0.02, tokens=6 + n % 9) for n in range(120))


def first(change: Callable[[RequestRow], RequestRow | None]) -> Callable[[RequestRow], RequestRow | None]:
    return lambda row: change(row) if row.request_id == "r000" else row


def left(row: RequestRow) -> RequestRow:
    return replace(row, outcome="unfinished", end_s=None)


def out(row: RequestRow) -> RequestRow:
    return replace(
        row, outcome="rejected", first_scheduled_s=None, last_scheduled_s=None, token_times_s=(), num_output_tokens=0
    )


def silent(row: RequestRow) -> RequestRow:
    """Every gap of the candidate above the limit of 0.1 s."""
    return replace(row, token_times_s=tuple(row.token_times_s[0] + 0.11 * n for n in range(len(row.token_times_s))))


def more_tokens(a: float, b: float) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Arms whose walls differ, so that their throughput does."""
    slow = tuple(replace(run, wall_s=a) for run in baseline())
    return slow, with_rows(tuple(replace(run, wall_s=b) for run in candidate()), silent)


def counted_with_inputs(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    both = (sum(row.prompt_len + row.output_len for row in run.requests) for run in runs)
    return tuple(replace(run, totals=replace(run.totals, output_tokens=n)) for run, n in zip(runs, both, strict=True))


LOADED = {"processor": "hand made", "cores": 2, "load": [3.1, 0.5, 0.5]}
TWO = replace(CONTINUOUS, allocation="buddy")
TWO_OF_ONE = replace(STATIC, preemption_victim="most_blocks", preemption_requeue="back")


@dataclass(frozen=True)
class Fires:
    key: str
    make: Callable[[], Card]
    says: tuple[str, ...]
    stops: bool = False


FIRING = (
    Fires("several_knobs", lambda: card(b=candidate(policy=TWO)), (
        "2 knobs changed at once, of 2 decisions",
        "batching (batching: static → continuous)", "allocation (allocation: paged → buddy)",
    )),
    Fires("several_knobs", lambda: card(b=candidate(policy=TWO_OF_ONE)), (
        "2 knobs changed at once, of 1 decision:", "preemption_victim: newest → most_blocks",
    )),
    Fires("equal_policies", lambda: card(b=candidate(policy=STATIC)), ("policies are equal",)),
    Fires("equal_lengths", lambda: card(
        a=baseline(tuple(request(n, due=0.5 * n, wait=0.3, gap=0.04, tokens=14) for n in range(120)))
    ), ("deviation 0.0 % of the mean",)),
    Fires("equal_lengths", lambda: card(a=with_rows(baseline(), lambda row: replace(row, num_output_tokens=24))), (
        "more tokens than were asked for in 114 requests",
    )),
    Fires("few_for_p99", lambda: card(baseline(requests(99)), candidate(requests(99))), ("from 99 requests a run",)),
    Fires("few_for_p99", lambda: card(
        baseline(requests(99)), candidate(requests(99)), replace(FACTS, headline="ttft_p99_s")
    ), ("ttft_p99_s",), stops=True),
    Fires("saturated", lambda: card(a=baseline(queueing(1.0))), ("queue of static kept growing",)),
    Fires("burst", lambda: card(baseline(at_once()), candidate(at_once())), ("came at about once",)),
    Fires("not_saturated", lambda: card(facts=THROUGHPUT), ("what was offered",)),
    Fires("goodput_falls", lambda: card(*more_tokens(120.0, 60.0)), (
        "Throughput rises (+100.0 %) while goodput falls (-100.0 %)",
    )),
    Fires("inputs_as_outputs", lambda: card(facts=replace(FACTS, headline="total_tokens_per_s")), (
        "claim output_tokens_per_s",
    ), stops=True),
    Fires("inputs_as_outputs", lambda: card(b=counted_with_inputs(candidate())), (
        # 120 requests of 16 + n % 7 prompt and 5 + 7 n % 20 output tokens: 2277 in, 1740 out
        "continuous/0 counts 4,017 output tokens and delivered 1,740",
    ), stops=True),
    Fires("different_sets", lambda: card(b=with_rows(candidate(), first(lambda row: out(row)))), (
        "static/0 and continuous/0 let in different requests (1, first r000)",
    ), stops=True),
    Fires("different_sets", lambda: card(b=with_rows(candidate(), first(
        lambda row: replace(row, num_output_tokens=4, token_times_s=row.token_times_s[:4])
    ))), ("for r000 (5 and 4)",), stops=True),
    Fires("no_difference", lambda: card(b=candidate(requests(wait=0.3, gap=0.04))), ("holds no difference",)),
    Fires("single_repeat", lambda: card(b=candidate(repeats=1)), ("continuous ran once",)),
    Fires("one_after_the_other", lambda: card(
        tuple(replace(run, position=n) for n, run in enumerate(baseline())),
        tuple(replace(run, position=2 + n) for n, run in enumerate(candidate())),
    ), ("All runs of one arm came before",)),
    Fires("warm_cache", lambda: card(under(baseline(), cache_state="warm"), under(candidate(), cache_state="warm")), (
        "static/0 was not empty at the start (warm)",
    )),
    Fires("unfinished", lambda: card(b=tuple(
        replace(run, stopped="cancelled") for run in with_rows(candidate(), first(left))
    )), ("static 0, continuous 2 (cancelled)",)),
    Fires("rejected", lambda: card(with_rows(baseline(), first(out)), with_rows(candidate(), first(out))), (
        "static 2, continuous 2",
    )),
    Fires("much_overhead", lambda: card(b=under(candidate(), overhead_share=0.08)), ("up to 8.0 % of the wall time",)),
    Fires("busy_machine", lambda: card(
        under(baseline(), machine=LOADED), under(candidate(), machine=LOADED)
    ), ("a load of 3.1 on 2 cores before static/0",)),
    Fires("paced", lambda: card(b=candidate(policy=replace(CONTINUOUS, step_delay_ms=50.0))), (
        "continuous/0, continuous/1 paused",
    ), stops=True),
    Fires("simulated", lambda: card(
        under(baseline(), kind="simulated", cost_model="c"), under(candidate(), kind="simulated", cost_model="c")
    ), ("no model ran",)),
)  # fmt: skip


@pytest.mark.parametrize("case", FIRING, ids=lambda case: case.key)
def test_a_lint_fires_with_its_numbers(case):
    made = case.make()
    texts = found(made)
    assert case.key in texts, texts
    for part in case.says:
        assert part in texts[case.key]
    lint = next(lint for lint in made.lints if lint.key == case.key)
    assert lint.stops == case.stops
    if case.stops:
        assert made.headline is None
        assert texts[case.key] in [said.told() for said in made.withheld]


def test_every_lint_has_a_case_that_fires():
    assert {case.key for case in FIRING} == {check.key for check in CHECKS}


def test_every_lint_is_in_the_document():
    text = (Path(__file__).resolve().parents[3] / "docs" / "claims.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ((?:`\w+`(?:, )?)+)(?: \*(stops)\*)? \|", text, re.MULTILINE))
    written = {key: bool(stops) for keys, stops in rows.items() for key in re.findall(r"\w+", keys)}
    assert written == {check.key: check.stops for check in CHECKS}


def test_an_honest_comparison_has_no_lint():
    assert found(card()) == {}


def test_a_saturated_arm_is_no_lint_against_its_throughput():
    busy = card(baseline(queueing(1.0)), candidate(queueing(1.2)), THROUGHPUT)
    assert "not_saturated" not in found(busy)
    assert "static, continuous" in found(busy)["saturated"]


def test_goodput_and_throughput_that_rise_together_are_no_lint():
    slow = tuple(replace(run, wall_s=120.0) for run in baseline())
    assert "goodput_falls" not in found(card(slow, tuple(replace(run, wall_s=60.0) for run in candidate())))


def test_one_hundred_requests_are_enough_for_a_p99():
    assert "few_for_p99" not in found(card(baseline(requests(100)), candidate(requests(100))))


def test_the_load_that_the_run_before_left_is_no_other_program():
    own = {**LOADED, "load": [3.0, 2.0, 2.0]}
    assert "busy_machine" not in found(card(under(baseline(), machine=own), under(candidate(), machine=own)))


def test_alternating_arms_are_in_order():
    a = tuple(replace(run, position=place) for run, place in zip(baseline(), (0, 2), strict=True))
    b = tuple(replace(run, position=place) for run, place in zip(candidate(), (1, 3), strict=True))
    assert "one_after_the_other" not in found(card(a, b))
