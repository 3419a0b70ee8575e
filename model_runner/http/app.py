"""The routes of the HTTP API and what each request must pass before it is answered."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from model_runner.client import RunnerClient
from model_runner.http import schemas
from model_runner.http.answers import Answer, ChatForm, CompletionForm, Form
from model_runner.http.errors import ApiError, json_response
from model_runner.http.metrics import LIVE_PHASES, Metrics
from model_runner.http.schemas import Wanted
from model_runner.http.settings import ApiSettings

HEALTHY_PHASES = ("running", "computing", "idle", "paused")
METHODS = {
    "/health": "GET", "/metrics": "GET", "/v1/models": "GET", "/v1/completions": "POST", "/v1/chat/completions": "POST",
}  # fmt: skip
CHANGING_METHODS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
RECENT_STEPS = 200
MAX_RETRY_S = 60

_log = logging.getLogger(__name__)

Endpoint = Callable[[Request, RunnerClient], Awaitable[ASGIApp]]


class HttpApi:
    """The API of one client. Its routes can be made before there is a client: until then they answer 503."""

    def __init__(self) -> None:
        self._client: RunnerClient | None = None
        self._settings = ApiSettings()
        self._metrics = Metrics()
        self._open: set[Answer] = set()
        self._started = int(time.time())

    def attach(self, client: RunnerClient, settings: ApiSettings) -> None:
        """Answer for this client from now on."""
        self._settings = settings
        self._metrics.attach(client)
        self._client = client

    @property
    def num_open(self) -> int:
        """Answers under way."""
        return len(self._open)

    def stop(self) -> None:
        """End the answers under way with an error: the server is shutting down. Called in its loop."""
        for answer in tuple(self._open):
            answer.stop()

    @property
    def routes(self) -> list[Route]:
        """To be put before all other routes."""
        return [
            Route("/health", self._endpoint(self._health, asks_key=False)),
            Route("/metrics", self._endpoint(self._metrics_page, asks_key=False)),
            Route("/v1/models", self._endpoint(self._models)),
            Route("/v1/models/{model:path}", self._endpoint(self._model)),
            Route("/v1/completions", self._endpoint(self._completions), methods=["POST"]),
            Route("/v1/chat/completions", self._endpoint(self._chat), methods=["POST"]),
            Route("/v1/{rest:path}", self._endpoint(_unknown), methods=["GET", *CHANGING_METHODS]),
            Route("/health", self._endpoint(_unknown, asks_key=False), methods=CHANGING_METHODS),
            Route("/metrics", self._endpoint(_unknown, asks_key=False), methods=CHANGING_METHODS),
        ]

    def _endpoint(self, answer: Endpoint, *, asks_key: bool = True) -> ASGIApp:
        """Turns every error into OpenAI's form; nothing of an unforeseen one is shown.

        Whether a key is asked for belongs to the route: ``request.url`` holds the client's Host header, and can lie.
        """

        async def endpoint(request: Request) -> Any:
            try:
                if asks_key:
                    self._check_key(request)
                if self._client is None:
                    raise ApiError(503, "the runner is being started", headers={"retry-after": "1"})
                return await answer(request, self._client)
            except ApiError as error:
                return error.response
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception:
                _log.exception("%s %s failed", request.method, request.scope["path"])
                return ApiError(500, "an error of the server; its log says more").response

        return endpoint  # type: ignore[return-value]  # Starlette takes a function of a request as well

    def _check_key(self, request: Request) -> None:
        keys = [key for key in (self._settings.api_key, self._settings.other_key) if key]
        if not keys:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        brought = given.strip().encode("latin-1", "replace")
        same = any(hmac.compare_digest(brought, key.encode()) for key in keys)
        if scheme.lower() != "bearer" or not same:
            raise ApiError(
                401, "a valid API key is needed: Authorization: Bearer KEY", code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )  # fmt: skip

    async def _health(self, request: Request, client: RunnerClient) -> ASGIApp:
        """200 while requests are being answered, or would be; the phase is that of the page."""
        state = client.state
        is_well = state.phase in HEALTHY_PHASES
        body = {"status": "ok" if is_well else "unavailable", "phase": state.phase, "message": state.message}
        return json_response(body, 200 if is_well else 503)

    async def _metrics_page(self, request: Request, client: RunnerClient) -> ASGIApp:
        return Response(self._metrics.page(client), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _models(self, request: Request, client: RunnerClient) -> ASGIApp:
        return json_response({"object": "list", "data": [self._model_card(client)]})

    async def _model(self, request: Request, client: RunnerClient) -> ASGIApp:
        self._check_model(request.path_params["model"], client)
        return json_response(self._model_card(client))

    def _model_card(self, client: RunnerClient) -> dict[str, Any]:
        name = served_model(client)
        latest = client.latest
        return {
            "id": name, "object": "model", "created": self._started, "owned_by": "batchscope", "root": name,
            "parent": None, "max_model_len": latest.info.max_model_len if latest else client.config.max_model_len,
        }  # fmt: skip

    async def _completions(self, request: Request, client: RunnerClient) -> ASGIApp:
        return await self._generate(request, client, schemas.completion, CompletionForm)

    async def _chat(self, request: Request, client: RunnerClient) -> ASGIApp:
        return await self._generate(request, client, schemas.chat, ChatForm)

    async def _generate(
        self, request: Request, client: RunnerClient, read: Callable[[bytes], Wanted], form: type[Form]
    ) -> ASGIApp:
        self._check_sender(request)
        wanted = read(await self._body(request))
        self._check_model(wanted.model, client)
        self._check_room(client, len(wanted.each))
        return self._counted(Answer(client, wanted, form(served_model(client)), self._settings.send_timeout_s))

    def _counted(self, answer: Answer) -> ASGIApp:
        async def response(scope: Scope, receive: Receive, send: Send) -> None:
            self._open.add(answer)
            try:
                await answer(scope, receive, send)
            finally:
                self._open.discard(answer)

        return response

    @staticmethod
    def _check_sender(request: Request) -> None:
        """A page of another site must not use a visitor's browser to send work here: browsers say where they come
        from, and cannot send JSON elsewhere without asking, which nobody here answers.
        """
        origin = request.headers.get("origin")
        if origin is not None and not _is_local(origin):
            raise ApiError(403, "pages of other sites are not served", code="origin_not_allowed")
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise ApiError(415, "Content-Type: application/json is needed")

    async def _body(self, request: Request) -> bytes:
        limit = self._settings.max_body_bytes
        told = request.headers.get("content-length", "0")
        chunks: list[bytes] = []
        size = int(told) if told.isascii() and told.isdigit() and len(told) < 20 else 0
        try:
            if size <= limit:
                size = 0
                async with asyncio.timeout(self._settings.body_timeout_s):
                    async for chunk in request.stream():
                        chunks.append(chunk)
                        size += len(chunk)
                        if size > limit:
                            break
        except TimeoutError:
            raise ApiError(408, f"the body has not come within {self._settings.body_timeout_s:g} s") from None
        if size > limit:
            raise ApiError(413, f"the body is larger than {limit} bytes", headers={"connection": "close"})
        return b"".join(chunks)

    @staticmethod
    def _check_model(name: str, client: RunnerClient) -> None:
        served = served_model(client)
        if name and name != served:
            raise ApiError(
                404, f"the model {name[:200]!r} is not served, {served!r} is", param="model", code="model_not_found"
            )

    def _check_room(self, client: RunnerClient, num_prompts: int) -> None:
        if num_prompts > self._settings.max_queued:
            raise ApiError(
                400, f"prompt: {num_prompts} prompts, at most {self._settings.max_queued} may wait", param="prompt"
            )
        latest = client.latest
        is_live = latest is not None and client.state.phase in LIVE_PHASES
        waiting = client.num_unfinished - (len(latest.step.running) if latest is not None and is_live else 0)
        if waiting + num_prompts > self._settings.max_queued or self.num_open >= self._settings.max_open:
            self._metrics.refused()
            raise ApiError(
                429, f"the queue is full: {waiting} requests wait, {self._settings.max_queued} may", code="queue_full",
                headers={"retry-after": str(seconds_to_a_place(client))},
            )  # fmt: skip


def served_model(client: RunnerClient) -> str:
    """The name of the model that runs; before the first snapshot, of the one that is being loaded."""
    latest = client.latest
    return latest.info.model if latest is not None else client.config.model


def seconds_to_a_place(client: RunnerClient) -> int:
    """After how many seconds, 1 to 60, a request is likely to have ended, by the pace of the newest steps."""
    steps = client.history(RECENT_STEPS)
    num_ended = sum(len(snapshot.step.records) for snapshot in steps)
    if not num_ended:
        return MAX_RETRY_S if steps else 1
    span_s = steps[-1].monotonic_time - steps[0].monotonic_time
    return min(MAX_RETRY_S, max(1, math.ceil(span_s / num_ended)))


def _is_local(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in LOCAL_HOSTS
    except ValueError:
        return False


async def _unknown(request: Request, client: RunnerClient) -> ASGIApp:
    """Instead of the page, which would answer any other path."""
    path = request.scope["path"][:200]
    allowed = METHODS.get(path.rstrip("/"))
    if allowed is not None:
        headers = {"allow": allowed}
        raise ApiError(405, f"{path} answers {allowed}, not {request.method}", headers=headers)
    raise ApiError(404, f"there is no {request.method} {path}", code="unknown_url")
