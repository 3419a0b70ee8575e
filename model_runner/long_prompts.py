"""Tokenizes long prompts beside the engine's thread, so that a step of everybody never waits for the text of one.

It stands between the wire and the engine. A request whose text is long comes in when its tokens are there, as a request
with token ids; one that cannot fit is refused by its length alone. All others pass, in their order.
"""

from __future__ import annotations

import math
import queue
import threading
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from model_runner.errors import RunnerError
from model_runner.messages import Abort, EngineSnapshot, Reply, Submit
from model_runner.ports import EngineTokenizer, Transport
from model_runner.transport import Incoming

INLINE_CHARS = 2_000
"""Tokenized by the engine's thread itself, in about a millisecond; so short prompts keep their order."""


class WakingTransport(Transport, Protocol):
    """A way to the readers whose ``wait`` another thread can end."""

    def wake(self) -> None:
        """End the present wait, or the next."""


@dataclass(slots=True)
class _Job:
    """A request on its way through the thread, and what came of it: tokens, or the sentence that refuses it."""

    incoming: Incoming
    command: Submit
    token_ids: tuple[int, ...] = ()
    problem: str = ""


class LongPrompts:
    """A ``Transport`` around another. Everything but the tokenizing is done by the engine's thread.

    max_model_len: tokens of prompt and output together, at most.
    """

    def __init__(
        self,
        transport: WakingTransport,
        tokenizer: EngineTokenizer,
        max_model_len: int,
        *,
        inline_chars: int = INLINE_CHARS,
    ) -> None:
        self._transport = transport
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._inline_chars = inline_chars
        self._waiting: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._aborts: dict[str, list[Incoming]] = {}
        self._thread: threading.Thread | None = None
        self._step_id, self._version = 0, 0

    def receive(self) -> list[Incoming]:
        """What the engine may see now. An abort of a request that is still being tokenized comes after it."""
        incoming: list[Incoming] = []
        for item in self._transport.receive():
            command = item.command
            if isinstance(command, Submit) and _num_chars(command) > self._inline_chars:
                self._begin(item, command)
            elif isinstance(command, Abort) and self._aborts:
                incoming += self._passed_on(item, command)
            else:
                incoming.append(item)
        while not self._done.empty():
            incoming += self._ended(self._done.get())
        return incoming

    def _begin(self, item: Incoming, command: Submit) -> None:
        problem = too_long(command, self._tokenizer.max_chars_per_token, self._max_model_len)
        if problem:
            self._refuse(item, problem)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._tokenize, name="tokenizer", daemon=True)
            self._thread.start()
        self._aborts[command.request_id] = []
        self._waiting.put(_Job(item, command))

    def _passed_on(self, item: Incoming, command: Abort) -> list[Incoming]:
        if command.request_id in self._aborts:
            self._aborts[command.request_id].append(item)
            return []
        if command.request_id is None:  # the others end now, these as soon as they are there
            for request_id, aborts in self._aborts.items():
                aborts.append(replace(item, command=Abort(0, request_id)))
        return [item]

    def _ended(self, job: _Job) -> list[Incoming]:
        aborts = self._aborts.pop(job.command.request_id, [])
        if job.problem:
            self._refuse(job.incoming, job.problem)
            return aborts
        command = msgspec.structs.replace(
            job.command, prompt_text=None, turns=(), chat=False, prompt_token_ids=job.token_ids
        )
        return [replace(job.incoming, command=command), *aborts]

    def _refuse(self, item: Incoming, reason: str) -> None:
        command_id = item.command.command_id if item.command is not None else 0
        self._transport.reply(item.sender, Reply(command_id, False, self._step_id + 1, (reason,), self._version))

    def _tokenize(self) -> None:
        while True:
            job = self._waiting.get()
            try:
                job.token_ids = encoded(job.command, self._tokenizer)
            except Exception as error:  # whatever it is, one request must not end the thread for all that follow
                job.problem = not_encodable(job.command, error)
            self._done.put(job)
            self._transport.wake()

    def wait(self, timeout_s: float) -> bool:
        """As the transport's; a prompt that is ready ends it."""
        return self._transport.wait(timeout_s)

    def reply(self, sender: bytes, reply: Reply, snapshots: tuple[bytes, ...] = ()) -> None:
        """As the transport's."""
        self._transport.reply(sender, reply, snapshots)

    def publish(self, snapshot: EngineSnapshot) -> None:
        """As the transport's."""
        self._step_id, self._version = snapshot.step.step_id, snapshot.step.policy.version
        self._transport.publish(snapshot)

    def missed(self, after_seq: int) -> tuple[bytes, ...]:
        """As the transport's."""
        return self._transport.missed(after_seq)


def encoded(command: Submit, tokenizer: EngineTokenizer) -> tuple[int, ...]:
    """The tokens of a request that brings text. Raises what the tokenizer raises."""
    if command.turns:
        return tokenizer.encode_chat([(turn.role, turn.content) for turn in command.turns])
    return tuple(tokenizer.encode(command.prompt_text or "", chat=command.chat))


def not_encodable(command: Submit, error: Exception) -> str:
    """The sentence that refuses a request whose text the tokenizer does not take."""
    reason = str(error) if isinstance(error, RunnerError | ValueError) else f"{type(error).__name__}: {error}"
    return f"{_field(command)}: not encodable ({reason})"


def too_long(command: Submit, max_chars_per_token: int, max_model_len: int) -> str:
    """Why a text cannot fit, by its length alone; "" when it might. max_chars_per_token: 0 = no bound is known.

    Of a conversation only what the user says is counted: a template may cut the rest, but of this no more than the
    spaces around it.
    """
    said = [turn.content.strip() for turn in command.turns if turn.role == "user"]
    num_chars = len(command.prompt_text or "") + sum(map(len, said))
    least = math.ceil(num_chars / max_chars_per_token) if max_chars_per_token else 0
    if least < max_model_len:
        return ""
    return (
        f"{_field(command)}: {num_chars} characters are {least} tokens at least, at most {max_model_len - 1} "
        f"leave room for one output token (max_model_len {max_model_len})"
    )


def _num_chars(command: Submit) -> int:
    return len(command.prompt_text or "") + sum(len(turn.content) for turn in command.turns)


def _field(command: Submit) -> str:
    return "turns" if command.turns else "prompt_text"
