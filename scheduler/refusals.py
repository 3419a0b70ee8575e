"""Proposals of policies of one's own that broke a rule: what was wrong, and who decides instead."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.event_log import EventLog
from scheduler.metrics import Books
from scheduler.registry import Choice
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

    def __init__(self, reason: str, seq: SequenceView | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.seq = seq


class Refusals:
    """The refusals of one scheduler. After its first one a rule is not asked again in that step, so that a rule that is
    always wrong costs one event a step."""

    __slots__ = ("_pending", "_refused")

    def __init__(self) -> None:
        self._pending: list[tuple[Source, str]] = []
        self._refused: set[Choice] = set()

    def next_step(self) -> None:
        """Let every rule propose again."""
        if self._refused:
            self._refused.clear()

    def has(self, rule: Choice) -> bool:
        """Whether the stand-in decides for ``rule`` in this step."""
        return rule in self._refused

    def note(self, rule: Choice, source: Source, reason: str) -> None:
        """Refuse what ``rule`` proposed."""
        if rule not in self._refused:
            self._refused.add(rule)
            self._pending.append((source, reason))

    def report(self, log: EventLog, books: Books, now: float) -> None:
        """Write the refusals noted since the last report into the books."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        books.refused_proposals += len(pending)
        for source, reason in pending:
            log.add(
                "policy_refused",
                "",
                now,
                f"{source.field} {source.name} ({source.file}): {reason}; {source.stand_in} decides in this step",
                field=source.field,
                name=source.name,
                file=source.file,
                instead=source.stand_in,
            )
