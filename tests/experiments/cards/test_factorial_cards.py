"""The card of a factorial shares the change out among four decisions; of a chunk microscope, it finds the knee."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from experiments.analysis.attribution import VALID_LABELS
from experiments.analysis.factorial import arms
from experiments.analysis.ledger import before_and_after
from experiments.cards.card import Card, Table
from experiments.cards.chunk import build_chunk_card
from experiments.cards.encode import from_json, to_json
from experiments.cards.factorial import build_factorial_card
from experiments.cards.factorial_tables import LINES
from experiments.cards.facts import Facts
from experiments.cards.markdown import to_markdown
from experiments.record import Run
from scheduler import SchedulerPolicy
from tests.experiments.cards.hand import FACTS, LIMITS, made, request, requests, with_rows

POLICIES = {arm.label: arm.policy for arm in arms(SchedulerPolicy(), 512)}


def wait_of(label: str) -> float:
    """TTFT is 1 s less 0.4 for iteration-level batching, 0.2 for paging and 0.2 more for both, 0.1 for chunks."""
    iteration, paged, _, chunked = (bit == "1" for bit in label)
    return 1.0 - 0.4 * iteration - 0.2 * paged - 0.2 * (iteration and paged) - 0.1 * chunked


def factorial_runs() -> list[Run]:
    labels = [*VALID_LABELS, *reversed(VALID_LABELS)]
    return [
        made(label, place // 12, place, POLICIES[label], requests(wait=wait_of(label), gap=0.01))
        for place, label in enumerate(labels)
    ]


def of_factorial(runs: list[Run], facts: Facts = FACTS) -> Card:
    return build_factorial_card(runs, facts, LIMITS, resamples=20)


def table_of(card: Card, key: str) -> Table:
    return next(table for table in card.tables if table.key == key)


def test_the_headline_of_a_factorial_shares_the_change_as_shapley_does():
    card = of_factorial(factorial_runs())
    assert card.withheld == ()
    assert card.headline is not None
    # Of 0.9 s: iteration 0.4 + half of the 0.2 that both make together = 0.5, paging 0.2 + 0.1, chunks 0.1.
    words = card.headline.told()
    assert "iteration-level batching 55.6 %; paged allocation 33.3 %; " in words
    assert "optimistic admission with preemption 0.0 %; chunked prefill 11.1 %" in words
    rows = table_of(card, "shares ttft_p50_s").cells
    amounts = [row[1].told() for row in rows]
    assert amounts == ["-0.5 s", "-0.3 s", "+0 s", "-0.1 s", "-0.9 s"] or amounts[2].startswith("-0 ")
    assert [row[2].told() for row in rows][-1] == "100.0 %"


def test_a_factorial_answers_what_two_arms_leave_open():
    assert "several_knobs" not in {lint.key for lint in of_factorial(factorial_runs()).lints}


def test_a_factorial_without_one_arm_has_no_headline_and_names_it():
    runs = [run for run in factorial_runs() if run.label != "1101"]
    card = of_factorial(runs)
    assert card.headline is None
    (row,) = [row for row in card.missing if row.key == "arms"]
    assert row.missing is not None
    assert row.missing.told() == "there is no run of 1101"


def test_a_condition_that_differs_in_an_arm_between_is_found():
    runs = factorial_runs()
    runs[5] = replace(runs[5], conditions=replace(runs[5].conditions, dtype="bfloat16"))
    card = of_factorial(runs)
    assert card.headline is None
    assert [row.key for row in card.missing] == ["dtype"]


def test_an_arm_between_that_did_other_work_is_found():
    runs = factorial_runs()
    runs[5:6] = with_rows(runs[5:6], lambda row: None if row.request_id == "r007" else row)
    keys = {lint.key for lint in of_factorial(runs).lints}
    assert "different_sets" in keys


def test_a_label_that_is_none_of_the_sixteen_is_refused():
    with pytest.raises(ValueError, match="'static'"):
        of_factorial([replace(factorial_runs()[0], label="static")])


def test_every_line_of_the_ledger_has_words():
    run = factorial_runs()[0]
    assert {(line.group, line.name) for line in before_and_after([run], [run])} == set(LINES)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_card_of_a_factorial_reads_in_both_languages(language):
    card = of_factorial(factorial_runs())
    text = to_markdown(card, language)
    assert from_json(to_json(card)) == card
    for label in VALID_LABELS:
        assert f"| {label} |" in text
    assert not re.search(r"\{\w+\}", text)


def chunk_runs(itl: Callable[[int], float], ttft: Callable[[int], float]) -> list[tuple[str, list[Run]]]:
    """Sizes 16 to 128; every sixth prompt is long."""
    sizes = [16, 32, 64, 128]

    def run(size: int, repeat: int, place: int) -> Run:
        rows = []
        for n in range(120):
            long = n % 6 == 0
            row = request(n, due=0.5 * n, wait=ttft(size) if long else 0.1, gap=itl(size), tokens=6 + n % 9)
            rows.append(replace(row, prompt_len=400 if long else 20))
        return made(f"chunk-{size}", repeat, place, SchedulerPolicy(max_num_batched_tokens=size), tuple(rows))

    return [(f"chunk-{size}", [run(size, 0, n), run(size, 1, 7 - n)]) for n, size in enumerate(sizes)]


def chunk_card(runs: list[tuple[str, list[Run]]]) -> Card:
    return build_chunk_card(runs, 400, FACTS, LIMITS, resamples=20)


def test_the_headline_of_a_chunk_microscope_is_the_knee():
    # TTFT falls steeply to 32 and no more; ITL rises with the size: the corner is at 32.
    card = chunk_card(chunk_runs(lambda size: size / 2000, lambda size: {16: 2.0, 32: 0.6, 64: 0.5, 128: 0.45}[size]))
    assert card.withheld == ()
    assert card.headline is not None
    words = card.headline.told()
    # first token = due + wait + gap: 2 + 16/2000 and 0.45 + 128/2000; the knee 0.6 + 32/2000
    assert "goes from 2.008 to 0.514 s, the p99 of the others' ITL from 0.008 to 0.064 s" in words
    assert (
        "the knee is at 32 tokens (resamples: 32 to 32), with 0.616 and 0.016 s; measured, 2 runs of 120 requests each."
        in words
    )
    assert [row[2].told() for row in table_of(card, "chunk").cells] == ["20"] * 4, "of a run"
    assert {"several_knobs", "few_for_p99"}.isdisjoint(lint.key for lint in card.lints)
    assert from_json(to_json(card)) == card
    assert not re.search(r"\{\w+\}", to_markdown(card, "ko"))


def test_a_chunk_microscope_without_a_trade_says_that_there_is_no_knee():
    card = chunk_card(chunk_runs(lambda size: size / 2000, lambda size: size / 100))
    assert card.headline is not None
    assert "no knee: over these sizes neither time is traded for the other" in card.headline.told()


def test_a_chunk_microscope_without_one_size_has_no_headline():
    runs = chunk_runs(lambda size: size / 2000, lambda size: 1 / size)
    card = chunk_card([*runs[:2], ("chunk-64", []), runs[3]])
    assert card.headline is None
    assert "there is no run of chunk-64" in [row.missing.told() for row in card.missing if row.missing]
