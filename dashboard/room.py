"""What the presenter has on for everybody, and what the room votes. One per server; pure, thread-safe, bounded.

Texts are kept as English messages of the catalogue with their values, so that each reader sees them in their own
language.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from dashboard.i18n import Translate

MAX_VOTERS: Final = 500
MIN_CHOICES: Final = 2
MAX_CHOICES: Final = 8
MAX_TEXT: Final = 2000
"""Characters of a message, of its values together, and of a name."""
MAX_LINES: Final = 12
HERE_S: Final = 15.0
"""A page that has not ticked for so long is not counted as open."""

Phase = Literal["none", "open", "closed", "revealed"]
Outcome = Literal["taken", "changed", "not_open", "other_question", "no_such_choice", "full"]


class RoomError(ValueError):
    """Something the room cannot hold; names field, value and what would be right."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the catalogue and the values it names, as (name, value) pairs; a value may be a message itself."""

    message: str
    values: tuple[tuple[str, str | int | float | Said], ...] = ()

    def told(self, t: Translate) -> str:
        """In the reader's language; not escaped."""
        return t(self.message, **{k: v.told(t) if isinstance(v, Said) else v for k, v in self.values})


def say(message: str, **values: str | float | Said) -> Said:
    """``say("{n} tokens", n=3)``."""
    return Said(message, tuple(values.items()))


@dataclass(frozen=True, slots=True)
class Board:
    """What is on beside the live page. scene: its name, "" = none; lines: what to look at, or what came out."""

    scene: str = ""
    title: Said = Said("")
    lines: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class RoomState:
    """One moment of the room.

    phase: "none" (no question), "open" (votes are taken), "closed", "revealed". round: grows with every question, so
    that a page that draws an old one can tell. choices: in their order, a vote is an index into them. counts: votes
    per choice; shown_counts: the same where the audience may see it, else None. answer: the right choice once revealed,
    None = there is none. outcome: what was measured, said at the reveal. num_here: pages open in the last seconds.
    """

    board: Board = Board()
    phase: Phase = "none"
    round: int = 0
    question_id: str = ""
    question: Said = Said("")
    choices: tuple[Said, ...] = ()
    counts: tuple[int, ...] = ()
    shows_counts: bool = False
    answer: int | None = None
    outcome: tuple[Said, ...] = ()
    num_here: int = 0

    @property
    def num_votes(self) -> int:
        """Votes so far, over all choices."""
        return sum(self.counts)

    @property
    def shown_counts(self) -> tuple[int, ...] | None:
        """``counts`` where the audience may see them."""
        return self.counts if self.shows_counts or self.phase == "revealed" else None


def _as_said(text: Said | str, field: str) -> Said:
    said = Said(text) if isinstance(text, str) else text
    size = max(len(said.message), sum(len(str(value)) for _, value in said.values))
    if size > MAX_TEXT:
        raise RoomError(f"{field} has {size} characters, at most {MAX_TEXT} are kept")
    return said


