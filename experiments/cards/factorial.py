"""The card of a factorial: whose improvement is it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.analysis.attribution import HEADLINES, VALID_LABELS, Attribution, Factorial, attribute
from experiments.analysis.bootstrap import RESAMPLES
from experiments.analysis.effects import KEYS, printed
from experiments.analysis.factorial import LABELS, NOTHING_TO_OVERCOMMIT
from experiments.analysis.metrics import METRICS
from experiments.analysis.samples import Slo
from experiments.cards.arms import Arm, all_runs
from experiments.cards.build import arm_of, case_of, commands, headline, reasons, sections_of, without_value
from experiments.cards.card import Card, Row, Section, Table
from experiments.cards.conditions import differs_row, policy_row, tuned_row
from experiments.cards.factorial_tables import NAMES, arms_table, effects_table, harm_table, ledger_table, shares_table
from experiments.cards.facts import Facts, Findings
from experiments.cards.figures import findings_of
from experiments.cards.limits import not_supported
from experiments.cards.lints import lints
from experiments.cards.said import Said, say
from experiments.i18n import N_
from experiments.record import Run

ANSWERED: Final = {"several_knobs"}
"""Lints that the factorial answers."""


def build_factorial_card(
    runs: Sequence[Run], facts: Facts, slo: Slo | None = None, *, resamples: int = RESAMPLES
) -> Card:
    """From the runs of the twelve arms, told apart by their labels; any of them may still be missing.

    The headline is the change from "0000" to "1111" and how the four decisions share it (Shapley).
    Raises ValueError for a run whose label is none of the sixteen.
    """
    stranger = next((run for run in runs if run.label not in LABELS), None)
    if stranger is not None:
        raise ValueError(f"label is {stranger.label!r:.80}, expected four bits such as '0000' or '1101'")
    arms = tuple(arm_of(label, [run for run in runs if run.label == label]) for label in VALID_LABELS)
    complete = all(arm.runs for arm in arms)
    result = attribute(runs, slo, metrics=_metrics(facts, slo), resamples=resamples) if complete else None
    found = findings_of(result.before_after, arms[0].runs, arms[-1].runs, facts) if result else Findings(facts, slo)
    case = case_of(arms, found)
    weak = tuple(lint for lint in lints(case) if lint.key not in ANSWERED) if complete else ()
    sections = sections_of(_comparison(arms, facts), arms, found)
    withheld = (*reasons(sections, weak), *without_value(case))
    claimed = result.attributions.get(facts.headline) if result else None
    return Card(
        kind="factorial",
        title=facts.title,
        headline=None if withheld or claimed is None else _shared(headline(case), claimed),
        withheld=withheld or (() if claimed else (say(N_("{metric} has no value"), metric=facts.headline),)),
        lints=weak,
        figures=found.figures,
        tables=_tables(result, arms, facts) if result else (),
        sections=sections,
        not_supported=not_supported(arms, found),
        commands=commands(all_runs(arms)),
    )


def _metrics(facts: Facts, slo: Slo | None) -> tuple[str, ...]:
    """The metric of the claim and the usual ones; goodput only where there are limits."""
    names = (facts.headline, *HEADLINES)
    return tuple(dict.fromkeys(name for name in names if name in METRICS and (slo or name != "goodput_rps")))


def _comparison(arms: tuple[Arm, ...], facts: Facts) -> Section:
    rows = (
        policy_row("baseline", say(N_("Baseline: none of the four decisions")), arms[0]),
        tuned_row(facts),
        policy_row("candidate", say(N_("All four decisions")), arms[-1]),
        differs_row(arms[0], arms[-1]),
        _all_arms(arms),
        Row("not_made", say(N_("Combinations that do not exist")), _not_made()),
    )
    return Section("comparison", say(N_("What is compared")), rows)


def _all_arms(arms: tuple[Arm, ...]) -> Row:
    label = say(N_("Combinations that ran"))
    empty = ", ".join(arm.label for arm in arms if not arm.runs)
    if empty:
        return Row("arms", label, None, say(N_("there is no run of {label}"), label=empty))
    unequal = next((row for arm in arms if (row := policy_row("arms", label, arm)).missing is not None), None)
    if unequal is not None:
        return unequal
    bits = tuple(say("{place}. {name}", place=place, name=name) for place, name in enumerate(NAMES.values(), 1))
    return Row("arms", label, say(N_("{n}; the bits of a label: {bits}"), n=len(arms), bits=bits))


def _not_made() -> Said:
    labels = ", ".join(label for label in LABELS if label not in VALID_LABELS)
    return say("{labels}: {why}", labels=labels, why=Said(NOTHING_TO_OVERCOMMIT))


def shares_of_gain(found: Attribution) -> dict[str, str]:
    """Factor -> "61.2 %" of the gain; together 100.0 %. Empty where the gain is not clear, or none."""
    if not found.gain.change or found.gain.verdict == "unclear":
        return {}
    shares = {part.members[0]: 100 * part.change / found.gain.change for part in found.shares}
    return {key: f"{value:,} %" for key, value in printed(shares, 1).items()}


def _shared(claim: Said, found: Attribution) -> Said:
    shares = shares_of_gain(found)
    if not shares:
        return claim
    parts = tuple(say("{name} {share}", name=NAMES[key], share=shares[key]) for key in KEYS)
    return say(N_("{claim} Of this change: {parts} (Shapley shares)."), claim=claim, parts=parts)


def _tables(result: Factorial, arms: tuple[Arm, ...], facts: Facts) -> tuple[Table, ...]:
    shares = [shares_table(found, shares_of_gain(found)) for found in result.attributions.values()]
    claimed = result.attributions.get(facts.headline)
    effects = [effects_table(claimed)] if claimed else []
    return (*shares, *effects, harm_table(result.harm), ledger_table(result.ledgers), arms_table(arms))
