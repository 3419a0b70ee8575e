"""What the lints of a comparison look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.cards.arms import Arm
from experiments.cards.card import Figure
from experiments.cards.facts import Facts
from experiments.record import Run


@dataclass(frozen=True, slots=True)
class Case:
    """Two arms that both have runs, and the figures by name."""

    baseline: Arm
    candidate: Arm
    figures: Mapping[str, Figure]
    facts: Facts

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Baseline first."""
        return self.baseline, self.candidate

    @property
    def runs(self) -> tuple[Run, ...]:
        """Of both arms."""
        return (*self.baseline.runs, *self.candidate.runs)
