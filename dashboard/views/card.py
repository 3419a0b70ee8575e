"""A claim card as HTML, from its plain rows in the page's language. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from dashboard.views.markup import esc, table
from experiments.cards.plain import PlainCard


def headline(card: PlainCard) -> str:
    """The claim; while conditions are missing, those instead of it."""
    if card.headline:
        return f'<div class="bs-claim"><b>{esc(card.headline)}</b></div>'
    return f'<div class="bs-claim bs-withheld"><b>{esc(card.headings.withheld)}</b>{_list(card.withheld)}</div>'


def card_html(card: PlainCard) -> str:
    """The whole card: claim, what makes it weaker, what it does not support, figures, tables, conditions, commands."""
    heads = card.headings
    parts = [f'<h3 class="bs-card-title">{esc(card.title)}</h3>', headline(card)]
    for title, texts in ((heads.weaker, card.lints), (heads.not_supported, card.not_supported)):
        if texts:
            parts.append(f"<h4>{esc(title)}</h4>{_list(texts)}")
    parts.append(_figures(card))
    for one in card.tables:
        head, body = [esc(name) for name in one.columns], [[esc(cell) for cell in row] for row in one.rows]
        parts.append(f"<h4>{esc(one.title)}</h4>{table(head, body, '')}")
    parts.append(_conditions(card))
    if card.commands:
        commands = "".join(f"<pre>{esc(command)}</pre>" for command in card.commands)
        parts.append(f"<h4>{esc(heads.again)}</h4>{commands}")
    return f'<div class="bs-card">{"".join(parts)}</div>'


def _figures(card: PlainCard) -> str:
    """As in the Markdown of the card, the formula behind each name."""
    if not card.figures:
        return ""
    heads = card.headings
    head = (*heads.figure_columns, *card.arms, heads.change, "", heads.samples)
    body = [
        [
            f'<span title="{esc(each.formula)} ({esc(each.source)})">{esc(each.name)}</span>', esc(each.unit),
            *(esc(level) for level in each.levels), esc(each.change), esc(each.verdict), esc(each.samples),
        ]
        for each in card.figures
    ]  # fmt: skip
    formulas = dict.fromkeys(f"{each.formula} ({each.source})" for each in card.figures)
    note = f"<p>{esc(heads.note)}</p>{_list(formulas)}"
    return f"<h4>{esc(heads.figures)}</h4>{table([esc(each) for each in head], body, '')}{note}"


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{esc(text)}</li>' for text in texts)}</ul>"


def _conditions(card: PlainCard) -> str:
    heads, parts = card.headings, []
    for section, members in groupby(card.conditions, key=lambda each: each.section):
        body = [
            [
                esc(each.label),
                esc(each.text) if each.known else f'<b class="bs-missing">{esc(heads.missing)}: {esc(each.text)}</b>',
            ]
            for each in members
        ]
        parts.append(f"<h4>{esc(section)}</h4>{table([esc(heads.condition), esc(heads.value)], body, '')}")
    return "".join(parts)
