"""A card as Markdown (CommonMark with the tables of GitHub)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from experiments.cards.card import Card
from experiments.cards.escape import block, inline, item
from experiments.cards.figures import SAMPLES
from experiments.cards.plain import PlainCard, plain_card
from experiments.i18n import N_, catalogue


def to_markdown(card: Card, language: str = "en") -> str:
    """In "en" or "ko". Text that came from traces, files and models is escaped: it neither acts nor hides."""
    words = catalogue(language)

    def t(message: str) -> str:
        return words.get(message, message)

    plain = plain_card(card, language)
    lines = [f"# {inline(plain.title)}", "", *_headline(plain, t)]
    if plain.lints:
        lines += [f"## {t(N_('What makes it weaker'))}", "", *_list(plain.lints)]
    lines += [*_figures(plain, t), *_tables(plain), *_conditions(plain, t)]
    if plain.not_supported:
        lines += [f"## {t(N_('What this does not support'))}", "", *_list(plain.not_supported)]
    if plain.commands:
        lines += [f"## {t(N_('Run it again'))}", ""]
        lines += [line for command in plain.commands for line in (block(command), "")]
    return "\n".join(lines).rstrip("\n") + "\n"


_T = Callable[[str], str]


def _list(texts: Sequence[str]) -> list[str]:
    return [*(f"- {item(text)}" for text in texts), ""]


def _headline(plain: PlainCard, t: _T) -> Iterator[str]:
    if plain.headline:
        yield from (f"**{inline(plain.headline)}**", "")
        return
    yield from (f"**{t(N_('No headline number. It needs:'))}**", "")
    yield from _list(plain.withheld)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(inline(column) for column in columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield "| " + " | ".join(inline(cell) for cell in row) + " |"
    yield ""


def _figures(plain: PlainCard, t: _T) -> Iterator[str]:
    if not plain.figures:
        return
    yield from (f"## {t(N_('Figures'))}", "")
    columns = (t(N_("metric")), t(N_("unit")), *plain.arms, t(N_("change (95 % interval)")), "", t(SAMPLES))
    rows = [(f.name, f.unit, *f.levels, f.change, f.verdict, f.samples) for f in plain.figures]
    yield from _table(columns, rows)
    note = N_(
        "Mean of the repeats (least – largest). Samples a run: of the run that has fewest, an arm each. Each metric "
        "is judged alone: of 20 without any difference about one is called better or worse by chance. Formulas:"
    )
    yield from (t(note), "")
    for formula, source, names in _formulas(plain):
        yield f"- {item(names)}: {inline(formula)} ({inline(source)})"
    yield ""


def _formulas(plain: PlainCard) -> Iterator[tuple[str, str, str]]:
    """(formula, source, metrics that share it)."""
    for (formula, source), group in groupby(plain.figures, key=lambda figure: (figure.formula, figure.source)):
        yield formula, source, ", ".join(figure.name for figure in group)


def _tables(plain: PlainCard) -> Iterator[str]:
    for table in plain.tables:
        yield from (f"## {inline(table.title)}", "")
        yield from _table(table.columns, table.rows)


def _conditions(plain: PlainCard, t: _T) -> Iterator[str]:
    for title, rows in groupby(plain.conditions, key=lambda row: row.section):
        yield from (f"## {inline(title)}", "")
        missing = t(N_("missing"))
        cells = [(row.label, row.text if row.known else f"{missing}: {row.text}") for row in rows]
        yield from _table((t(N_("condition")), t(N_("value"))), cells)
