"""What the lints of a comparison look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.cards.arms import Arm, all_runs
from experiments.cards.card import Figure
from experiments.cards.facts import Facts
from experiments.record import Run


@dataclass(frozen=True, slots=True)
class Case:
    """Arms that all have runs, the baseline first, the one that is claimed last; figures by name; what was said."""

    arms: tuple[Arm, ...]
    figures: Mapping[str, Figure]
    facts: Facts

    @property
    def baseline(self) -> Arm:
        """What is compared against."""
        return self.arms[0]

    @property
    def candidate(self) -> Arm:
        """What the claim is about."""
        return self.arms[-1]

    @property
    def runs(self) -> tuple[Run, ...]:
        """Of every arm."""
        return all_runs(self.arms)
