"""Ends a text at a stop string, wherever the borders of its pieces lie."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Takes a text piece by piece and lets out what cannot be part of a stop string any more.

    The stop string that is complete first ends the text; of two complete at once, the one that began first. So the
    result does not depend on how the text was cut into pieces. stops: none of them empty. include: the stop string
    itself is let out too.
    """

    def __init__(self, stops: Sequence[str] = (), *, include: bool = False) -> None:
        self._stops = tuple(stops)
        self._include = include
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.found: str | None = None

    def add(self, text: str) -> str:
        """The next piece; what may be shown of it and of what was held back. Nothing comes after a stop string."""
        if self.found is not None:
            return ""
        text = self._held + text
        self._held = ""
        ends = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            end, at, self.found = min(ends)
            return text[: end if self._include else at]
        held = self._beginning_of_a_stop(text)
        if held:
            self._held = text[-held:]
            return text[:-held]
        return text

    def pass_on(self, text: str) -> str:
        """The next piece, not to be searched, and what was held back."""
        return self.flush() + text

    def flush(self) -> str:
        """What is still held back, at the end of the text."""
        held, self._held = self._held, ""
        return held

    def _beginning_of_a_stop(self, text: str) -> int:
        """Length of the longest end of the text that a stop string begins with."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
