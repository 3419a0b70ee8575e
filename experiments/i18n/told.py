"""Sentences that came as English text, out of files and from errors, in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from experiments.i18n import catalogue
from experiments.i18n.facts import COSTS, ORIGINS, ROSETTA, RUNS
from experiments.i18n.refused import SPEC, TRACE, WANTED

PLACES: Final = ("{place}: {reason}",)
"""Whatever stands before a sentence that is known: a file, a table, a field."""
TEMPLATES: Final = (*SPEC, *TRACE, *RUNS, *COSTS, *ORIGINS, *ROSETTA, *WANTED, *PLACES)
INSIDE: Final = frozenset({"reason", "wanted", "source", "at"})
"""Places of a template that hold a sentence of their own."""
NUMBER: Final = r"[\d.,e+^-]+(?: - 1)?"
SHORT: Final = {
    "place": r"[^:]+", "file": ".+?", "folder": ".+?", "line": r"\d+", "n": r"[\d.,e+]+", "label": r"\S+",
    "field": r"[\w.]+", "low": NUMBER, "high": NUMBER, "at": r"[^:]+", "count": NUMBER, "format": "'[^']*'",
}  # fmt: skip
"""What a place of a template may hold; others hold anything."""
LONGEST: Final = 2000
"""Longer texts are shown as they came: no sentence of ours is so long."""


def parts_of(text: str) -> tuple[str, Mapping[str, str]] | None:
    """The message of the catalogue that a text was made from, and its values; None for an unknown text."""
    if len(text) > LONGEST:
        return None
    for template in TEMPLATES:
        found = _pattern(template).fullmatch(text)
        if found:
            return template, found.groupdict()
    return None


def told(text: str, language: str) -> str:
    """A text in "en" or "ko"; one that nothing is known of as it came."""
    known = catalogue(language).get(text)
    if known is not None:
        return known
    found = None if language == "en" else parts_of(text)
    if found is None:
        return text
    template, values = found
    words = {name: told(value, language) if name in INSIDE else value for name, value in values.items()}
    return catalogue(language).get(template, template).format(**words)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(
        re.sub(r"\\\{(\w+)\\\}", lambda place: f"(?P<{place[1]}>{SHORT.get(place[1], '.+')})", re.escape(template)),
        re.DOTALL,
    )
