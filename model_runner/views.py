"""What a client shows of engine and requests: frozen values, safe to keep and to share between threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler import RequestRecord

ClientPhase = Literal[
    "starting",
    "loading",
    "running",
    "computing",
    "idle",
    "paused",
    "stalled",
    "down",
    "restarting",
    "failed",
    "stopped",
]
MarkKind = Literal["policy", "traffic", "restart", "gap"]


@dataclass(frozen=True, slots=True)
class ClientState:
    """How the engine is, as far as this process can tell.

    since: seconds since the epoch at which the phase began. age_s: seconds since the newest message of the engine,
    None before the first. message: a sentence for the page, "" when there is nothing to say. progress: 0..1 while
    loading, else None. restarts: how often a worker was replaced because it died. detail: lines of the worker's
    standard error where they explain a failure.
    """

    phase: ClientPhase
    since: float
    age_s: float | None
    message: str
    progress: float | None
    restarts: int
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that belongs on every chart as a rule: a change of policy or traffic, a restart, a gap.

    step_id: the first step it concerns, of run ``run_id``. version: policy version then.
    """

    kind: MarkKind
    run_id: str
    step_id: int
    wall_time: float
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class SubmitOutcome:
    """Answer to ``submit``. Accepted means: it is in the journal and will be answered exactly once.

    refusal: why not, for programs: "invalid" (it can never be taken), "full" (too many are unfinished, try later) or
    "unavailable" (no engine, and none to come by itself); "" when accepted.
    """

    accepted: bool
    request_id: str = ""
    reasons: tuple[str, ...] = ()
    refusal: Literal["", "invalid", "full", "unavailable"] = ""


@dataclass(frozen=True, slots=True)
class PolicyReply:
    """Answer to ``set_policy``: the version in force, and the first step it governs (0 = from the next start)."""

    accepted: bool
    version: int
    step_id: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepReply:
    """Answer to ``step``."""

    accepted: bool
    step_id: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request as its user sees it.

    origin: "user", "traffic", "api" or "lesson". prompt_text: "" for a prompt given as token ids. tokens: ids of its
    output.
    seed: of its sampling, drawn where the user gave none.
    state: "queued" (not yet with a worker), "waiting", "preempted", "running" or, once ended, the outcome.
    outcome: "" until it ended, then "finished", "aborted" or "rejected"; reason: "length", "stop" or a sentence.
    submitted_at: seconds since the epoch. num_restarts: workers it outlived. record: its life in numbers, once ended.
    """

    request_id: str
    origin: str
    prompt_text: str
    num_prompt_tokens: int
    text: str
    tokens: tuple[int, ...]
    max_tokens: int | None
    seed: int | None
    priority: int
    state: str
    outcome: str
    reason: str
    submitted_at: float
    num_restarts: int
    record: RequestRecord | None = None
