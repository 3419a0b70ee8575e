"""A card in one language as plain text: what the page draws and what the Markdown is made of.

Every text is one line in which each character can be seen; it is not escaped for HTML or Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from experiments.cards.card import Card, Figure, Level
from experiments.cards.escape import visible
from experiments.cards.figures import SAMPLES
from experiments.cards.said import Said, number, percent, unit
from experiments.i18n import N_, catalogue

VERDICTS: Final = {"better": N_("better"), "worse": N_("worse"), "unclear": N_("no clear difference"), "": ""}


@dataclass(frozen=True, slots=True)
class Headings:
    """What stands over the parts of a card and its columns, in one language, the same on the page and in Markdown."""

    withheld: str
    weaker: str
    not_supported: str
    again: str
    figures: str
    note: str
    figure_columns: tuple[str, str]
    change: str
    samples: str
    condition: str
    value: str
    missing: str


def headings(language: str = "en") -> Headings:
    """In "en" or "ko"."""
    words = catalogue(language)

    def t(message: str) -> str:
        return words.get(message, message)

    return Headings(
        withheld=t(N_("No headline number. It needs:")),
        weaker=t(N_("What makes it weaker")),
        not_supported=t(N_("What this does not support")),
        again=t(N_("Run it again")),
        figures=t(N_("Figures")),
        note=t(
            N_(
                "Mean of the repeats (least – largest). Samples a run: of the run that has fewest, an arm each. Each "
                "metric is judged alone: of 20 without any difference about one is called better or worse by chance. "
                "Formulas:"
            )
        ),
        figure_columns=(t(N_("metric")), t(N_("unit"))),
        change=t(N_("change (95 % interval)")),
        samples=t(SAMPLES),
        condition=t(N_("condition")),
        value=t(N_("value")),
        missing=t(N_("missing")),
    )


@dataclass(frozen=True, slots=True)
class PlainCondition:
    """section, label, text in words. known: False where text says what is missing."""

    section: str
    label: str
    text: str
    known: bool


@dataclass(frozen=True, slots=True)
class PlainFigure:
    """A line of the table of figures. levels: one text an arm. change: "+12.0 % (+9.1 % … +14.8 %)" or "".

    samples: counts, an arm each. formula, source: how it is computed, and who defines it so.
    """

    name: str
    unit: str
    levels: tuple[str, ...]
    change: str
    verdict: str
    samples: str
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A further result, row by row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PlainCard:
    """headline: "" while ``withheld`` says why there is none. arms: labels of the columns of ``figures``."""

    title: str
    headline: str
    withheld: tuple[str, ...]
    lints: tuple[str, ...]
    arms: tuple[str, ...]
    figures: tuple[PlainFigure, ...]
    tables: tuple[PlainTable, ...]
    conditions: tuple[PlainCondition, ...]
    not_supported: tuple[str, ...]
    commands: tuple[str, ...]
    headings: Headings


def plain_card(card: Card, language: str = "en") -> PlainCard:
    """The card in "en" or "ko"."""

    def told(said: Said) -> str:
        return visible(said.told(language), limit=0)

    def each(many: Iterable[Said]) -> tuple[str, ...]:
        return tuple(told(said) for said in many)

    conditions = [
        PlainCondition(
            told(section.title), told(row.label), told(row.value or row.missing or Said("")), row.value is not None
        )
        for section in card.sections
        for row in section.rows
    ]
    tables = [
        PlainTable(told(table.title), each(table.columns), tuple(each(row) for row in table.cells))
        for table in card.tables
    ]
    return PlainCard(
        title=visible(card.title),
        headline=told(card.headline) if card.headline else "",
        withheld=each(card.withheld),
        lints=each(lint.text for lint in card.lints),
        arms=tuple(visible(level.label) for level in card.figures[0].levels) if card.figures else (),
        figures=tuple(_figure(figure, language) for figure in card.figures),
        tables=tuple(tables),
        conditions=tuple(conditions),
        not_supported=each(card.not_supported),
        commands=tuple(visible(command) for command in card.commands),
        headings=headings(language),
    )


def _figure(figure: Figure, language: str) -> PlainFigure:
    words = catalogue(language)
    verdict = VERDICTS.get(figure.verdict, figure.verdict)
    return PlainFigure(
        name=visible(figure.name),
        unit=visible(unit(figure.unit).told(language)),
        levels=tuple(_level(level) for level in figure.levels),
        change=_change(figure),
        verdict=visible(words.get(verdict, verdict)),
        samples=" / ".join(f"{level.count:,}" for level in figure.levels),
        formula=visible(words.get(figure.formula, figure.formula)),
        source=visible(figure.source),
    )


def _level(level: Level) -> str:
    """As "12.3 (12.1 – 12.6)": the mean of the repeats, the least and the largest."""
    if level.value is None:
        return "–"
    if level.low is None or level.high is None or level.low == level.high:
        return number(level.value)
    return f"{number(level.value)} ({number(level.low)} – {number(level.high)})"


def _change(figure: Figure) -> str:
    if figure.change is None:
        return ""
    if figure.change_low is None or figure.change_high is None:
        return percent(figure.change)
    return f"{percent(figure.change)} ({percent(figure.change_low)} … {percent(figure.change_high)})"
