"""One generation on behalf of an HTTP client: submitted, followed as it grows, ended when nobody wants the rest."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType

from starlette.types import Receive

from model_runner.client import RunnerClient
from model_runner.http.errors import ApiError, ClientGoneError
from model_runner.http.schemas import Wanted
from model_runner.http.stop_strings import StopStrings
from model_runner.watch import News, Watch

CHECK_S = 2.0
"""How often a client that waits without any news is told whether the engine still can bring some."""
_PROMPT_FIELDS = ("prompt_text", "prompt_token_ids", "turns")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the answer. num_tokens: output tokens so far.

    finish_reason: None until the last piece, then "stop", "length" or "abort"; stop_reason: the stop string that ended
    it. begun_again: what came before is void, another model runs.
    """

    text: str
    num_tokens: int
    finish_reason: str | None = None
    stop_reason: str | None = None
    begun_again: bool = False


class Generation:
    """Async context manager; leaving it early, in whatever way, ends the request in the engine.

    receive: the connection's, its body already read; only the client's hanging up is still to come.
    """

    def __init__(self, client: RunnerClient, wanted: Wanted, receive: Receive) -> None:
        self._client = client
        self._wanted = wanted
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._pending: deque[News] = deque()
        self._is_gone = False
        self._is_stopped = False
        self._is_complete = False
        self._listener: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self.request_id = ""
        self.num_prompt_tokens = 0

    async def __aenter__(self) -> Generation:
        """Submit. Raises ApiError when it is refused at once."""
        wanted = self._wanted
        outcome = self._client.submit(
            wanted.prompt, wanted.sampling, priority=wanted.priority, chat=False, origin="api"
        )
        if not outcome.accepted:
            status = {"full": 429, "unavailable": 503}.get(outcome.refusal, 400)
            raise ApiError(status, "; ".join(outcome.reasons), headers={"retry-after": "1"} if status == 429 else None)
        self.request_id = outcome.request_id
        self._watch = self._client.watch(outcome.request_id, self._wake)
        if self._watch is None:
            raise ApiError(503, "the request ended before it could be followed")
        self._listener = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            self._listener.cancel()
        if self._watch is not None:
            self._client.unwatch(self._watch)
        self._client.abandon(self.request_id, is_complete=self._is_complete)

    def stop(self) -> None:
        """Whoever reads gets an ApiError instead of the rest: the server is shutting down. Called in its loop."""
        self._is_stopped = True
        self._woken.set()

    async def accepted(self) -> None:
        """Wait until the engine has taken the request in, so that its prompt's tokens are counted.

        Raises ApiError when the engine refuses it or has failed, ClientGoneError when the client has hung up.
        """
        await self._news()
        first = self._pending[0]
        if first.outcome == "rejected":
            raise _rejected(first.reason, self._wanted)
        self.num_prompt_tokens = first.num_prompt_tokens

    async def pieces(self) -> AsyncIterator[Piece]:
        """The answer as it grows; the last piece has a finish_reason. Raises as ``accepted``.

        What has come in since the last piece was taken makes one piece, so that a slow reader catches up. A token that
        adds no text makes one too, as in vLLM: who measures the time between tokens counts pieces.
        """
        stops, num_shown = self._stops(), 0
        while True:
            await self._news()
            text, num_tokens = "", 0
            while self._pending:
                news = self._pending.popleft()
                if news.begun_again:
                    stops, text, num_shown = self._stops(), "", 0
                    yield Piece("", 0, begun_again=True)
                    continue
                if news.outcome == "rejected":
                    raise _rejected(news.reason, self._wanted)
                self.num_prompt_tokens = news.num_prompt_tokens or self.num_prompt_tokens
                text, num_tokens = text + self._searched(news, stops), news.num_tokens
                if stops.found is not None:
                    self._is_complete = True
                    yield Piece(text, num_tokens, "stop", stops.found)
                    return
                if news.outcome:
                    reason = news.reason if news.outcome == "finished" else "abort"
                    yield Piece(text + stops.flush(), num_tokens, reason)
                    return
            if text or num_tokens > num_shown:
                num_shown = num_tokens
                yield Piece(text, num_tokens)

    def _searched(self, news: News, stops: StopStrings) -> str:
        """The text that may be shown; what comes with the first ``min_tokens`` tokens is not searched."""
        is_searched = news.num_tokens > self._wanted.sampling.min_tokens
        return stops.add(news.text) if is_searched else stops.pass_on(news.text)

    def _stops(self) -> StopStrings:
        return StopStrings(self._wanted.stop, include=self._wanted.include_stop)

    async def _news(self) -> None:
        """Wait until ``_pending`` holds something."""
        while not self._pending:
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._woken.wait()
            except TimeoutError:
                self._check_engine()
                continue
            self._woken.clear()
            if self._is_gone:
                raise ClientGoneError
            if self._is_stopped:
                raise ApiError(503, "the server is shutting down", code="shutting_down")
            self._pending.extend(self._watch.take() if self._watch is not None else ())

    def _check_engine(self) -> None:
        state = self._client.state
        if state.phase in ("failed", "stopped"):
            raise ApiError(503, f"the engine has {state.phase}: {state.message}", code="engine_failed")

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        self._woken.set()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the server's loop has ended before the client's thread
            self._loop.call_soon_threadsafe(self._woken.set)


def _rejected(reason: str, wanted: Wanted) -> ApiError:
    """The engine's refusal begins with the name of the field; it calls a prompt by what it has become on the way."""
    code = "context_length_exceeded" if "max_model_len" in reason else None
    field = re.match(r"[a-z_]+", reason)
    if field is None:
        return ApiError(400, reason, code=code)
    name = wanted.prompt_field if field[0] in _PROMPT_FIELDS else field[0]
    return ApiError(400, name + reason[field.end() :], param=name, code=code)
