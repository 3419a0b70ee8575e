"""What a trace that cannot be used is answered with."""

from __future__ import annotations

from typing import Any


class TraceError(ValueError):
    """A trace, generator or scale that cannot be used.

    source: file or spec. line: of the file, from 1; 0 = none. field: column, key or option, "" = none. problem: the
    value found and what would be right. The message holds all four.
    """

    def __init__(self, source: str, problem: str, *, line: int = 0, field: str = "") -> None:
        place = [source] + ([f"line {line}"] if line else []) + ([field] if field else [])
        super().__init__(f"{': '.join(place)}: {problem}")
        self.source, self.line, self.field, self.problem = source, line, field, problem


def short(value: Any) -> str:
    """A value for a message: at most 80 characters."""
    return f"{value!r:.80}"
