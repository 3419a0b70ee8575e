"""A headline number stands only while every condition is known; what is missing is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from experiments.cards.card import Card
from experiments.cards.encode import from_json, to_json
from experiments.cards.facts import Findings
from experiments.cards.markdown import to_markdown
from experiments.cards.procedure import metrics_section
from experiments.record import RequestRow, Run
from experiments.trace import TraceOrigin
from tests.experiments.cards.hand import (
    CONTINUOUS,
    FACTS,
    LIMITS,
    STATIC,
    baseline,
    candidate,
    card,
    request,
    under,
    with_rows,
)

Break = Callable[[], Card]


def in_all(**changes: object) -> Break:
    return lambda: card(under(baseline(), **changes), under(candidate(), **changes))


def in_one(**changes: object) -> Break:
    return lambda: card(baseline(), (candidate()[0], *under(candidate()[1:], **changes)))


def of_run(runs: Sequence[Run], **changes: object) -> tuple[Run, ...]:
    return tuple(replace(run, **changes) for run in runs)


FEW = tuple(request(n, due=0.5 * n, wait=0.1, gap=0.02, tokens=5 + n) for n in range(5))
ONE = FEW[:1]
SHORT = tuple(request(n, due=0.5 * n, wait=0.1, gap=0.02, tokens=1) for n in range(120))

BREAKS: dict[str, tuple[Break, ...]] = {
    "baseline": (
        lambda: card(a=()),
        lambda: card(a=(baseline()[0], replace(baseline()[1], policy=CONTINUOUS))),
    ),
    "tuned": (
        lambda: card(facts=replace(FACTS, tuned=None)),
        lambda: card(facts=replace(FACTS, tuned=True, tuning="")),
    ),
    "candidate": (lambda: card(b=()), lambda: card(b=(candidate()[0], replace(candidate()[1], policy=STATIC)))),
    "differs": (lambda: card(b=()),),
    "kind": (in_all(kind=""), in_one(kind="simulated")),
    "model": (in_all(model=""), in_one(model="other")),
    "weights": (in_all(model_sha256=""), in_one(model_sha256="cd34")),
    "dtype": (in_all(dtype=""), in_one(dtype="bfloat16")),
    "device": (in_all(device=""), in_one(device="cuda:0")),
    "threads": (in_all(threads=0), in_one(threads=4)),
    "versions": (in_all(versions={}), in_one(versions={"torch": "2.11.0"})),
    "machine": (in_all(machine={}), in_one(machine={"processor": "another", "cores": 2, "load": [0.1]})),
    "kv_budget": (in_all(num_blocks=0), in_one(num_blocks=32), in_one(block_size=8)),
    "host_blocks": (in_one(num_host_blocks=8),),
    "context": (in_all(max_model_len=0), in_one(max_model_len=1024)),
    "cache_state": (in_all(cache_state=""), in_one(cache_state="warm")),
    "trace": (
        lambda: card(of_run(baseline(), trace_sha256=""), of_run(candidate(), trace_sha256="")),
        lambda: card(b=of_run(candidate(), trace_sha256="e" * 64)),
    ),
    "origin": (
        lambda: card(b=of_run(candidate(), trace_origin=TraceOrigin("", ""))),
        lambda: card(b=of_run(candidate(), trace_origin=TraceOrigin("azure-2023", "conversation"))),
    ),
    "arrivals": (
        lambda: card(baseline(ONE), candidate(ONE)),
        lambda: card(b=with_rows(candidate(), lambda row: replace(row, due_s=row.due_s * 2))),
    ),
    "prompt_lengths": (
        lambda: card(b=with_rows(candidate(), lambda row: replace(row, prompt_len=row.prompt_len + 1))),
    ),
    "output_lengths": (
        lambda: card(b=with_rows(candidate(), lambda row: replace(row, output_len=row.output_len + 1))),
    ),
    "eos": (in_one(ignore_eos=False),),
    "changes": (lambda: card(b=of_run(candidate(), trace_origin=replace(baseline()[0].trace_origin, truncated=3))),),
    "warm_up": (in_all(warm_up=""), in_one(warm_up="none")),
    "order": (lambda: card(of_run(baseline(), position=0)),),
    "repeats": (lambda: card(b=()),),
    "spread": (lambda: card(baseline(repeats=1)), lambda: card(b=candidate(repeats=1))),
    "seeds": (in_one(seed=8),),
    "overhead": (in_all(overhead_share=None), in_one(overhead_share=None)),
    "command": (in_all(command=""), in_one(command="")),
    "measured_where": (in_all(measured_where=""), in_one(measured_where="at the client")),
    "samples": (lambda: card(a=baseline(SHORT)),),
    "intervals": (lambda: card(a=()),),
    "slo": (lambda: card(slo=None),),
    "ended": (lambda: card(a=()),),
    "saturation": (lambda: card(baseline(FEW), candidate(FEW)),),
    "preemptions": (lambda: card(a=()),),
}
"""Condition -> comparisons in which it is not known, or not the same in all runs."""


def test_a_complete_card_has_its_headline_with_interval_and_conditions():
    complete = card()
    assert complete.missing == ()
    assert complete.withheld == ()
    assert complete.headline is not None
    words = complete.headline.told()
    # first token 0.3 + 0.04 and 0.3 + 0.041 s after it is due, against 0.1 + 0.02 and 0.1 + 0.021
    assert words.startswith(f"ttft_p50_s {0.1205 / 0.3405 - 1:+.1%}".replace("%", " %"))
    assert "0.3405 → 0.1205 s, measured, 2 runs of 120 requests each" in words


@pytest.mark.parametrize(("key", "number"), [(key, n) for key, breaks in BREAKS.items() for n in range(len(breaks))])
def test_a_card_without_one_condition_has_no_headline_and_names_it(key, number):
    broken = BREAKS[key][number]()
    assert broken.headline is None
    row = next((row for row in broken.missing if row.key == key), None)
    assert row is not None, [row.key for row in broken.missing]
    assert row.missing is not None
    reason = f"{row.label.told()}: {row.missing.told()}"
    assert reason in [said.told() for said in broken.withheld]
    assert "No headline number" in to_markdown(broken)
    assert from_json(to_json(broken)) == broken


def test_the_conditions_that_can_be_missing_are_all_that_a_card_has():
    keys = {row.key for section in card().sections for row in section.rows}
    assert keys == {*BREAKS, "formulas"}


def test_a_metric_without_a_formula_takes_the_headline_back():
    figures = tuple(replace(figure, formula="") for figure in card().figures[:1])
    rows = metrics_section((), Findings(FACTS, LIMITS, figures)).rows
    bare = next(row for row in rows if row.key == "formulas")
    assert bare.missing is not None
    assert figures[0].name in bare.missing.told()


def test_a_simulated_card_says_so_in_its_headline_and_needs_a_cost_model_instead_of_weights():
    changes = {
        "kind": "simulated",
        "model_sha256": "",
        "threads": 0,
        "overhead_share": None,
        "cost_model": "a + b tokens",
    }
    simulated = card(under(baseline(), **changes), under(candidate(), **changes))
    assert simulated.headline is not None
    assert ", simulated, " in simulated.headline.told()
    assert "simulated" in [lint.key for lint in simulated.lints]
    bare = card(under(baseline(), **changes | {"cost_model": ""}), under(candidate(), **changes | {"cost_model": ""}))
    assert [row.key for row in bare.missing] == ["cost_model"]


def test_a_headline_without_a_clear_difference_says_so_first():
    same = card(b=tuple(replace(run, label="again", position=p) for run, p in zip(baseline(), (1, 2), strict=True)))
    assert same.headline is not None
    assert same.headline.told().startswith("No clear difference in ttft_p50_s: +0.0 %")


def test_a_headline_names_what_got_worse():
    def late(row: RequestRow) -> RequestRow:
        return replace(row, token_times_s=tuple(time + 0.5 * n for n, time in enumerate(row.token_times_s)))

    slower = with_rows(candidate(), late)
    told = card(b=slower).headline
    assert told is not None
    assert "Worse: " in told.told()
    assert "tpot_p50_s +" in told.told().partition("Worse: ")[2]


def test_the_same_runs_in_another_order_give_the_same_card():
    assert card(baseline()[::-1], candidate()[::-1]) == card()
