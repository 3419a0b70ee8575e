"""What a card does not support follows from what its runs saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from experiments.cards.card import Card
from tests.experiments.cards.hand import (
    CONTINUOUS,
    FACTS,
    baseline,
    candidate,
    card,
    request,
    requests,
    under,
    with_rows,
)


def sentences(made: Card) -> str:
    return "\n".join(said.told() for said in made.not_supported)


def full() -> Card:
    steps = tuple(replace(step, used_blocks=64) for step in candidate()[0].steps)
    return card(b=tuple(replace(run, steps=steps) for run in candidate()))


def half() -> Card:
    runs = [
        tuple(replace(r, steps=(replace(r.steps[0], used_blocks=32),)) for r in a) for a in (baseline(), candidate())
    ]
    return card(*runs)


def fewer() -> Card:
    return card(baseline(requests(99)), candidate(requests(99)))


def evicted() -> Card:
    return card(b=with_rows(candidate(), lambda row: replace(row, num_preemptions=1)))


def ranked() -> Card:
    return card(b=with_rows(candidate(), lambda row: replace(row, priority=row.prompt_len % 2)))


def at_once() -> Card:
    rows = tuple(request(n, due=0.0, wait=0.2 * n, gap=0.02, tokens=6 + n % 9) for n in range(120))
    return card(baseline(rows), candidate(rows))


def cached() -> Card:
    return card(b=candidate(policy=replace(CONTINUOUS, enable_prefix_caching=True)))


def ending() -> Card:
    return card(under(baseline(), ignore_eos=False), under(candidate(), ignore_eos=False))


def simulated() -> Card:
    changes = {"kind": "simulated", "cost_model": "7 ms a step"}
    return card(under(baseline(), **changes), under(candidate(), **changes))


@pytest.mark.parametrize(
    ("says", "where", "where_not"),
    [
        ("Prompts outside 16 to 22 tokens, outputs outside 5 to 24 tokens", card, None),
        ("Loads above 2 requests/s", card, at_once),
        ("here all 120 came at once", at_once, card),
        ("Memory that is short: at the peak 32 of 64 blocks", half, full),
        ("nobody was evicted", card, evicted),
        ("all had the same", card, ranked),
        ("the prefix cache was off", card, cached),
        ("every output had its length from the trace", card, ending),
        ("Other models than toy, or number formats than float32", card, simulated),
        ("cost model 7 ms a step", simulated, card),
        ("a tuned baseline", lambda: card(facts=replace(FACTS, tuned=False)), card),
        (
            "Percentiles beyond the 99th: 120 finished",
            card,
            fewer,
        ),
        ("99 finished requests a run are too few", fewer, card),
        ("other limits than TTFT ≤ 1 s, TPOT ≤ 0.1 s", card, lambda: card(slo=None)),
        ("no limits were set", lambda: card(slo=None), card),
        ("one trace was run, with seeds 7", card, None),
    ],
)
def test_a_sentence_stands_where_the_data_draw_the_line(
    says: str, where: Callable[[], Card], where_not: Callable[[], Card] | None
):
    assert says in sentences(where())
    if where_not is not None:
        assert says not in sentences(where_not())


def test_without_a_run_there_is_nothing_to_say():
    assert card((), ()).not_supported == ()
