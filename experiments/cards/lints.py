"""Checks of a comparison of two arms: each says what makes the claim weaker, with the numbers that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from experiments.cards import lints_results as results
from experiments.cards import lints_work as work
from experiments.cards.card import Lint
from experiments.cards.case import Case
from experiments.cards.said import Said


@dataclass(frozen=True, slots=True)
class _Check:
    key: str
    stops: bool
    find: Callable[[Case], Said | None]


CHECKS: Final = (
    _Check("different_sets", True, work.different_sets),
    _Check("inputs_as_outputs", True, work.inputs_as_outputs),
    _Check("paced", True, work.paced),
    _Check("several_knobs", False, results.several_knobs),
    _Check("equal_policies", False, results.equal_policies),
    _Check("goodput_falls", False, results.goodput_falls),
    _Check("no_difference", False, results.no_difference),
    _Check("single_repeat", False, results.single_repeat),
    _Check("one_after_the_other", False, results.one_after_the_other),
    _Check("few_for_p99", False, results.few_for_p99),
    _Check("saturated", False, results.saturated),
    _Check("burst", False, results.burst),
    _Check("not_saturated", False, results.not_saturated),
    _Check("equal_lengths", False, work.equal_lengths),
    _Check("unfinished", False, work.unfinished),
    _Check("rejected", False, work.rejected),
    _Check("warm_cache", False, results.warm_cache),
    _Check("much_overhead", False, results.much_overhead),
    _Check("busy_machine", False, results.busy_machine),
    _Check("simulated", False, results.simulated),
)
"""Key, whether it keeps the headline back, and the check, in the order of a card."""


def lints(case: Case) -> tuple[Lint, ...]:
    """Every check that finds something. A p99 of too few requests also stops a headline that is one."""
    found = []
    for check in CHECKS:
        text = check.find(case)
        if text is not None:
            stops = check.stops or (check.key == "few_for_p99" and case.facts.headline.endswith("_p99_s"))
            found.append(Lint(check.key, stops, text))
    return tuple(found)
