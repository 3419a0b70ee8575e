"""How the runs were made, what was measured and where, and how the requests ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from experiments.analysis.samples import Slo
from experiments.cards.arms import Arm, agreed, all_runs, run_name
from experiments.cards.card import Figure, Row, Section
from experiments.cards.conditions import SIMULATED
from experiments.cards.facts import Findings
from experiments.cards.said import Said, free, number, percent, plain, say, unit
from experiments.i18n import N_
from experiments.record import Run

SIMULATED_TEXTS: Final = (N_("none needed"), N_("end of the virtual step that samples the token"))
"""Warm-up and point of delivery as simulated runs name them, so that the catalogue has them."""


def procedure_section(arms: tuple[Arm, ...], found: Findings) -> Section:
    """Warm-up, order, repeats and their spread, seeds, own overhead, command."""
    runs = all_runs(arms)
    return Section(
        "procedure",
        say(N_("How the runs were made")),
        (
            agreed("warm_up", say(N_("Before the clock")), runs, lambda run: run.conditions.warm_up, free),
            _order(arms),
            _repeats(arms, found.facts.planned),
            _spread(arms, found),
            _seeds(arms),
            _overhead(runs),
            _command(runs),
        ),
    )


def _order(arms: tuple[Arm, ...]) -> Row:
    """Arms in the order in which their runs were made, a letter a run where there are two."""
    runs = sorted(all_runs(arms), key=lambda run: run.position)
    label = say(N_("Order of the runs"))
    if len({run.position for run in runs}) != len(runs) or not runs:
        return Row("order", label, None, say(N_("the runs do not say in which order they were made")))
    return Row("order", label, plain(" ".join(run.label for run in runs)))


def _repeats(arms: tuple[Arm, ...], planned: int) -> Row:
    label = say(N_("Repeats"))
    empty = ", ".join(arm.label for arm in arms if not arm.runs)
    if empty:
        return Row("repeats", label, None, say(N_("there is no run of {label}"), label=empty))
    made = len(all_runs(arms))
    if made < planned:
        return Row(
            "repeats", label, None, say(N_("{made} of {planned} planned runs are there"), made=made, planned=planned)
        )
    return Row("repeats", label, plain(", ".join(f"{arm.label} {len(arm.runs)}" for arm in arms)))


def _spread(arms: tuple[Arm, ...], found: Findings) -> Row:
    """Least to largest repeat of the metric of the headline."""
    label = say(N_("Spread over the repeats, {metric}"), metric=found.facts.headline)
    single = ", ".join(arm.label for arm in arms if len(arm.runs) < 2)
    if single:
        return Row("spread", label, None, say(N_("a spread needs two runs or more of {label}"), label=single))
    figure = next((figure for figure in found.figures if figure.name == found.facts.headline), None)
    if figure is None or any(level.low is None or level.high is None for level in figure.levels):
        return Row("spread", label, None, say(N_("{metric} has no value"), metric=found.facts.headline))
    spans = tuple(
        say("{label} {span} {unit}", label=level.label, span=f"{number(level.low)} – {number(level.high)}",
            unit=unit(figure.unit))
        for level in figure.levels
        if level.low is not None and level.high is not None
    )  # fmt: skip
    return Row("spread", label, say("{spans}", spans=spans))


def _seeds(arms: tuple[Arm, ...]) -> Row:
    label = say(N_("Seeds"))
    seeds = {arm.label: sorted({run.conditions.seed for run in arm.runs}) for arm in arms if arm.runs}
    if not seeds:
        return Row("seeds", label, None, say(N_("there is no run")))
    if len({tuple(values) for values in seeds.values()}) > 1:
        told = "; ".join(f"{arm}: {', '.join(map(str, values))}" for arm, values in seeds.items())
        return Row("seeds", label, None, say(N_("the arms ran with different seeds: {seeds}"), seeds=told))
    return Row("seeds", label, plain(", ".join(map(str, next(iter(seeds.values()))))))


def _overhead(runs: tuple[Run, ...]) -> Row:
    label = say(N_("Own overhead of driver and recorder"))
    if runs and all(run.conditions.kind == SIMULATED for run in runs):
        return Row("overhead", label, say(N_("none: simulated time has no driver in it")))
    unknown = next((run for run in runs if run.conditions.overhead_share is None), None)
    if unknown is not None or not runs:
        where = say(N_("not recorded by {run}"), run=run_name(unknown)) if unknown else say(N_("there is no run"))
        return Row("overhead", label, None, where)
    largest = max(run.conditions.overhead_share or 0.0 for run in runs)
    return Row("overhead", label, say(N_("at most {share} of the wall time"), share=percent(largest)[1:]))


def _command(runs: tuple[Run, ...]) -> Row:
    label = say(N_("Command"))
    silent = next((run for run in runs if not run.conditions.command), None)
    if silent is not None or not runs:
        where = say(N_("not recorded by {run}"), run=run_name(silent)) if silent else say(N_("there is no run"))
        return Row("command", label, None, where)
    return Row("command", label, say(N_("see the end of the card")))


def metrics_section(arms: tuple[Arm, ...], found: Findings) -> Section:
    """Where tokens are counted, formulas, sample counts, intervals, and the limits that make a request good."""
    where = agreed(
        "measured_where",
        say(N_("Where a token counts as delivered")),
        all_runs(arms),
        lambda run: run.conditions.measured_where,
        free,
    )
    figures = found.figures
    rows = (where, _formulas(figures), _counts(figures), _intervals(found.intervals), _slo(found.slo))
    return Section("metrics", say(N_("What was measured")), rows)


def _formulas(figures: tuple[Figure, ...]) -> Row:
    label = say(N_("Formulas of the metrics"))
    bare = [figure.name for figure in figures if not figure.formula]
    if bare or not figures:
        reason = (
            say(N_("no formula of {metrics}"), metrics=", ".join(bare)) if bare else say(N_("nothing was measured"))
        )
        return Row("formulas", label, None, reason)
    return Row("formulas", label, say(N_("under the table of figures, one for each metric")))


def _counts(figures: tuple[Figure, ...]) -> Row:
    """Every figure that is shown has samples in every arm."""
    label = say(N_("Samples behind the figures"))
    if not figures:
        return Row("samples", label, None, say(N_("nothing was measured")))
    bare = [f.name for f in figures if any(level.count <= 0 and level.value is not None for level in f.levels)]
    empty = [f.name for f in figures if any(level.value is None for level in f.levels)]
    if bare or empty:
        return Row("samples", label, None, say(N_("no samples of {metrics}"), metrics=", ".join([*bare, *empty])))
    least = min(level.count for figure in figures for level in figure.levels)
    return Row("samples", label, say(N_("in the table of figures, beside each; at least {n}"), n=least))


def _intervals(intervals: Said | None) -> Row:
    label = say(N_("How intervals are made"))
    missing = None if intervals else say(N_("nothing was compared"))
    return Row("intervals", label, intervals, missing)


def _slo(slo: Slo | None) -> Row:
    label = say(N_("Limits a good request keeps (SLO)"))
    limits = slo_words(slo)
    return Row("slo", label, plain(limits)) if limits else Row("slo", label, None, say(N_("no limits were set")))


def slo_words(slo: Slo | None) -> str:
    """As "TTFT ≤ 0.5 s, TPOT ≤ 0.05 s"; "" without limits."""
    if slo is None:
        return ""
    limits = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s))
    return ", ".join(f"{name} ≤ {number(limit)} s" for name, limit in limits if limit is not None)


def outcome_section(arms: tuple[Arm, ...]) -> Section:
    """How requests ended and whether the arms kept up."""
    return Section(
        "outcome",
        say(N_("How the requests ended")),
        (
            _per_arm("ended", say(N_("Finished, unfinished, rejected requests")), arms, _ended),
            _per_arm("saturation", say(N_("Did the queue keep growing (saturation)")), arms, _saturation),
            _per_arm("preemptions", say(N_("Preemptions")), arms, _preemptions),
        ),
    )


def _per_arm(key: str, label: Said, arms: tuple[Arm, ...], show: Callable[[Arm], Said | None]) -> Row:
    silent = ", ".join(arm.label for arm in arms if not arm.requests)
    if silent:
        return Row(key, label, None, say(N_("there is no run of {label}"), label=silent))
    parts: list[Any] = [show(arm) for arm in arms]
    unknown = ", ".join(arm.label for arm, part in zip(arms, parts, strict=True) if part is None)
    if unknown:
        return Row(key, label, None, say(N_("too few requests to tell in {label}"), label=unknown))
    return Row(key, label, say("{arms}", arms=tuple(parts)))


def _ended(arm: Arm) -> Said:
    finished, rejected = arm.count("finished"), arm.count("rejected")
    return say(
        N_("{label}: {finished} finished, {unfinished} unfinished, {rejected} rejected"),
        label=arm.label,
        finished=finished,
        unfinished=len(arm.requests) - finished - rejected,
        rejected=rejected,
    )


STATES: Final = {
    "yes": N_("{label}: yes, waiting {first} → {last}"),
    "no": N_("{label}: no, waiting {first} → {last}"),
    "burst": N_("{label}: all requests came at about once, so they waited whatever the policy does"),
}
"""State of ``analysis.saturation`` -> words; waiting: mean length of the queue in the first and last third."""


def _saturation(arm: Arm) -> Said | None:
    state = arm.state()
    if state not in STATES:
        return None
    worst = max(arm.saturations, key=lambda each: each.waiting[2])
    return say(STATES[state], label=arm.label, first=worst.waiting[0], last=worst.waiting[2])


def _preemptions(arm: Arm) -> Said:
    return plain(f"{arm.label} {sum(row.num_preemptions for row in arm.requests):,}")
