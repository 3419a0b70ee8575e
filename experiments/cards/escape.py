"""Text of traces, files and models in Markdown: nothing in it acts, and nothing in it hides."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_SHOWN: Final = 1000
"""Characters of one text from outside that a card shows."""

UNSEEN: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that draw nothing, or that turn the direction of what stands beside them."""

BLANK_LETTERS: Final = "\u115f\u1160\u3164\uffa0"
"""Hangul fillers: letters to Unicode, blank to the eye."""

MARKS: Final = re.compile(
    r"[\\`*\[\]<~|$&]"  # code, emphasis, links, HTML, tables, formulas, entities
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # emphasis; within a word an underscore is none
    r"|:(?=//|[\w+-]+:)"  # links without brackets, and GitHub's :names:
    r"|(?<=\bwww)\."
)
STARTS: Final = re.compile(r"^([-+=>#]|\d+(?=[.)](?:\s|$)))")
"""What would begin a list, a heading or a quotation at the start of a paragraph or list item."""


def visible(text: str, limit: int = MAX_SHOWN) -> str:
    """One line in which every character can be seen: line ends become blanks, hidden characters [U+202E].

    limit: longer texts end in an ellipsis; 0 = none. Not escaped for any markup.
    """
    cut = text if not limit or len(text) <= limit else f"{text[: limit - 1]}…"
    return "".join(" " if char in "\t\n\r\v\f\u0085\u2028\u2029" else _seen(char) for char in cut)


def _seen(char: str) -> str:
    hidden = unicodedata.category(char) in UNSEEN or char in BLANK_LETTERS
    return f"[U+{ord(char):04X}]" if hidden else char


def inline(text: str) -> str:
    """For a table cell, or within a line: no mark-up, no HTML, no link, no new line."""
    return MARKS.sub(lambda found: f"\\{found[0]}", visible(text, limit=0).strip())


def item(text: str) -> str:
    """As ``inline``, for the start of a paragraph or list item: begins no list, heading or quotation either."""
    return STARTS.sub(lambda found: f"{found[0]}\\" if found[0][0].isdigit() else f"\\{found[0]}", inline(text))


def block(text: str) -> str:
    """A fenced block of one line that its own backticks cannot close."""
    shown = visible(text, limit=10_000)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"
