"""A generation as an HTTP response: one JSON object, or server-sent events."""

from __future__ import annotations

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from model_runner.client import RunnerClient
from model_runner.http.errors import ApiError, ClientGoneError, json_response
from model_runner.http.generation import Generation, Piece
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

    def whole(self, text: str, last: Piece, usage: Mapping[str, int]) -> dict[str, Any]:
        """The answer in one object."""
        return self._object(self.whole_kind, [self._choice(self._whole_text(text), last)]) | {"usage": usage}

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """A part of the answer."""
        return self._object(self.chunk_kind, [self._choice(self._part_text(piece.text), piece)])

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
    def _choice(text: Mapping[str, Any], piece: Piece) -> dict[str, Any]:
        ending = {"finish_reason": piece.finish_reason, "stop_reason": piece.stop_reason}
        return {"index": 0, **text, "logprobs": None, **ending}


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
            self._object(self.chunk_kind, [self._choice({"delta": {"role": "assistant", "content": ""}}, _NOTHING)])
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
        self._generation: Generation | None = None

    def stop(self) -> None:
        """End the answer where it is, with an error: the server is shutting down."""
        if self._generation is not None:
            self._generation.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Generate and answer. The request ends in the engine when the client hangs up."""
        try:
            async with Generation(self._client, self._wanted, receive) as generation:
                self._generation = generation
                self._form.name(generation.request_id)
                await generation.accepted()
                if self._wanted.stream:
                    await self._stream(generation, send)
                else:
                    body = await self._whole(generation)
                    await json_response(body, headers={"x-request-id": self._form.id})(scope, receive, send)
        except (ClientGoneError, TimeoutError):
            return
        except ApiError as error:
            await error.response(scope, receive, send)

    async def _whole(self, generation: Generation) -> dict[str, Any]:
        texts: list[str] = []
        last = _NOTHING
        async for last in generation.pieces():
            if last.begun_again:
                texts.clear()
            texts.append(last.text)
        return self._form.whole("".join(texts), last, _usage(generation, last.num_tokens))

    async def _stream(self, generation: Generation, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers()})
        try:
            await self._send_pieces(generation, send)
        except ApiError as error:
            await self._send(send, error.body)
        await self._write(send, DONE, more=False)

    async def _send_pieces(self, generation: Generation, send: Send) -> None:
        """What a stream begins with goes out with the first piece: clients take its time for that of a first token."""
        last, opening = _NOTHING, self._form.first_chunks()
        async for piece in generation.pieces():
            if piece.begun_again:
                if last.num_tokens:
                    raise ApiError(503, "another model was started, this answer cannot go on", code="model_changed")
                continue
            last = piece
            while opening:
                await self._send(send, self._with_usage(opening.pop(0), generation, 0))
            await self._send(send, self._with_usage(self._form.chunk(piece), generation, piece.num_tokens))
        if self._wanted.include_usage:
            await self._send(send, self._form.usage_chunk(_usage(generation, last.num_tokens)))

    def _with_usage(self, chunk: dict[str, Any], generation: Generation, num_tokens: int) -> dict[str, Any]:
        if self._wanted.continuous_usage:
            return chunk | {"usage": _usage(generation, num_tokens)}
        return chunk | {"usage": None} if self._wanted.include_usage else chunk

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


def _usage(generation: Generation, num_tokens: int) -> dict[str, int]:
    prompt = generation.num_prompt_tokens
    return {"prompt_tokens": prompt, "completion_tokens": num_tokens, "total_tokens": prompt + num_tokens}
