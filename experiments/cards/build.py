"""Makes the card of a comparison: a pure function of its runs, the limits and what was said about the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from experiments.analysis.bootstrap import RESAMPLES
from experiments.analysis.samples import Slo
from experiments.cards.arms import Arm, all_runs
from experiments.cards.card import Card, Figure, Lint, Section
from experiments.cards.case import Case
from experiments.cards.conditions import comparison_section, machine_section, memory_section
from experiments.cards.facts import Facts, Findings
from experiments.cards.figures import compared
from experiments.cards.limits import not_supported
from experiments.cards.lints import lints
from experiments.cards.procedure import metrics_section, outcome_section, procedure_section
from experiments.cards.said import Said, number, percent, say, unit
from experiments.cards.workload import workload_section
from experiments.i18n import N_
from experiments.record import Run


def build_card(
    runs_a: Sequence[Run],
    runs_b: Sequence[Run],
    facts: Facts,
    slo: Slo | None = None,
    *,
    labels: tuple[str, str] = ("baseline", "candidate"),
    resamples: int = RESAMPLES,
) -> Card:
    """The card of baseline ``runs_a`` against ``runs_b``, one Run a repeat, in any order.

    labels: of arms without a run. resamples: draws of the bootstrap. The same runs give the same card. Either arm may
    be empty, as where an experiment broke off: the card then says what is missing. The headline stands only when every
    condition is known and no lint that stops holds.
    """
    arms = (arm_of(labels[0], runs_a), arm_of(labels[1], runs_b))
    complete = all(arm.runs for arm in arms)
    found = compared(arms[0].runs, arms[1].runs, facts, slo, resamples) if complete else Findings(facts, slo)
    case = case_of(arms, found)
    weak = lints(case) if complete else ()
    sections = sections_of(comparison_section(arms, facts), arms, found)
    withheld = (*reasons(sections, weak), *without_value(case))
    return Card(
        kind="ab",
        title=facts.title,
        headline=None if withheld else headline(case),
        withheld=withheld,
        lints=weak,
        figures=found.figures,
        tables=(),
        sections=sections,
        not_supported=not_supported(arms, found),
        commands=commands(all_runs(arms)),
    )


def arm_of(label: str, runs: Sequence[Run]) -> Arm:
    """The repeats in order, under the label that the runs have; ``label`` where there are none."""
    ordered = tuple(sorted(runs, key=lambda run: run.repeat))
    return Arm(ordered[0].label if ordered else label, ordered)


def case_of(arms: tuple[Arm, ...], found: Findings) -> Case:
    """What lints and headline look at."""
    return Case(arms, {figure.name: figure for figure in found.figures}, found.facts)


def without_value(case: Case) -> tuple[Said, ...]:
    """Why the metric of the claim cannot be claimed, where all arms ran and it has no change with an interval."""
    claimed = case.figures.get(case.facts.headline)
    if not all(arm.runs for arm in case.arms) or (claimed is not None and claimed.change_low is not None):
        return ()
    return (say(N_("{metric} has no value that could be compared"), metric=case.facts.headline),)


def sections_of(comparison: Section, arms: tuple[Arm, ...], found: Findings) -> tuple[Section, ...]:
    """Every condition, by kind; ``comparison`` says what is compared."""
    return (
        comparison,
        machine_section(arms),
        memory_section(arms),
        workload_section(arms),
        procedure_section(arms, found),
        metrics_section(arms, found),
        outcome_section(arms),
    )


def reasons(sections: Iterable[Section], found: Iterable[Lint]) -> tuple[Said, ...]:
    """What keeps the headline back: "{condition}: {why}" for each that is missing, then the lints that stop."""
    missing = [
        say("{condition}: {why}", condition=row.label, why=row.missing)
        for section in sections
        for row in section.rows
        if row.missing is not None
    ]
    return (*missing, *(lint.text for lint in found if lint.stops))


def commands(runs: Iterable[Run]) -> tuple[str, ...]:
    """Each command once, in the order of the runs."""
    return tuple(dict.fromkeys(run.conditions.command for run in runs if run.conditions.command))


CLAIMS: Final = {
    "better": N_(
        "{metric} {change} ({low} to {high}) under {candidate} against {baseline}: {old} → {new} {unit}, {how}, "
        "{n} runs of {requests} requests each."
    ),
    "worse": N_(
        "{metric} {change} ({low} to {high}), which is worse, under {candidate} against {baseline}: "
        "{old} → {new} {unit}, {how}, {n} runs of {requests} requests each."
    ),
    "unclear": N_(
        "No clear difference in {metric}: {change} ({low} to {high}) under {candidate} against {baseline}: "
        "{old} → {new} {unit}, {how}, {n} runs of {requests} requests each."
    ),
}
"""Verdict -> headline."""


def headline(case: Case) -> Said:
    """The change with its interval, and what got worse by it."""
    figure = case.figures[case.facts.headline]
    main = say(
        CLAIMS[figure.verdict],
        metric=figure.name,
        change=percent(figure.change or 0.0),
        low=percent(figure.change_low or 0.0),
        high=percent(figure.change_high or 0.0),
        candidate=case.candidate.label,
        baseline=case.baseline.label,
        old=number(figure.levels[0].value or 0.0),
        new=number(figure.levels[-1].value or 0.0),
        unit=unit(figure.unit),
        how=say(N_("measured")) if case.runs[0].conditions.kind == "measured" else say(N_("simulated")),
        n=min(len(arm.runs) for arm in case.arms),
        requests=len(case.runs[0].requests),
    )
    others = (other for other in case.figures.values() if other.verdict == "worse" and other.name != figure.name)
    worse = tuple(say("{metric} {change}", metric=other.name, change=_change(other)) for other in others)
    return say(N_("{claim} Worse: {worse}."), claim=main, worse=worse) if worse else main


def _change(figure: Figure) -> str:
    """In per cent, or as "0 → 3" where the baseline has none."""
    if figure.change is not None:
        return percent(figure.change)
    return f"{number(figure.levels[0].value or 0.0)} → {number(figure.levels[-1].value or 0.0)}"
