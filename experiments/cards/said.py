"""Sentences of a card: a message of the catalogue and its values, so that one card reads in every language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from experiments.cards.escape import visible
from experiments.i18n import N_, catalogue
from experiments.i18n.told import INSIDE, parts_of

UNITS: Final = {
    "s": N_("s"), "tokens/s": N_("tokens/s"), "requests/s": N_("requests/s"), "tokens": N_("tokens"),
    "preemptions": N_("preemptions"), "share": N_("share"), "token-slot-seconds": N_("token-slot-seconds"),
    "blocks": N_("blocks"), "evictions": N_("evictions"),
}  # fmt: skip
"""Units of metrics and of the waste ledger, in words."""

PLACE: Final = re.compile(r"\{(\w+)\}")

Value: TypeAlias = "str | int | float | Said | tuple[Said, ...]"
"""Text, a number, a sentence within the sentence, or several of them, joined by semicolons."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message and the values of its {places}. Values of type str are shown as they are: names, hashes, versions."""

    message: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def told(self, language: str = "en") -> str:
        """In "en" or "ko"; not escaped for any markup, but every character of a value can be seen.

        A place without a value stays as it is written. Values are put in by name only: a message out of a file cannot
        reach an attribute or ask for a width.
        """
        message = catalogue(language).get(self.message, self.message)
        return PLACE.sub(lambda m: _words(self.values[m[1]], language) if m[1] in self.values else m[0], message)


def say(message: str, /, **values: Value) -> Said:
    """``say(N_("{n} blocks"), n=8)``."""
    return Said(message, values)


def plain(text: str) -> Said:
    """Text that is the same in every language: a name, a hash, a number with its unit."""
    return Said("{text}", {"text": text})


def free(text: str) -> Said:
    """A sentence that was kept as English text, such as the warm-up in a run's record; unknown text as it is."""
    found = parts_of(text)
    if found is None:
        return Said(text) if text in catalogue("ko") else plain(text)
    template, values = found
    return Said(template, {name: free(value) if name in INSIDE else value for name, value in values.items()})


def unit(name: str) -> Said:
    """A unit in words; one that is not known as it is."""
    return Said(UNITS[name]) if name in UNITS else plain(name)


def number(value: float) -> str:
    """A figure as people read it: thousands set apart, four significant digits below 1,000."""
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """A change as "+34.2 %" with its sign, 0.342 in."""
    return f"{share:+.1%}".replace("%", " %")


def _words(value: Value, language: str) -> str:
    if isinstance(value, Said):
        return value.told(language)
    if isinstance(value, tuple | list):
        return "; ".join(part.told(language) for part in value)
    return visible(value) if isinstance(value, str) else number(value)
