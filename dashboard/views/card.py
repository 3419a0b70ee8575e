"""A claim card as HTML, from its plain rows in the page's language. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from dashboard.i18n import Translate
from dashboard.views.markup import esc, table
from experiments.cards.plain import PlainCard


def headline(card: PlainCard, t: Translate) -> str:
    """The claim; while conditions are missing, those instead of it."""
    if card.headline:
        return f'<div class="bs-claim"><b>{esc(card.headline)}</b></div>'
    head = t("No headline number: {n} things are missing or stand against it.", n=len(card.withheld))
    return f'<div class="bs-claim bs-withheld"><b>{esc(head)}</b>{_list(card.withheld)}</div>'


def card_html(card: PlainCard, t: Translate) -> str:
    """The whole card: claim, what makes it weaker, what it does not support, tables, conditions, commands."""
    parts = [f'<h3 class="bs-card-title">{esc(card.title)}</h3>', headline(card, t)]
    for title, texts in (
        (t("What makes it weaker"), card.lints),
        (t("What this does not support"), card.not_supported),
    ):
        if texts:
            parts.append(f"<h4>{esc(title)}</h4>{_list(texts)}")
    for one in card.tables:
        head, body = [esc(name) for name in one.columns], [[esc(cell) for cell in row] for row in one.rows]
        parts.append(f"<h4>{esc(one.title)}</h4>{table(head, body, '')}")
    parts.append(f"<h4>{esc(t('Conditions'))}</h4>{_conditions(card, t)}")
    if card.commands:
        commands = "".join(f"<pre>{esc(command)}</pre>" for command in card.commands)
        parts.append(f"<h4>{esc(t('To run it again'))}</h4>{commands}")
    return f'<div class="bs-card">{"".join(parts)}</div>'


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{esc(text)}</li>' for text in texts)}</ul>"


def _conditions(card: PlainCard, t: Translate) -> str:
    parts = []
    for section, members in groupby(card.conditions, key=lambda each: each.section):
        body = [
            [
                esc(each.label),
                esc(each.text) if each.known else f'<b class="bs-missing">{esc(t("missing"))}: {esc(each.text)}</b>',
            ]
            for each in members
        ]
        parts.append(f"<h5>{esc(section)}</h5>{table([esc(t('condition')), esc(t('what it was'))], body, '')}")
    return "".join(parts)
