"""A card as Markdown (CommonMark with the tables of GitHub)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from experiments.cards.card import Card
from experiments.cards.escape import block, inline, item
from experiments.cards.plain import PlainCard, plain_card


def to_markdown(card: Card, language: str = "en") -> str:
    """In "en" or "ko". Text that came from traces, files and models is escaped: it neither acts nor hides."""
    plain = plain_card(card, language)
    heads = plain.headings
    lines = [f"# {inline(plain.title)}", "", *_headline(plain)]
    if plain.lints:
        lines += [f"## {heads.weaker}", "", *_list(plain.lints)]
    lines += [*_figures(plain), *_tables(plain), *_conditions(plain)]
    if plain.not_supported:
        lines += [f"## {heads.not_supported}", "", *_list(plain.not_supported)]
    if plain.commands:
        lines += [f"## {heads.again}", ""]
        lines += [line for command in plain.commands for line in (block(command), "")]
    return "\n".join(lines).rstrip("\n") + "\n"


def _list(texts: Sequence[str]) -> list[str]:
    return [*(f"- {item(text)}" for text in texts), ""]


def _headline(plain: PlainCard) -> Iterator[str]:
    if plain.headline:
        yield from (f"**{inline(plain.headline)}**", "")
        return
    yield from (f"**{plain.headings.withheld}**", "")
    yield from _list(plain.withheld)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(inline(column) for column in columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield "| " + " | ".join(inline(cell) for cell in row) + " |"
    yield ""


def _figures(plain: PlainCard) -> Iterator[str]:
    if not plain.figures:
        return
    heads = plain.headings
    yield from (f"## {heads.figures}", "")
    columns = (*heads.figure_columns, *plain.arms, heads.change, "", heads.samples)
    rows = [(f.name, f.unit, *f.levels, f.change, f.verdict, f.samples) for f in plain.figures]
    yield from _table(columns, rows)
    yield from (heads.note, "")
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


def _conditions(plain: PlainCard) -> Iterator[str]:
    for title, rows in groupby(plain.conditions, key=lambda row: row.section):
        yield from (f"## {inline(title)}", "")
        missing = plain.headings.missing
        cells = [(row.label, row.text if row.known else f"{missing}: {row.text}") for row in rows]
        yield from _table((plain.headings.condition, plain.headings.value), cells)
