"""A card as JSON and back."""

from __future__ import annotations

import msgspec

from experiments.cards.card import FORM, Card
from experiments.cards.plain import plain_card


class CardError(ValueError):
    """A file that is no card; names the field and what would be right."""


def to_json(card: Card) -> bytes:
    """UTF-8, indented, ending in a line end. Messages are in English with their values beside them."""
    return msgspec.json.format(msgspec.json.encode(card), indent=1) + b"\n"


def from_json(data: bytes) -> Card:
    """The card that ``to_json`` wrote. Raises CardError."""
    try:
        card = msgspec.json.decode(data, type=Card)
        plain_card(card)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CardError(f"not a card: {error}") from error
    if card.form != FORM:
        raise CardError(f"form is {card.form!r:.80}, expected {FORM!r}")
    if (card.headline is None) != bool(card.withheld):
        raise CardError("headline and withheld contradict each other: a card has one of the two")
    wrong = [
        row.key for section in card.sections for row in section.rows if (row.value is None) == (row.missing is None)
    ]
    if wrong:
        raise CardError(f"row {wrong[0]!r:.80} must have either a value or what is missing")
    return card
