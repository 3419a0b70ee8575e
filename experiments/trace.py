"""A workload in seconds: who arrives when, with how long a prompt and how long an output."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

MAX_REQUESTS: Final = 2_000_000
"""Requests one trace may hold; files and generators refuse more."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    arrival_s: seconds after the start of the trace, >= 0. prompt_len, output_len: tokens, each >= 1; every run makes
    exactly output_len tokens (the model's end token is ignored), so that all arms do the same work. priority: lower
    runs first. prompt: token ids, ``len(prompt) == prompt_len``, or () = random tokens of the run's seed.
    """

    request_id: str
    arrival_s: float
    prompt_len: int
    output_len: int
    priority: int = 0
    prompt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceOrigin:
    """Where a trace comes from and what was done to it; printed wherever a result of it is.

    source: format ("azure-2023", "burstgpt", ..., "generated"). description: one line. file_sha256: of the file as
    read, "" for a generator. parameters: everything that shaped it, as (name, value) in order: the generator's fields
    and seed, or the factors of scaling. truncated, dropped: requests whose lengths were cut, and that were left out.
    """

    source: str
    description: str
    file_sha256: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    truncated: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival (equal times in the order of the source)."""

    name: str
    requests: tuple[TraceRequest, ...]
    origin: TraceOrigin

    @property
    def sha256(self) -> str:
        """Hash of what runs see: the requests, not their origin; equal for traces that ask for the same."""
        return hashlib.sha256(msgspec.json.encode(self.requests)).hexdigest()
