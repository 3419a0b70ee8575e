"""A claim card: what was compared, under which conditions, what came out, and what that does not support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from experiments.cards.said import Said

FORM: Final = "batchscope-card/1"
"""Name of the JSON form."""


@dataclass(frozen=True, slots=True)
class Row:
    """One condition: its value, or why it is not known. Exactly one of the two is None."""

    key: str
    label: Said
    value: Said | None
    missing: Said | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Conditions of one kind, in reading order."""

    key: str
    title: Said
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A metric in one arm. value: mean over the repeats, None where no run has it. low, high: least and largest repeat.

    count: samples behind it in the run that has fewest of them (requests, or gaps between tokens).
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric in every arm, the baseline first, and the change of the last arm against the baseline.

    change: (candidate - baseline) / baseline as a share, change_low .. change_high its 95 % interval; None where it is
    not defined. verdict: "better", "worse", "unclear" (the interval holds no difference) or "" (nothing to compare).
    """

    name: str
    unit: str
    better: str
    formula: str
    source: str
    levels: tuple[Level, ...]
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Lint:
    """Something that makes the claim weaker. stops: no headline number while it holds."""

    key: str
    stops: bool
    text: Said


@dataclass(frozen=True, slots=True)
class Table:
    """A result that is more than one figure: factorial shares, points of a chunk curve. cells: row by row."""

    key: str
    title: Said
    columns: tuple[Said, ...]
    cells: tuple[tuple[Said, ...], ...]


@dataclass(frozen=True, slots=True)
class Card:
    """kind: "ab", "factorial" or "chunk". headline: None while ``withheld`` names anything.

    withheld: the conditions that are missing and the lints that stop. commands: what makes the runs again.
    """

    kind: str
    title: str
    headline: Said | None
    withheld: tuple[Said, ...]
    lints: tuple[Lint, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    sections: tuple[Section, ...]
    not_supported: tuple[Said, ...]
    commands: tuple[str, ...]
    form: str = FORM

    @property
    def missing(self) -> tuple[Row, ...]:
        """The conditions that are not known."""
        return tuple(row for section in self.sections for row in section.rows if row.missing is not None)
