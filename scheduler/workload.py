"""Workload files: reading, checking, and errors that say where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MAX_FILE_BYTES: Final = 256 * 2**20
MAX_TOKENS: Final = 10_000_000
MAX_STEP: Final = 100_000_000

POOL_FIELDS: Final = ("num_blocks", "block_size", "max_model_len")
"""Fields of a file's config that size the engine; all others are policy fields, or vLLM's names for them."""


class WorkloadError(ValueError):
    """A workload file that cannot be used; the message names file, place, value and what would be right."""


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """One request of a workload: lengths in tokens, arrival before the step of that index (from 0).

    prompt: the token ids where the file gives them, else (). Only the prefix cache looks at them: without them all
    prompts are of one and the same token, hence prefixes of each other.
    """

    request_id: str
    arrival_step: int
    prompt_len: int
    output_len: int
    priority: int = 0
    prompt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order of the file, which is the order of arrival within a step; config as written there."""

    config: Mapping[str, Any]
    requests: tuple[WorkloadRequest, ...]


def read_workload(path: Path) -> Workload:
    """Read and check ``{"config": {...}, "requests": [{"id", "arrival_step", "prompt_len", "output_len", ...}]}``.

    Raises WorkloadError, whose message names the line (for broken JSON) or the field, and what was expected there.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise WorkloadError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error
    return parse_workload(text, str(path))


def parse_workload(text: str, source: str = "workload") -> Workload:
    """As ``read_workload``, from text; ``source`` opens each message."""
    try:
        data = json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise WorkloadError(f"{source}: line {error.lineno} column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{source}: {error}") from error
    if not isinstance(data, dict):
        raise WorkloadError(f"{source}: the file holds {_short(data)}, expected an object with config and requests")
    config = data.get("config", {})
    if not isinstance(config, dict):
        raise WorkloadError(f"{source}: config is {_short(config)}, expected an object")
    rows = data.get("requests")
    if not isinstance(rows, list):
        raise WorkloadError(f"{source}: requests is {_short(rows)}, expected a list")
    requests = tuple(_request(row, index, source) for index, row in enumerate(rows))
    seen: dict[str, int] = {}
    for index, request in enumerate(requests):
        first = seen.setdefault(request.request_id, index)
        if first != index:
            raise WorkloadError(
                f"{source}: requests[{index}].id is {_short(request.request_id)}, already used by requests[{first}]"
            )
    return Workload(config, requests)


def _request(row: Any, index: int, source: str) -> WorkloadRequest:
    where = f"{source}: requests[{index}]"
    if not isinstance(row, dict):
        raise WorkloadError(f"{where} is {_short(row)}, expected an object")
    unknown = sorted(set(row) - {"id", "arrival_step", "prompt", "prompt_len", "output_len", "priority"})
    if unknown:
        raise WorkloadError(f"{where}.{unknown[0][:80]} is not a field of a request")
    if "prompt" in row:
        if not isinstance(row["prompt"], list) or not all(map(_is_token, row["prompt"])):
            raise WorkloadError(f"{where}.prompt is {_short(row['prompt'])}, expected a list of token ids")
        length = len(row["prompt"])
        if row.setdefault("prompt_len", length) != length:
            raise WorkloadError(f"{where}.prompt_len is {_short(row['prompt_len'])}, but prompt has {length} tokens")
    request_id = row.get("id")
    if not isinstance(request_id, str) or not 0 < len(request_id) <= 256:
        raise WorkloadError(f"{where}.id is {_short(request_id)}, expected a text of 1 to 256 characters")
    return WorkloadRequest(
        request_id=request_id,
        arrival_step=_number(row, "arrival_step", where, 0, MAX_STEP, default=0),
        prompt_len=_number(row, "prompt_len", where, 1, MAX_TOKENS),
        output_len=_number(row, "output_len", where, 1, MAX_TOKENS),
        priority=_number(row, "priority", where, -(2**31), 2**31, default=0),
        prompt=tuple(row.get("prompt", ())),
    )


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(row: Mapping[str, Any], name: str, where: str, least: int, most: int, default: int | None = None) -> int:
    value = row.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise WorkloadError(f"{where}.{name} is {_short(value)}, expected a whole number from {least} to {most}")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)!r:.80} is given twice")
    return result


def _short(value: Any) -> str:
    return f"{value!r:.80}"
