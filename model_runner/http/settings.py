"""Limits and key of the HTTP API, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model_runner.errors import RunnerConfigError

KEY_VARIABLE = "BATCHSCOPE_API_KEY"
QUEUE_VARIABLE = "BATCHSCOPE_API_MAX_QUEUED"
MAX_QUEUED_LIMIT = 900
"""Below what the client takes at all (``journal.MAX_UNFINISHED``), so that the page still can send a request."""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """api_key: what ``Authorization: Bearer`` must bring for /v1/*, "" = no key is asked for. other_key: one more that
    serves as well; the page sets its presenter's token, so that its audience cannot act here.

    max_queued: waiting requests, the page's included, from which on the API answers 429. max_body_bytes: of one
    request. max_open: answers under way at a time. body_timeout_s: until a body must have come in.
    send_timeout_s: how long a client may leave a piece of its answer unread before it is given up.
    """

    api_key: str = field(default="", repr=False)
    other_key: str = field(default="", repr=False)
    max_queued: int = 256
    max_body_bytes: int = 4 * 2**20
    max_open: int = 1024
    body_timeout_s: float = 30.0
    send_timeout_s: float = 120.0


def from_environment(environment: Mapping[str, str]) -> ApiSettings:
    """Settings from BATCHSCOPE_API_KEY and BATCHSCOPE_API_MAX_QUEUED; raises RunnerConfigError."""
    text = environment.get(QUEUE_VARIABLE, "").strip()
    if not text:
        return ApiSettings(api_key=environment.get(KEY_VARIABLE, ""))
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_QUEUED_LIMIT):
        raise RunnerConfigError(
            f"{QUEUE_VARIABLE}={text[:60]!r}: a whole number from 1 to {MAX_QUEUED_LIMIT} is needed"
        )
    return ApiSettings(api_key=environment.get(KEY_VARIABLE, ""), max_queued=int(text))
