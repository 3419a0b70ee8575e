"""Whose improvement is it? The runs of the sixteen arms, told as shares, effects, intervals and what got worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from experiments.analysis.bootstrap import LEVEL, RESAMPLES, Interval, Method, Plan, draw, interval, make_plan
from experiments.analysis.comparison import Comparison, Verdict, compare, verdict
from experiments.analysis.effects import KEYS, complete, effects, gain, shapley
from experiments.analysis.factorial import LABELS, largest_valid
from experiments.analysis.ledger import Line, before_and_after
from experiments.analysis.metrics import METRICS, Metric, Value, measure_table
from experiments.analysis.samples import Floats, Slo, table
from experiments.record import Run

HEADLINES: Final = ("output_tokens_per_s", "ttft_p50_s", "ttft_p99_s", "itl_p99_s", "goodput_rps")
"""Metrics whose gain is shared out unless others are asked for."""

ROUNDING: Final = 1e-12
"""Of the largest value: sums of twelve floats and their weights are no further off."""

VALID_LABELS: Final = tuple(label for label in LABELS if largest_valid(label) == label)
"""The 12 arms that need runs."""


@dataclass(frozen=True, slots=True)
class Part:
    """A change of a metric, in its unit. members: keys of the factors behind it, () = all four together.

    change: exact, from the means of the arms. verdict: whether it makes the metric better or worse, by the interval.
    """

    members: tuple[str, ...]
    change: Fraction
    interval: Interval | None
    verdict: Verdict

    @property
    def value(self) -> float:
        """The change as the nearest float."""
        return float(self.change)


@dataclass(frozen=True, slots=True)
class Attribution:
    """One metric. values: by label, all 16 (stand-ins included); counts: samples, of the 12 arms that ran.

    gain: "1111" less "0000". shares: Shapley, one a factor; their changes add up to that of the gain exactly.
    effects: main effects and interactions, 15.
    """

    metric: str
    values: Mapping[str, Fraction]
    counts: Mapping[str, int]
    gain: Part
    shares: tuple[Part, ...]
    effects: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Factorial:
    """All that the arms say. left_out: metric -> why it has no attribution. before_after: "1111" against "0000".

    harm: factor -> metrics that its share makes worse. ledgers: of both arms, line by line.
    """

    attributions: Mapping[str, Attribution]
    left_out: Mapping[str, str]
    before_after: Comparison
    ledgers: tuple[Line, ...]
    harm: Mapping[str, tuple[str, ...]]
    runs: Mapping[str, int]
    method: Method


def attribute(
    runs: Iterable[Run],
    slo: Slo | None = None,
    *,
    metrics: Sequence[str] = HEADLINES,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Factorial:
    """Share out the gain among the factors. runs: of the 12 valid arms, told apart by ``Run.label``.

    Raises ValueError for a label that is none of the 16, for a valid arm without a run, and for an unknown metric.
    """
    arms = _by_label(runs)
    unknown = [name for name in metrics if name not in METRICS]
    if unknown:
        raise ValueError(f"metrics has {unknown[0]!r}, expected names of METRICS such as {', '.join(HEADLINES)}")
    tables = {label: [table(run) for run in arms[label]] for label in VALID_LABELS}
    plan = make_plan(list(tables.values()), resamples=resamples, seed=seed, level=level)
    measured = {label: [measure_table(rows, slo) for rows in arm] for label, arm in tables.items()}
    wanted = [METRICS[name] for name in metrics]
    drawn = {label: draw(plan, index, arm, wanted, slo) for index, (label, arm) in enumerate(tables.items())}
    found: dict[str, Attribution] = {}
    left_out: dict[str, str] = {}
    for metric in wanted:
        values = {label: [run[metric.name] for run in arm] for label, arm in measured.items()}
        empty = [label for label, arm in values.items() if any(value.value is None for value in arm)]
        if empty:
            left_out[metric.name] = f"no sample in the arms {', '.join(empty)}"
        else:
            found[metric.name] = _attribution(metric, plan, values, {x: drawn[x].get(metric.name) for x in drawn})
    none, every = arms["0000"], arms["1111"]
    return Factorial(
        found,
        left_out,
        compare(none, every, slo, resamples=resamples, seed=seed, level=level),
        before_and_after(none, every),
        _harm(found),
        {label: len(arm) for label, arm in tables.items()},
        plan.method,
    )


def _by_label(runs: Iterable[Run]) -> dict[str, list[Run]]:
    arms: dict[str, list[Run]] = {}
    for run in runs:
        if run.label not in LABELS:
            raise ValueError(f"label is {run.label!r}, expected four bits such as '0000' or '1101'")
        arms.setdefault(run.label, []).append(run)
    missing = [label for label in VALID_LABELS if label not in arms]
    if missing:
        raise ValueError(f"no run of the arms {', '.join(missing)}; every valid arm needs one")
    return arms


def _attribution(
    metric: Metric, plan: Plan, values: Mapping[str, Sequence[Value]], drawn: Mapping[str, Floats | None]
) -> Attribution:
    means = {label: _exact_mean(arm) for label, arm in values.items()}
    made = [each for label in VALID_LABELS if (each := drawn[label]) is not None]
    resampled = np.stack(made) if len(made) == len(VALID_LABELS) else None
    weights = _weights()

    def part(members: tuple[str, ...], change: Fraction, kind: str) -> Part:
        between = None
        if resampled is not None:
            drawn_change = _without_rounding(weights[kind, members] @ resampled, resampled)
            between = interval(plan, drawn_change, arms=len(VALID_LABELS))
        return Part(members, change, between, verdict(metric, between))

    return Attribution(
        metric.name,
        complete(means),
        {label: sum(value.count for value in arm) for label, arm in values.items()},
        part((), gain(means), "gain"),
        tuple(part((key,), share, "share") for key, share in shapley(means).items()),
        tuple(part(members, effect, "effect") for members, effect in effects(means).items()),
    )


def _without_rounding(changes: Floats, values: Floats) -> Floats:
    """changes: sums of ``values`` times weights that add up to 0. What is left of equal values is rounding, and must
    not make an interval that excludes 0."""
    return np.where(np.abs(changes) <= ROUNDING * np.abs(values).max(initial=0.0), 0.0, changes)


def _exact_mean(values: Sequence[Value]) -> Fraction:
    numbers = [Fraction(value.value) for value in values if value.value is not None]
    return sum(numbers, Fraction(0)) / len(numbers)


@cache
def _weights() -> Mapping[tuple[str, tuple[str, ...]], Floats]:
    """(kind, members) -> how much each of the 12 valid arms counts, since all parts are linear in their values."""
    columns: dict[tuple[str, tuple[str, ...]], list[float]] = {}
    for one in VALID_LABELS:
        unit = {label: Fraction(label == one) for label in VALID_LABELS}
        parts: dict[tuple[str, tuple[str, ...]], Fraction] = {("gain", ()): gain(unit)}
        parts |= {("share", (key,)): share for key, share in shapley(unit).items()}
        parts |= {("effect", members): effect for members, effect in effects(unit).items()}
        for key, weight in parts.items():
            columns.setdefault(key, []).append(float(weight))
    return {key: np.array(column) for key, column in columns.items()}


def _harm(found: Mapping[str, Attribution]) -> dict[str, tuple[str, ...]]:
    return {
        key: tuple(
            name
            for name, each in found.items()
            for share in each.shares
            if share.members == (key,) and share.verdict == "worse"
        )
        for key in KEYS
    }