class Room:
    """The presenter calls ``show``, ``ask``, ``show_counts``, ``close``, ``reveal`` and ``clear``; everybody's page
    calls ``vote``, ``here`` and reads ``state``. Who may call what is not checked here.

    clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._state = RoomState()
        self._votes: dict[str, int] = {}
        self._here: dict[str, float] = {}

    @property
    def state(self) -> RoomState:
        """The present moment."""
        with self._lock:
            since = self._clock() - HERE_S
            here = sum(1 for at in self._here.values() if at >= since)
            return replace(self._state, counts=self._counts(), num_here=here)

    def _counts(self) -> tuple[int, ...]:
        counts = [0] * len(self._state.choices)
        for choice in self._votes.values():
            counts[choice] += 1
        return tuple(counts)

    def show(self, scene: str, title: Said | str = "", lines: Sequence[Said | str] = ()) -> None:
        """Put a scene on everybody's page; "" takes it off. Raises RoomError for texts that are too long."""
        if len(scene) > MAX_TEXT:
            raise RoomError(f"scene has {len(scene)} characters, at most {MAX_TEXT} are kept")
        if len(lines) > MAX_LINES:
            raise RoomError(f"lines has {len(lines)} entries, at most {MAX_LINES} are kept")
        board = Board(scene, _as_said(title, "title"), tuple(_as_said(line, "lines") for line in lines))
        with self._lock:
            self._state = replace(self._state, board=board)

    def ask(
        self, question_id: str, choices: Sequence[Said | str], question: Said | str = "", *, shows_counts: bool = False
    ) -> None:
        """Open a question in place of the one before, without votes.

        choices: 2 to 8 messages. shows_counts: the audience sees the votes while they come in. Raises RoomError.
        """
        if not question_id or len(question_id) > MAX_TEXT:
            raise RoomError(f"question_id has {len(question_id)} characters, 1 to {MAX_TEXT} are right")
        if not MIN_CHOICES <= len(choices) <= MAX_CHOICES:
            raise RoomError(f"choices has {len(choices)} entries, {MIN_CHOICES} to {MAX_CHOICES} are right")
        said = tuple(_as_said(choice, "choices") for choice in choices)
        asked = _as_said(question, "question")
        with self._lock:
            self._votes = {}
            self._state = RoomState(
                board=self._state.board,
                phase="open",
                round=self._state.round + 1,
                question_id=question_id,
                question=asked,
                choices=said,
                shows_counts=shows_counts,
            )

    def vote(self, voter: str, choice: int, asked_round: int | None = None) -> Outcome:
        """Count one voter's choice, or change it. Nothing is counted unless the outcome is "taken" or "changed".

        voter: any text, told apart by it. asked_round: ``RoomState.round`` of the page the click was made on, None =
        the present one: a click on a question that has been replaced meanwhile must not answer the new one.
        """
        voter = voter[:MAX_TEXT]
        with self._lock:
            state = self._state
            if state.phase != "open":
                return "not_open"
            if asked_round is not None and asked_round != state.round:
                return "other_question"
            if not 0 <= choice < len(state.choices):
                return "no_such_choice"
            known = voter in self._votes
            if not known and len(self._votes) >= MAX_VOTERS:
                return "full"
            self._votes[voter] = choice
            return "changed" if known else "taken"

    def choice_of(self, voter: str) -> int | None:
        """What this voter has chosen in the present question; None = nothing yet."""
        with self._lock:
            return self._votes.get(voter[:MAX_TEXT])

    def here(self, voter: str) -> None:
        """This voter's page is open."""
        voter = voter[:MAX_TEXT]
        with self._lock:
            now = self._clock()
            if voter not in self._here and len(self._here) >= MAX_VOTERS:
                self._here = {v: at for v, at in self._here.items() if at >= now - HERE_S}
                if len(self._here) >= MAX_VOTERS:
                    return
            self._here[voter] = now

    def show_counts(self, shown: bool) -> None:
        """Whether the audience sees the votes before the reveal."""
        with self._lock:
            self._state = replace(self._state, shows_counts=shown)

    def close(self) -> None:
        """Take no more votes. Without an open question nothing changes."""
        with self._lock:
            if self._state.phase == "open":
                self._state = replace(self._state, phase="closed")

    def reveal(self, answer: int | None = None, outcome: Sequence[Said | str] = ()) -> None:
        """Close the question and show everybody the votes, the right choice and what was measured. Raises RoomError."""
        said = tuple(_as_said(line, "outcome") for line in outcome)
        if len(said) > MAX_LINES:
            raise RoomError(f"outcome has {len(said)} entries, at most {MAX_LINES} are kept")
        with self._lock:
            if self._state.phase == "none":
                return
            last = len(self._state.choices) - 1
            if answer is not None and not 0 <= answer <= last:
                raise RoomError(f"answer is {answer}, 0 to {last} or None is right")
            self._state = replace(self._state, phase="revealed", answer=answer, outcome=said)

    def clear(self) -> None:
        """Take question and votes away; the scene stays."""
        with self._lock:
            self._votes = {}
            self._state = RoomState(board=self._state.board, round=self._state.round)
