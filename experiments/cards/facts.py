"""What a card needs to know and no run holds."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.analysis.samples import Slo
from experiments.cards.card import Figure
from experiments.cards.said import Said


@dataclass(frozen=True, slots=True)
class Facts:
    """Said by whoever set the experiment up.

    title: of the card. tuned: whether the baseline was tuned, None = nobody said; tuning: how, or why not, one line
    ("max_num_seqs of 4, 8, 16 and 32 tried, best taken"). headline: name of the metric of the claim, one of
    ``experiments.analysis.metrics.METRICS``. planned: runs that the experiment is to make, 0 = what is there is all.
    """

    title: str
    tuned: bool | None = None
    tuning: str = ""
    headline: str = "output_tokens_per_s"
    planned: int = 0


@dataclass(frozen=True, slots=True)
class Findings:
    """What the analysis made of the runs, and what it was asked. intervals: how they were made, None = nothing was."""

    facts: Facts
    slo: Slo | None
    figures: tuple[Figure, ...] = ()
    intervals: Said | None = None
