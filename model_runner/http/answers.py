"""A generation as an HTTP response: one JSON object, or server-sent events."""

from __future__ import annotations

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from model_runner.client import RunnerClient
from model_runner.http.errors import ApiError, ClientGoneError, json_response
from model_runner.http.generation import Generation, Piece
from model_runner.http.merging import merged
from model_runner.http.schemas import Wanted

DONE = b"data: [DONE]\n\n"


class Form(ABC):
    """How an endpoint words its answers. model: as the client is to read it."""

    prefix: str
    whole_kind: str
    chunk_kind: str

    def __init__(self, model: str) -> None:
        self._model = model
        self._created = int(time.time())
        self.id = ""

    def name(self, request_id: str) -> None:
        """Give it an id that nobody else has, and by which it is found on the page."""
        self.id = f"{self.prefix}-{request_id}-{secrets.token_hex(8)}"

    def whole(self, texts: Sequence[str], last: Sequence[Piece], usage: Mapping[str, int]) -> dict[str, Any]:
        """The answer in one object. texts, last: of each choice, what it says and how it ended."""
        choices = [self._choice(index, self._whole_text(texts[index]), piece) for index, piece in enumerate(last)]
        return self._object(self.whole_kind, choices) | {"usage": usage}

    def chunk(self, index: int, piece: Piece) -> dict[str, Any]:
        """A part of a choice."""
        return self._object(self.chunk_kind, [self._choice(index, self._part_text(piece.text), piece)])

    def usage_chunk(self, usage: Mapping[str, int]) -> dict[str, Any]:
        """The last object of a stream, when usage was asked for."""
        return self._object(self.chunk_kind, []) | {"usage": usage}

    def first_chunks(self) -> list[dict[str, Any]]:
        """What a stream begins with."""
        return []

    @abstractmethod
    def _whole_text(self, text: str) -> dict[str, Any]:
        """A whole text as a choice has it."""

    @abstractmethod
    def _part_text(self, text: str) -> dict[str, Any]:
        """A part of a text as a choice has it."""

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._model, "choices": choices}

    @staticmethod
    def _choice(index: int, text: Mapping[str, Any], piece: Piece) -> dict[str, Any]:
        ending = {"finish_reason": piece.finish_reason, "stop_reason": piece.stop_reason}
        return {"index": index, **text, "logprobs": None, **ending}


class CompletionForm(Form):
    """Of /v1/completions."""

    prefix, whole_kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def _whole_text(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def _part_text(self, text: str) -> dict[str, Any]:
        return {"text": text}


class ChatForm(Form):
    """Of /v1/chat/completions."""

    prefix, whole_kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def first_chunks(self) -> list[dict[str, Any]]:
        return [
            self._object(self.chunk_kind, [self._choice(0, {"delta": {"role": "assistant", "content": ""}}, _NOTHING)])
        ]

    def _whole_text(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def _part_text(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text} if text else {}}


_NOTHING = Piece("", 0)


class Answer:
    """The response to one request for a generation: an ASGI application for a single call.

    send_timeout_s: a client that leaves a piece unread for so long is given up.
    """

    def __init__(self, client: RunnerClient, wanted: Wanted, form: Form, send_timeout_s: float) -> None:
        self._client = client
        self._wanted = wanted
        self._form = form
        self._send_timeout_s = send_timeout_s
        self._generations: list[Generation] = []

    def stop(self) -> None:
        """End the answer where it is, with an error: the server is shutting down."""
        for generation in self._generations:
            generation.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Generate and answer. The requests end in the engine when the client hangs up."""
        try:
            async with AsyncExitStack() as stack:
                for wanted in self._wanted.each:
                    generation = Generation(self._client, wanted, receive)
                    self._generations.append(await stack.enter_async_context(generation))
                self._form.name(self._generations[0].request_id)
                for generation in self._generations:
                    await generation.accepted()
                if self._wanted.stream:
                    await self._stream(send)
                else:
                    body = await self._whole()
                    await json_response(body, headers={"x-request-id": self._form.id})(scope, receive, send)
        except (ClientGoneError, TimeoutError):
            return
        except ApiError as error:
            await error.response(scope, receive, send)

    def _pieces(self) -> AsyncIterator[tuple[int, Piece]]:
        return merged([generation.pieces() for generation in self._generations])

    async def _whole(self) -> dict[str, Any]:
        texts: list[list[str]] = [[] for _ in self._generations]
        last = [_NOTHING] * len(texts)
        async for index, piece in self._pieces():
            if piece.begun_again:
                texts[index].clear()
            texts[index].append(piece.text)
            last[index] = piece
        return self._form.whole(["".join(parts) for parts in texts], last, self._usage(last))

    async def _stream(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers()})
        try:
            await self._send_pieces(send)
        except ApiError as error:
            await self._send(send, error.body)
        await self._write(send, DONE, more=False)

    async def _send_pieces(self, send: Send) -> None:
        """What a stream begins with goes out with the first piece: clients take its time for that of a first token."""
        last, opening = [_NOTHING] * len(self._generations), self._form.first_chunks()
        async for index, piece in self._pieces():
            if piece.begun_again:
                if last[index].num_tokens:
                    raise ApiError(503, "another model was started, this answer cannot go on", code="model_changed")
                continue
            last[index] = piece
            while opening:
                await self._send(send, self._with_usage(opening.pop(0), [_NOTHING]))
            await self._send(send, self._with_usage(self._form.chunk(index, piece), last))
        if self._wanted.include_usage:
            await self._send(send, self._form.usage_chunk(self._usage(last)))

    def _with_usage(self, chunk: dict[str, Any], last: Sequence[Piece]) -> dict[str, Any]:
        if self._wanted.continuous_usage:
            return chunk | {"usage": self._usage(last)}
        return chunk | {"usage": None} if self._wanted.include_usage else chunk

    def _usage(self, last: Sequence[Piece]) -> dict[str, int]:
        """Of all choices together."""
        prompt = sum(generation.num_prompt_tokens for generation in self._generations)
        output = sum(piece.num_tokens for piece in last)
        return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}

    async def _send(self, send: Send, body: object) -> None:
        await self._write(send, b"data: " + msgspec.json.encode(body) + b"\n\n", more=True)

    async def _write(self, send: Send, body: bytes, *, more: bool) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await send({"type": "http.response.body", "body": body, "more_body": more})

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-content-type-options", b"nosniff"),
            (b"x-request-id", self._form.id.encode()),
        ]
