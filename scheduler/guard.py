"""Policies of one's own while they run: they read faces, not the books, and what they propose is checked.

A proposal that breaks a rule, or an exception, is refused with its reason (event ``policy_refused``), and a built-in
choice decides for the rest of the step. Built-in choices are not wrapped and pay nothing for this.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeVar

from scheduler.allocation import ALLOCATORS, Allocator
from scheduler.ordering import AdmissionOrder, OrderKey
from scheduler.plan import StepView
from scheduler.refusals import Refusals, Refused, Source
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
        raise Refused(source, f"{call} raised {in_words(error, source.file)}") from None


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
        self.name, self.description = source.name, str(rule.description)
        self.source = source
        self._rule = rule

    def choose(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        """What the rule chose, when it is one of those it was offered."""
        refusals = draft.view.refusals
        if not refusals.has(self.source):
            try:
                return self._chosen(spared(candidates), draft)
            except Refused as refused:
                refusals.note(refused)
        return VICTIMS[self.source.stand_in].choose(candidates, draft)

    def _chosen(self, candidates: Sequence[SequenceView], draft: DraftView) -> SequenceView:
        faces = tuple(SequenceFace(seq) for seq in candidates)
        chosen = ask(self.source, "choose()", self._rule.choose, faces, DraftFace(draft))
        for face, seq in zip(faces, candidates, strict=True):
            if face is chosen:
                return seq
        raise Refused(self.source, f"choose() returned {shown(chosen)}, expected one of its {len(faces)} candidates")


class OwnOrder(AdmissionOrder):
    """An admission order of one's own. Its keys are numbers or tuples of numbers, hence always comparable; equals go
    by rank, first come first served."""

    def __init__(self, order: AdmissionOrder, source: Source) -> None:
        self.name, self.description = source.name, str(order.description)
        self.source = source
        self._order = order

    def key(self, seq: SequenceView) -> OrderKey:
        """The order's key, then the rank. Raises Refused when it is no key."""
        try:
            key = ask(self.source, "key()", self._order.key, SequenceFace(seq))
        except Refused as refused:
            raise Refused(self.source, refused.reason, seq) from None
        parts = key if isinstance(key, tuple) else (key,)
        wrong = [part for part in parts if not _is_number(part)]
        if wrong or not parts:
            found = shown(wrong[0]) if wrong else "an empty tuple"
            reason = f"key({seq.request_id}) has {found}, expected a number or a tuple of numbers"
            raise Refused(self.source, reason, seq)
        return (parts, seq.rank)


def _is_number(part: object) -> bool:
    return type(part) in (bool, int, float) and part == part


class OwnAllocator(Allocator):
    """An allocator of one's own.

    Its counts hold the tokens asked for, fit the pool, and within a step are the same for the same question and never
    fewer for more tokens; its runs are free. So whatever it says, "it fits" and "it gets it" agree, and a request that
    is alone fits.
    """

    def __init__(self, allocator: Allocator, source: Source) -> None:
        self.name, self.description = source.name, str(allocator.description)
        self.source = source
        self.contiguous = bool(allocator.contiguous)
        self._allocator = allocator

    def blocks_for(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        """What the allocator says, where it keeps the rules; for a run always the one number for all its tokens."""
        refusals = view.refusals
        if not refusals.has(self.source):
            try:
                return self._count(view, seq, seq.max_total_tokens if self.contiguous else num_tokens)
            except Refused as refused:
                refusals.note(refused)
        return ALLOCATORS[self.source.stand_in].blocks_for(view, seq, num_tokens)

    def _count(self, view: StepView, seq: SequenceView, num_tokens: int) -> int:
        known: dict[int, int] = view.refusals.answers.setdefault((self.source, seq.request_id), {})
        if num_tokens in known:
            return known[num_tokens]
        call = f"blocks_for({seq.request_id}, {num_tokens})"
        count = ask(self.source, call, self._allocator.blocks_for, ViewFace(view), SequenceFace(seq), num_tokens)
        least = max([view.blocks_for(num_tokens), *(known[n] for n in known if n < num_tokens)])
        most = min([view.num_blocks, *(known[n] for n in known if n > num_tokens)])
        if type(count) is not int or not least <= count <= most:
            expected = f"{least} to {most}, room for its tokens and no more than the pool or than more tokens get"
            raise Refused(self.source, f"{call} returned {shown(count)}, expected {expected}")
        known[num_tokens] = count
        return count

    def decided_by(self, refusals: Refusals) -> str:
        """Its stand-in once it was refused in this step."""
        return self.source.stand_in if refusals.has(self.source) else self.name

    def propose(self, view: StepView, free: bytes, count: int) -> int | None:
        """Where the allocator puts a run; None when it finds none, or may not decide any more in this step."""
        if view.refusals.has(self.source):
            return None
        answers = view.refusals.answers
        question = (self.source, free, count)
        try:
            if question not in answers:
                answers[question] = self.place(free, count)
        except Refused as refused:
            view.refusals.note(refused)
            return None
        block: int | None = answers[question]
        return block

    def place(self, free: bytes, count: int) -> int | None:
        """Where the allocator puts a run. Raises Refused when it is not free, or nowhere in a pool that is empty."""
        call = f"place({count})"
        block = ask(self.source, call, self._allocator.place, free, count)
        if block is None:
            if free.count(1) == len(free) - 1:
                raise Refused(self.source, f"{call} returned None although every block is free")
            return None
        if type(block) is not int or not 1 <= block <= len(free) - count:
            raise Refused(self.source, f"{call} returned {shown(block)}, expected 1 to {len(free) - count}")
        if free.count(1, block, block + count) != count:
            raise Refused(self.source, f"{call} returned {block}, a run in which blocks are taken")
        if (block - 1) % self.alignment(count):
            raise Refused(self.source, f"{call} returned {block}, which is not aligned to {self.alignment(count)}")
        return block

    def alignment(self, count: int) -> int:
        """What the allocator says; 1 for an answer that is none, which ``place`` then meets as well."""
        try:
            step = self._allocator.alignment(count)
        except FAULTS:
            return 1
        return step if type(step) is int and 1 <= step <= count else 1
