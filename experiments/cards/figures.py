"""The figures of a card: what the analysis measured and compared, and nothing that it did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from experiments.analysis.comparison import Comparison, Difference, compare
from experiments.analysis.metrics import METRICS, Metric, Value, measure
from experiments.analysis.samples import Slo
from experiments.cards.card import Figure, Level
from experiments.cards.facts import Facts, Findings
from experiments.cards.said import Said, say
from experiments.i18n import N_
from experiments.record import Run

NEEDS_LIMITS: Final = {"goodput_rps", "slo_attainment"}
"""Metrics that mean nothing without limits."""

SAMPLES: Final = N_("samples a run")
"""Over every count of samples: those of the run of an arm that has fewest."""


def level_of(label: str, name: str, measured: Sequence[Mapping[str, Value]]) -> Level:
    """A metric of one arm over its repeats. The value is known only where every repeat has it."""
    values = [run[name].value for run in measured]
    known = [value for value in values if value is not None]
    count = min((run[name].count for run in measured), default=0)
    if not known or len(known) < len(values):
        return Level(label, None, None, None, count)
    return Level(label, sum(known) / len(known), min(known), max(known), count)


def measured_names(measured: Sequence[Mapping[str, Value]], slo: Slo | None) -> tuple[str, ...]:
    """Metrics that at least one run has samples for, in the order of ``METRICS``."""
    names = (name for name in METRICS if slo is not None or name not in NEEDS_LIMITS)
    return tuple(name for name in names if any(run[name].value is not None for run in measured))


def compared(runs_a: Sequence[Run], runs_b: Sequence[Run], facts: Facts, slo: Slo | None, resamples: int) -> Findings:
    """Every metric that was measured, with its change from ``runs_a`` to ``runs_b``. Neither may be empty."""
    return findings_of(compare(runs_a, runs_b, slo, resamples=resamples), runs_a, runs_b, facts)


def findings_of(comparison: Comparison, runs_a: Sequence[Run], runs_b: Sequence[Run], facts: Facts) -> Findings:
    """``comparison`` of these runs as figures of a card, with the least and largest repeat of each arm."""
    slo = comparison.slo
    a, b = [measure(run, slo) for run in runs_a], [measure(run, slo) for run in runs_b]
    names = measured_names([*a, *b], slo)
    figures = (
        _figure(
            METRICS[name],
            (level_of(runs_a[0].label, name, a), level_of(runs_b[0].label, name, b)),
            comparison.differences[name],
        )
        for name in names
    )
    intervals = interval_words(comparison.method, comparison.resamples, comparison.seed)
    return Findings(facts, slo, tuple(figures), intervals)


def _figure(metric: Metric, levels: tuple[Level, ...], difference: Difference) -> Figure:
    interval = difference.ratio_interval
    return Figure(
        metric.name,
        metric.unit,
        metric.better,
        metric.formula,
        metric.source,
        levels,
        None if difference.ratio is None else difference.ratio - 1,
        None if interval is None else interval.low - 1,
        None if interval is None else interval.high - 1,
        "" if difference.difference is None else difference.verdict,
    )


def interval_words(method: str, resamples: int, seed: int) -> Said:
    """How ``analysis.bootstrap`` made the intervals."""
    words = N_(
        "bootstrap over blocks of requests or of time, and over runs where there are several, {n} draws, seed {seed}"
    )
    if method == "repeats":
        words = N_("bootstrap over whole runs, {n} draws, seed {seed}")
    return say(words, n=resamples, seed=seed)
