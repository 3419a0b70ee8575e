"""Which hue and letter a request carries, the same in every view from its admission to its end."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

NUM_HUES: Final = 8
NUM_MARKS: Final = 2 * NUM_HUES
"""Marks 0..7 are the hues filled, 8..15 the same hues hollow."""
LETTERS: Final = "ABCDEFGHIJKLMNOP"
NO_MARK: Final = -1


class MarkBook:
    """Gives each admitted request one of 16 marks and takes it back when the request has ended.

    A hue belongs to the request, not to the slot: it stays through a preemption. The mark unused for longest is given
    out next, so that a hue does not jump to a newcomer while the eye still follows its last owner; hollow marks come
    only when the eight filled ones are taken. Beyond sixteen a request has no mark (NO_MARK) and is drawn grey.
    """

    def __init__(self) -> None:
        self._marks: dict[str, int] = {}
        self._filled = list(range(NUM_HUES))
        self._hollow = list(range(NUM_HUES, NUM_MARKS))

    def update(self, admitted: Collection[str], alive: Collection[str]) -> None:
        """Free the marks of requests not in ``alive``, then mark those of ``admitted`` that have none, in order."""
        keep = set(alive)
        for request_id in [r for r in self._marks if r not in keep]:
            mark = self._marks.pop(request_id)
            (self._filled if mark < NUM_HUES else self._hollow).append(mark)
        for request_id in admitted:
            if request_id not in self._marks:
                free = self._filled or self._hollow
                if free:
                    self._marks[request_id] = free.pop(0)

    def mark(self, request_id: str) -> int:
        """0..15, or NO_MARK."""
        return self._marks.get(request_id, NO_MARK)

    def snapshot(self) -> dict[str, int]:
        """All marks given out, by request id."""
        return dict(self._marks)


def letter(mark: int) -> str:
    """The letter of a mark; "" for NO_MARK."""
    return LETTERS[mark] if mark >= 0 else ""
