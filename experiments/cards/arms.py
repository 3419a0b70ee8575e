"""The arms of a comparison as a card sees them: what their runs agree on, and what they saw of the load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.analysis.samples import table
from experiments.analysis.saturation import Saturation, saturation
from experiments.cards.card import Row
from experiments.cards.said import Said, plain, say
from experiments.i18n import N_
from experiments.record import RequestRow, Run


@dataclass(frozen=True)
class Arm:
    """The repeats of one policy. May be empty, where an experiment broke off; then only ``label`` is known."""

    label: str
    runs: tuple[Run, ...]

    @cached_property
    def requests(self) -> tuple[RequestRow, ...]:
        """Of all repeats."""
        return tuple(row for run in self.runs for row in run.requests)

    def count(self, outcome: str) -> int:
        """Requests of all repeats that ended so."""
        return sum(row.outcome == outcome for row in self.requests)

    @cached_property
    def saturations(self) -> tuple[Saturation, ...]:
        """Of each repeat, by ``analysis.saturation.RULE``."""
        return tuple(saturation(table(run)) for run in self.runs)

    def state(self) -> str:
        """The worst of the repeats: "unknown", "yes", "burst" or "no"; "unknown" without runs."""
        states = {each.state for each in self.saturations}
        return next((state for state in ("unknown", "yes", "burst", "no") if state in states), "unknown")


def all_runs(arms: tuple[Arm, ...]) -> tuple[Run, ...]:
    """Of every arm, in the arms' order."""
    return tuple(run for arm in arms for run in arm.runs)


def agreed(
    key: str,
    label: Said,
    runs: tuple[Run, ...],
    get: Callable[[Run], Any],
    show: Callable[[Any], Said] = lambda value: plain(str(value)),
) -> Row:
    """A condition that must be known of every run and the same in all of them.

    get: the value of a run, hashable; "", None and () mean that it is not recorded.
    """
    seen: dict[Any, Run] = {}
    for run in runs:
        seen.setdefault(get(run), run)
    if not seen:
        return Row(key, label, None, say(N_("there is no run")))
    blank = next((run for value, run in seen.items() if value in ("", None, ())), None)
    if blank is not None:
        return Row(key, label, None, say(N_("not recorded by {run}"), run=run_name(blank)))
    (first, one), *others = seen.items()
    if others:
        other, another = others[0]
        differ = say(
            N_("the runs differ: {one} in {run_one}, {other} in {run_other}"),
            one=show(first),
            run_one=run_name(one),
            other=show(other),
            run_other=run_name(another),
        )
        return Row(key, label, None, differ)
    return Row(key, label, show(first))


def run_name(run: Run) -> str:
    """As "static/0"."""
    return f"{run.label}/{run.repeat}"
