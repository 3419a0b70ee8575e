"""What the journal keeps of one request, and the forms in which it leaves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from model_runner.messages import Submit, Turn
from model_runner.views import RequestView
from model_runner.watch import News
from scheduler import RequestRecord, SamplingParams


@dataclass(slots=True)
class Entry:
    """One request. Ages and ``counted_from`` as ``Journal`` keeps them.

    accepted: an engine has taken it in. is_complete: its reader found a stop string, so the abort that follows is its
    regular end.
    """

    request_id: str
    origin: str
    sampling: SamplingParams
    priority: int
    chat: bool
    prompt_text: str | None
    prompt_token_ids: tuple[int, ...] | None
    turns: tuple[Turn, ...] = ()
    submitted_at: float = field(default_factory=time.time)
    tokens: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    given_text: bool = False
    accepted: bool = False
    model: str = ""
    sent: bool = False
    age_s: float = 0.0
    counted_from: float = 0.0
    abort_asked: bool = False
    is_complete: bool = False
    num_restarts: int = 0
    outcome: str = ""
    reason: str = ""
    record: RequestRecord | None = None


def submit_of(entry: Entry, model: str, now: float) -> Submit:
    """The command that gives it to a worker which runs ``model``. now: monotonic seconds.

    Tokens of another model mean nothing to this one: then it starts again from its prompt.
    """
    if entry.model != model:
        if entry.given_text:
            entry.prompt_token_ids = None
        entry.tokens, entry.pieces, entry.model = [], [], model
    by_ids = entry.prompt_token_ids is not None
    return Submit(
        command_id=0,
        request_id=entry.request_id,
        sampling=entry.sampling,
        prompt_text=None if by_ids else entry.prompt_text,
        prompt_token_ids=entry.prompt_token_ids,
        chat=entry.chat,
        priority=entry.priority,
        turns=() if by_ids else entry.turns,
        prior_output_token_ids=tuple(entry.tokens),
        age_s=entry.age_s + now - entry.counted_from,
        sent_at=now,
    )


def news_of(entry: Entry, text: str) -> News:
    """What those who watch it are told. text: new."""
    return News(text, len(entry.tokens), len(entry.prompt_token_ids or ()), entry.outcome, entry.reason)


def view_of(entry: Entry, states: Mapping[str, str]) -> RequestView:
    """What the page shows of it. states: as in ``Journal.view``."""
    if len(entry.pieces) > 1:
        entry.pieces = ["".join(entry.pieces)]
    state = entry.outcome or (states.get(entry.request_id, "waiting") if entry.sent else "queued")
    return RequestView(
        request_id=entry.request_id,
        origin=entry.origin,
        prompt_text=entry.prompt_text or "\n".join(f"{turn.role}: {turn.content}" for turn in entry.turns),
        num_prompt_tokens=len(entry.prompt_token_ids or ()),
        text=entry.pieces[0] if entry.pieces else "",
        tokens=tuple(entry.tokens),
        max_tokens=entry.sampling.max_tokens,
        seed=entry.sampling.seed,
        priority=entry.priority,
        state=state,
        outcome=entry.outcome,
        reason=entry.reason,
        submitted_at=entry.submitted_at,
        num_restarts=entry.num_restarts,
        record=entry.record,
    )
