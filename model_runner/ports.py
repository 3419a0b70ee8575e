"""What the engine loop asks of its surroundings: device, scheduler, wire and text. Tests put their own in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from model_runner.messages import EngineSnapshot, Reply
from model_runner.transport import Incoming
from scheduler import (
    AbortOutcome,
    AddOutcome,
    PolicyOutcome,
    PreemptOutcome,
    Request,
    SchedulerPolicy,
    ScheduleStep,
    StepResult,
    StepSnapshot,
)


class Detokenizer(Protocol):
    """Incremental decoding of one request; both give whole characters only."""

    def add(self, token_ids: Iterable[int], /) -> str:
        """The text that became certain with these tokens, "" when none did."""

    def flush(self) -> str:
        """The end: what was held back."""


class EngineTokenizer(Protocol):
    """What the engine needs to know about text. Token ids are 0 .. vocab_size - 1. Encoding is thread-safe.

    max_chars_per_token: no token stands for more characters of a text; 0 = no bound is known.
    """

    eos_token_ids: tuple[int, ...]
    vocab_size: int
    max_chars_per_token: int

    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        """Token ids of a text; chat: as the user's turn in the model's chat template, ready for the answer."""

    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a conversation of (role, content), in the model's chat template, ready for the answer."""

    def detokenizer(self) -> Detokenizer:
        """A new incremental decoder."""


class CommandTarget(Protocol):
    """The part of the scheduler that commands act on."""

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force."""

    def add(self, request: Request) -> AddOutcome:
        """Queue a request."""

    def abort(self, request_id: str) -> AbortOutcome:
        """End a request."""

    def preempt(self, request_id: str) -> PreemptOutcome:
        """Evict a running request in the next step."""

    def set_policy(self, policy: SchedulerPolicy) -> PolicyOutcome:
        """Put a policy in force."""


class Runner(Protocol):
    """The device side."""

    def execute(self, step: ScheduleStep) -> StepResult:
        """Compute one step."""


class EngineScheduler(CommandTarget, Protocol):
    """The scheduler as the loop drives it."""

    @property
    def has_work(self) -> bool:
        """True when ``schedule`` might plan something."""

    def schedule(self) -> ScheduleStep:
        """Plan a step."""

    def update(self, result: StepResult) -> StepSnapshot:
        """Take a step's result."""

    def peek(self) -> StepSnapshot:
        """The state between steps."""


class Transport(Protocol):
    """The way to the readers."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until a command is there."""

    def receive(self) -> list[Incoming]:
        """Commands that are there."""

    def reply(self, sender: bytes, reply: Reply, snapshots: tuple[bytes, ...] = ()) -> None:
        """Answer a command."""

    def publish(self, snapshot: EngineSnapshot) -> None:
        """Send a snapshot."""

    def missed(self, after_seq: int) -> tuple[bytes, ...]:
        """Encoded snapshots after a sequence number, as far as kept."""
