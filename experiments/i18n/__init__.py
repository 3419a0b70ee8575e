"""Korean and English of what experiments say. The English sentence is the message id (gettext, read by babel)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from babel.messages.pofile import read_po

Translate = Callable[..., str]


def N_(message: str) -> str:  # noqa: N802 - gettext's name for "translate later"
    """Mark a message for the catalogue without translating it here."""
    return message


def read_catalogue(folder: Path, language: str) -> Mapping[str, str]:
    """Message id to translation, from ``LANGUAGE.po`` in ``folder``; empty for English, which the ids are in."""
    if language == "en":
        return {}
    with (folder / f"{language}.po").open("rb") as file:
        return {str(m.id): str(m.string) for m in read_po(file, locale=language) if m.id and m.string}


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """The messages of this package. One that is missing there shows in English."""
    return read_catalogue(Path(__file__).parent, language)
