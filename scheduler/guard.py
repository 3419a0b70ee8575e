"""Policies of one's own while they run: they read faces, not the books, and what they propose is checked.

A proposal that breaks a rule, or an exception, is refused with its reason (event ``policy_refused``), and a built-in
choice decides for the rest of the step. Built-in choices are not wrapped and pay nothing for this.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeVar

from scheduler.ordering import AdmissionOrder, OrderKey
from scheduler.refusals import Refused, Source
from scheduler.sequence import SequenceView
from scheduler.victims import VICTIMS, DraftView, VictimRule, spared

T = TypeVar("T")

FAULTS: Final = (Exception, SystemExit)
"""What a policy of one's own may raise without harm. KeyboardInterrupt is somebody else's wish."""

MAX_TEXT: Final = 200


class Face:
    """The read-only side of an object: the names in ``names`` and no others."""

    __slots__ = ("_target",)
    names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            raise AttributeError(f"{name!r} cannot be read here; {', '.join(sorted(self.names))} can")
        return getattr(self._target, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} cannot be set: a policy reads, and only the scheduler writes")


class SequenceFace(Face):
    """What a policy sees of a request: all of ``SequenceView``."""

    __slots__ = ()
    names = frozenset(name for name, member in vars(SequenceView).items() if isinstance(member, property))


class ViewFace(Face):
    """What a policy sees of the start of a step."""

    __slots__ = ()
    names = frozenset(
        {"policy", "num_blocks", "block_size", "block_limit", "num_used_blocks", "max_model_len", "blocks_for"}
    )


class DraftFace(Face):
    """What a victim rule sees of the step being planned."""

    __slots__ = ()
    names = frozenset({"budget", "free_blocks", "blocks_of", "view"})

    @property
    def view(self) -> ViewFace:
        """The start of the step."""
        return ViewFace(self._target.view)


def ask(source: Source, call: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call into a policy of one's own. Raises Refused for whatever it raises, with the line of its file."""
    try:
        return function(*arguments)
    except FAULTS as error:
        raise Refused(f"{call} raised {in_words(error, source.file)}") from None


def in_words(error: BaseException, file: str) -> str:
    """Kind and message of an exception, and the line of ``file`` (its name) in which it came up, where it did."""
    try:
        message = str(error)
    except FAULTS:
        message = "no message"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(file)]
    where = f", line {lines[-1]}" if lines else ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text[:MAX_TEXT] + where


def shown(value: object) -> str:
    """A value a policy returned, in words that do not depend on where it lies in memory."""
    if isinstance(value, SequenceFace):
        return f"request {value.request_id!r}"
    if value is None or type(value) in (bool, int, float, str):
        return f"{value!r:.60}"
    return f"an object of type {type(value).__name__}"


class OwnVictimRule(VictimRule):
    """A victim rule of one's own. It chooses among those that were not evicted too often (``victims.spared``), so that
    no rule, however odd, can evict the same requests in turn for ever."""

    def __init__(self, rule: VictimRule, source: Source) -> None:
        self.name, self.description = rule.name, rule.description
        self._rule = rule
        self._source = source

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """What the rule chose, when it is one of those it was offered."""
        refusals = draft.view.refusals
        if not refusals.has(self):
            try:
                return self._chosen(spared(candidates), draft)
            except Refused as refused:
                refusals.note(self, self._source, refused.reason)
        return VICTIMS[self._source.stand_in].choose(candidates, draft)

    def _chosen(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        faces = tuple(SequenceFace(seq) for seq in candidates)
        chosen = ask(self._source, "choose()", self._rule.choose, faces, DraftFace(draft))
        for face, seq in zip(faces, candidates, strict=True):
            if face is chosen:
                return seq
        raise Refused(f"choose() returned {shown(chosen)}, expected one of its {len(faces)} candidates")


class OwnOrder(AdmissionOrder):
    """An admission order of one's own. Its keys are numbers or tuples of numbers, hence always comparable; equals go
    by rank, first come first served."""

    def __init__(self, order: AdmissionOrder, source: Source) -> None:
        self.name, self.description = order.name, order.description
        self.source = source
        self._order = order

    def key(self, seq: SequenceView) -> OrderKey:
        """The order's key, then the rank. Raises Refused when it is no key."""
        try:
            key = ask(self.source, "key()", self._order.key, SequenceFace(seq))
        except Refused as refused:
            raise Refused(refused.reason, seq) from None
        parts = key if isinstance(key, tuple) else (key,)
        wrong = [part for part in parts if not _is_number(part)]
        if wrong or not parts:
            found = shown(wrong[0]) if wrong else "an empty tuple"
            raise Refused(f"key({seq.request_id}) has {found}, expected a number or a tuple of numbers", seq)
        return (parts, seq.rank)


def _is_number(part: object) -> bool:
    return type(part) in (bool, int, float) and part == part
