"""Korean and English. The English sentence is the message id; ``ko.po`` has the Korean one (gettext, read by babel)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from experiments.i18n import read_catalogue

LANGUAGES: Final = {"en": "English", "ko": "한국어"}
Translate = Callable[..., str]


ONE: Final = re.compile(r"(?<![\d.,])1 (block|token|request|iteration|vote|row|page|choice|slot|second)s\b")
"""English alone has a plural here: "1 blocks" is made "1 block" after the number is known."""


def N_(message: str) -> str:  # noqa: N802 - gettext's name for "translate later"
    """Mark a message for the catalogue without translating it here."""
    return message


def language_of(locale: str | None) -> str:
    """The page's language for a browser locale such as "ko-KR"; English where we have no catalogue."""
    code = (locale or "en").replace("_", "-").split("-")[0].lower()
    return code if code in LANGUAGES else "en"


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Message id to translation; empty for English. A message that is missing there shows in English."""
    return read_catalogue(Path(__file__).parent, language)


@cache
def translator(language: str) -> Translate:
    """``t("wait {seconds} s", seconds=3)``: the message in ``language`` with its values filled in."""
    table = catalogue(language)

    def t(message: str, /, **values: object) -> str:
        text = table.get(message, message)
        if not values:
            return text
        return text.format(**values) if table else ONE.sub(r"1 \1", text.format(**values))

    return t
