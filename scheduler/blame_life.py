"""The life of one request while it is written, and as it is handed out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler.blame_parts import DEFERRED, InStep, Part, StepShare

KEPT_STRETCHES: Final = 512
"""Steps and waits of a life that are kept one by one; older ones are only summed up by cause."""
FOLDED_AT_ONCE: Final = 64

WAITING, RUNNING, PREEMPTED = "waiting", "running", "preempted"


@dataclass(frozen=True, slots=True)
class Token:
    """An output token. number: 1 = the first. at: nanoseconds, the end of the step that made it."""

    number: int
    at: int
    step_id: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to the request. kind: an event's kind ("queued", "admitted", "preempted", "resumed",
    "finished", "aborted") or "restart", a new life of the engine."""

    kind: str
    at: int
    step_id: int
    reason: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """What the request did from ``start`` to ``end``. kind: "waiting", "preempted", "away", "unseen", or in a step
    "prefill", "decode", "recompute", "padding", or "memory", "batch_end", "none" where it had no tokens."""

    start: int
    end: int
    kind: str
    step_id: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The time up to one token since the token before it; of the first token, since the arrival (TTFT); after the last
    token, until the end (``number`` 0). start, end: nanoseconds. parts add up to end - start exactly."""

    number: int
    step_id: int
    start: int
    end: int
    parts: tuple[Part, ...]

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Life:
    """The life of one request so far. Nanoseconds on the clock of the newest run it was seen in.

    Invariant: ``parts`` are contiguous from ``known_from`` to ``until``, each longer than 0; their lengths and
    ``folded`` (the sum by cause of all before ``known_from``) add up to ``until - arrival``, exactly.

    outcome: "" while it lives, "finished", "aborted", or "lost": it ended while nobody watched. tokens: those since
    ``known_from``; first_token: the first that was seen, with the number it has. held: nanoseconds the
    clock stood still during its life (pause, single step, pace): part of nobody's latency, so of no part.
    """

    request_id: str
    run_id: str
    arrival: int
    until: int
    known_from: int
    outcome: str
    reason: str
    num_prompt_tokens: int
    parts: tuple[Part, ...]
    folded: Mapping[str, int]
    folded_tokens: int
    tokens: tuple[Token, ...]
    first_token: Token | None
    moments: tuple[Moment, ...]
    stages: tuple[Stage, ...]
    held: int

    @property
    def totals(self) -> dict[str, int]:
        """Nanoseconds by cause. They add up to ``until - arrival``."""
        sums = Counter(self.folded)
        for part in self.parts:
            sums[part.cause] += part.length
        return dict(sums)

    @property
    def end_to_end(self) -> int:
        """Nanoseconds from its arrival to its end, or to the newest step while it lives."""
        return self.until - self.arrival

    def gaps(self) -> list[Gap]:
        """Every stretch between two tokens as far as single steps are kept, oldest first."""
        ends = [(token.number, token.step_id, token.at) for token in self.tokens] + [(0, 0, self.until)]
        gaps, parts, start, at = [], self.parts, self.known_from, 0
        for number, step_id, end in ends:
            first = at
            while at < len(parts) and parts[at].end <= end:
                at += 1
            if end > start or number:
                gaps.append(Gap(number, step_id, start, end, parts[first:at]))
            start = end
        return gaps


@dataclass(slots=True)
class OpenLife:
    """Written by ``Blame`` alone. Invariant: ``stretches`` are contiguous up to ``cursor``."""

    request_id: str
    run_id: str
    arrival: int
    cursor: int
    num_prompt_tokens: int = 0
    state: str = WAITING
    reason: str = ""
    behind: str = ""
    arrival_known: bool = True
    blocked: bool = False
    holds: bool = False
    outcome: str = ""
    end_reason: str = ""
    first_token: Token | None = None
    held_before: int = 0
    held: int = 0
    known_from: int = 0
    folded_tokens: int = 0
    folded: Counter[str] = field(default_factory=Counter)
    stretches: deque[Part | InStep] = field(default_factory=deque)
    tokens: deque[Token] = field(default_factory=deque)
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=256))

    def wait(self, until: int, cause: str = "") -> None:
        """Let it have waited until then: for ``cause``, or for what it is known to wait for."""
        if until <= self.cursor:
            return
        if not cause:
            cause = PREEMPTED if self.state == PREEMPTED else DEFERRED.get(self.reason, "queue_behind")
            part = Part(self.cursor, until, cause, 0, self.behind, 0, 0, self.reason)
        else:
            part = Part(self.cursor, until, cause)
        last = self.stretches[-1] if self.stretches else None
        if isinstance(last, Part) and replace(last, start=0, end=0) == replace(part, start=0, end=0):
            self.stretches[-1] = replace(last, end=until)
        else:
            self._put(part)
        self.cursor = until

    def because(self, reason: str, behind: str, since: int) -> None:
        """From ``since`` on it waits for this."""
        if (reason, behind) != (self.reason, self.behind):
            self.wait(since)
            self.reason, self.behind = reason, behind

    def take_part(self, share: StepShare, until: int, kind: str, tokens: int, padding: int) -> None:
        """Let it have been in a step, until its end or until it was aborted in it."""
        if until > self.cursor:
            self._put(InStep(share, self.request_id, self.cursor, until, kind, tokens, padding))
            self.cursor = until

    def token(self, number: int, at: int, step_id: int) -> None:
        """It got a token at the end of a step."""
        self.tokens.append(Token(number, at, step_id))
        self.first_token = self.first_token or self.tokens[-1]

    def came_earlier(self, arrival: int) -> None:
        """Set the arrival right that was not known when the life was opened."""
        self.arrival_known = True
        if arrival >= self.arrival:
            return
        if self.known_from == self.arrival:
            self.stretches.appendleft(Part(arrival, self.arrival, "queue_step"))
            self.known_from = arrival
        else:
            self.folded["queue_step"] += self.arrival - arrival
        self.arrival = arrival

    def move_to(self, run_id: str, arrival: int, since: int, step_id: int) -> None:
        """Go on in another run of the engine, on its clock, after a time without an engine that ends at ``since``."""
        shift = min(arrival - self.arrival, since - self.known_from)
        moved = [shifted(stretch, shift, since) for stretch in self.stretches]
        self.stretches = deque(stretch for stretch in moved if stretch.start < stretch.end)
        self.tokens = deque(replace(t, at=min(t.at + shift, since)) for t in self.tokens)
        if self.first_token is not None:
            self.first_token = replace(self.first_token, at=self.first_token.at + shift)
        self.moments = deque((replace(m, at=min(m.at + shift, since)) for m in self.moments), maxlen=256)
        self.arrival, self.known_from = self.arrival + shift, self.known_from + shift
        self.cursor, self.run_id, self.state = min(self.cursor + shift, since), run_id, WAITING
        self.reason, self.behind, self.blocked, self.holds = "", "", False, False
        self.wait(since, "away")
        self.moments.append(Moment("restart", since, step_id))

    def _put(self, stretch: Part | InStep) -> None:
        self.stretches.append(stretch)
        if len(self.stretches) >= KEPT_STRETCHES + FOLDED_AT_ONCE:
            self._fold()

    def _fold(self) -> None:
        for stretch in [self.stretches.popleft() for _ in range(FOLDED_AT_ONCE)]:
            for part in parts_of(stretch):
                self.folded[part.cause] += part.length
            self.known_from = stretch.end
        while self.tokens and self.tokens[0].at <= self.known_from:
            self.tokens.popleft()
            self.folded_tokens += 1

    def frozen(self, until: int, held: int) -> Life:
        """As it is, with a wait that goes on now counted until then. held: as counted by the book so far."""
        open_part = []
        if not self.outcome and self.state != RUNNING and until > self.cursor:
            cause = PREEMPTED if self.state == PREEMPTED else DEFERRED.get(self.reason, "queue_behind")
            open_part = [Part(self.cursor, until, cause, 0, self.behind, 0, 0, self.reason)]
        stretches = [*self.stretches, *open_part]
        return Life(
            request_id=self.request_id,
            run_id=self.run_id,
            arrival=self.arrival,
            until=stretches[-1].end if stretches else self.arrival,
            known_from=self.known_from,
            outcome=self.outcome,
            reason=self.end_reason,
            num_prompt_tokens=self.num_prompt_tokens,
            parts=tuple(part for stretch in stretches for part in parts_of(stretch)),
            folded=dict(self.folded),
            folded_tokens=self.folded_tokens,
            tokens=tuple(self.tokens),
            first_token=self.first_token,
            moments=tuple(self.moments),
            stages=tuple(stage_of(stretch) for stretch in stretches),
            held=self.held if self.outcome else held - self.held_before,
        )


def parts_of(stretch: Part | InStep) -> Iterator[Part]:
    """The parts of a stretch, contiguous from its start to its end."""
    if isinstance(stretch, Part):
        yield stretch
    else:
        yield from stretch.parts()


def stage_of(stretch: Part | InStep) -> Stage:
    """What the request did then."""
    if isinstance(stretch, InStep):
        return Stage(stretch.start, stretch.end, stretch.kind, stretch.share.step_id, stretch.tokens)
    runs = stretch.cause in ("preempted", "away", "unseen", "idle", "overhead") or (
        stretch.cause == "memory" and not stretch.reason
    )
    kind = stretch.cause if runs else WAITING
    return Stage(stretch.start, stretch.end, kind, stretch.step_id, stretch.tokens)


def shifted(stretch: Part | InStep, shift: int, end: int) -> Part | InStep:
    """The same on another clock, cut off at ``end``."""
    first, last = min(stretch.start + shift, end), min(stretch.end + shift, end)
    if isinstance(stretch, Part):
        return replace(stretch, start=first, end=last)
    share = stretch.share
    there = replace(
        share,
        start=share.start + shift,
        swap_start=share.swap_start + shift,
        compute_start=share.compute_start + shift,
        end=share.end + shift,
    )
    return replace(stretch, start=first, end=last, share=there)
