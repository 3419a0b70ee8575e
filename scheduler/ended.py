"""The ids of requests that ended: for the runner, for the next snapshot, and for a while for whoever asks."""

from __future__ import annotations

from typing import Final

REMEMBERED_IDS: Final = 10_000
"""Ended requests whose abort is answered "already_finished"; older ones are "unknown"."""


class EndedIds:
    """Runner and snapshots are told of each end once, in the order of the ends."""

    def __init__(self) -> None:
        self._remembered: dict[str, None] = {}
        self._for_step: list[str] = []
        self._for_snapshot: list[str] = []

    def __contains__(self, request_id: object) -> bool:
        """Whether a request of this id ended lately, and none of this id lives."""
        return request_id in self._remembered

    def note(self, request_id: str) -> None:
        """A request ended."""
        self._remembered[request_id] = None
        if len(self._remembered) > REMEMBERED_IDS:
            del self._remembered[next(iter(self._remembered))]
        self._for_step.append(request_id)
        self._for_snapshot.append(request_id)

    def forget(self, request_id: str) -> None:
        """The id is in use again."""
        self._remembered.pop(request_id, None)

    @property
    def any_for_step(self) -> bool:
        """Whether the runner has not been told of an end yet."""
        return bool(self._for_step)

    def drain_for_step(self) -> tuple[str, ...]:
        """Ids that ended since the last step, for the runner."""
        ended, self._for_step = tuple(self._for_step), []
        return ended

    def drain_for_snapshot(self) -> tuple[str, ...]:
        """Ids that ended since the last snapshot."""
        ended, self._for_snapshot = tuple(self._for_snapshot), []
        return ended
