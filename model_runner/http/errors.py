"""Refusals in the form of OpenAI's API: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}
"""Status -> ``type`` of the error; all others are "invalid_request_error"."""


class ApiError(Exception):
    """A request that is refused or cannot be finished.

    param: the field that is wrong. code: a short key for programs. Both None where there is none.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON says it."""
        kind = _KINDS.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def response(self) -> Response:
        """The error as a response of its own."""
        return json_response(self.body, self.status, self.headers)


class ClientGoneError(Exception):
    """Whoever asked has hung up; nobody reads an answer."""


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response that no browser takes for a page."""
    safe = {"x-content-type-options": "nosniff", "cache-control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(body), status, safe, "application/json")
