"""Proposals of policies of one's own that broke a rule: what was wrong, and who decides instead."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from scheduler.event_log import EventLog
from scheduler.metrics import Books
from scheduler.sequence import SequenceView


@dataclass(frozen=True, slots=True)
class Source:
    """Where a policy of one's own comes from. field: the policy field it is a value of; stand_in: the built-in value
    that decides when its proposal is refused."""

    field: str
    name: str
    file: str
    stand_in: str


class Refused(Exception):  # noqa: N818  an outcome, not a defect of ours
    """A proposal that breaks a rule. seq: the request it was about, where it was about one."""

    def __init__(self, source: Source, reason: str, seq: SequenceView | None = None) -> None:
        super().__init__(reason)
        self.source = source
        self.reason = reason
        self.seq = seq


class Refusals:
    """The refusals of one scheduler. After its first one a policy is not asked again in that step, so that one that is
    always wrong costs one event a step.

    answers: what was asked in this step already, by question; the same question then has the same answer.
    """

    __slots__ = ("_pending", "_refused", "answers")

    def __init__(self) -> None:
        self._pending: list[Refused] = []
        self._refused: set[Source] = set()
        self.answers: dict[tuple[Hashable, ...], Any] = {}

    def next_step(self) -> None:
        """Let everybody propose again."""
        if self._refused or self.answers:
            self._refused.clear()
            self.answers.clear()

    def has(self, source: Source) -> bool:
        """Whether the stand-in decides in this step."""
        return source in self._refused

    def note(self, refused: Refused) -> None:
        """Let the stand-in decide from now on in this step."""
        if refused.source not in self._refused:
            self._refused.add(refused.source)
            self._pending.append(refused)

    def report(self, log: EventLog, books: Books, now: float) -> None:
        """Write the refusals noted since the last report into the books."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        books.refused_proposals += len(pending)
        for refused in pending:
            source = refused.source
            own = f"{source.field} {source.name} ({source.file})"
            log.add(
                "policy_refused",
                "",
                now,
                f"{own}: {refused.reason}; {source.stand_in} decides in this step",
                field=source.field,
                name=source.name,
                file=source.file,
                instead=source.stand_in,
            )
