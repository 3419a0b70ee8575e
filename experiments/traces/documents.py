"""The JSON formats: Mooncake's lines, ShareGPT's conversations, and this project's own two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

from experiments.trace import MAX_REQUESTS
from experiments.traces.checks import Place, Row, identity, number_of, only, seconds_of, tokens_of, unique_pairs
from experiments.traces.errors import TraceError, short
from experiments.traces.limits import MAX_SECONDS, MAX_TEXT, MAX_TOKENS
from experiments.traces.lines import Source
from experiments.traces.positions import Entry, entries, line_of

FORMAT: Final = "batchscope-trace"
"""Value of "format" in this project's files in seconds; "version" is 1."""
VERSION: Final = 1
_MOST_STEPS: Final = 100_000_000
_SECONDS_FIELDS: Final = ("id", "arrival_s", "prompt_len", "output_len", "priority", "prompt")
_STEP_FIELDS: Final = ("id", "arrival_step", "prompt_len", "output_len", "priority", "prompt")

Texts = Callable[[str], int]
"""Text -> number of its tokens in the model at hand."""


def mooncake_rows(source: Source) -> Iterator[tuple[int, Row]]:
    """(line, row) of ``{"timestamp": ms, "input_length", "output_length", "hash_ids"}`` a line; Row.at in ms."""
    blank = 0
    for number, text in source.lines():
        if not text.strip():
            blank = blank or number
            continue
        if blank:
            raise TraceError(source.name, "is empty, and rows follow: one is missing", line=blank)
        place = Place(source.name, number)
        row = _object(text, place)
        only(row, ("timestamp", "input_length", "output_length", "hash_ids"), place)
        at = number_of(row, "timestamp", place, 0, int(MAX_SECONDS * 1000))
        prompt = number_of(row, "input_length", place, 0, MAX_TOKENS)
        output = number_of(row, "output_length", place, 0, MAX_TOKENS)
        if "hash_ids" in row:
            hashes = row["hash_ids"]
            if not isinstance(hashes, list) or not all(type(one) is int and one >= 0 for one in hashes):
                place.fail("hash_ids", f"is {short(hashes)}, expected a list of whole numbers")
        yield number, Row(at, prompt, output)


def sharegpt_rows(source: Source, count_tokens: Texts) -> Iterator[tuple[int, Row]]:
    """(line, row) of ``[{"conversations": [{"from", "value"}, ...]}]``: the first turn asks, the second answers.

    Fewer than two turns, or an empty one, leave a length of 0: such an entry is dropped and counted.
    """
    for entry in entries(source.text(), source.name):
        if not isinstance(entry.value, dict):
            _at(source, entry).fail("", f"entry {entry.index} is {short(entry.value)}, expected an object")
        field = f"[{entry.index}].conversations"
        turns = entry.value.get("conversations")
        if not isinstance(turns, list):
            found = short(turns) if "conversations" in entry.value else "missing"
            _at(source, entry).fail(field, f"is {found}, expected a list of turns")
        texts = [_turn(turn, f"{field}[{index}]", source, entry) for index, turn in enumerate(turns)]
        prompt, output = (count_tokens(texts[0]), count_tokens(texts[1])) if len(texts) > 1 else (0, 0)
        longest = max(prompt, output)
        if longest > MAX_TOKENS:
            _at(source, entry).fail(field, f"has a turn of {longest} tokens, at most {MAX_TOKENS} are read")
        yield entry.line, Row(0, prompt, output)


def _turn(turn: Any, field: str, source: Source, entry: Entry) -> str:
    if not isinstance(turn, dict) or not isinstance(turn.get("from"), str):
        _at(source, entry).fail(field, f"is {short(turn)}, expected an object with from and value")
    text = turn.get("value")
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        found = f"{len(text)} characters" if isinstance(text, str) else short(text)
        _at(source, entry).fail(f"{field}.value", f"is {found}, expected a text of at most {MAX_TEXT} characters")
    return text


def _at(source: Source, entry: Entry) -> Place:
    return Place(source.name, entry.line)


def own_document(source: Source) -> tuple[str, dict[str, Any]]:
    """(text, object) of one of this project's files. Raises TraceError naming the line."""
    text = source.text()
    data = _object(text, Place(source.name, 0))
    rows = data.get("requests")
    if not isinstance(rows, list):
        found = short(rows) if "requests" in data else "missing"
        raise TraceError(source.name, f"is {found}, expected a list", line=line_of(text, "requests"), field="requests")
    if len(rows) > MAX_REQUESTS:
        raise TraceError(source.name, f"has {len(rows)} rows, at most {MAX_REQUESTS} are read", field="requests")
    return text, data


def own_rows(source: Source, text: str, data: Mapping[str, Any], *, steps: bool) -> Iterator[tuple[int, Row]]:
    """(0, row) of this project's files; Row.at in seconds, or in steps. Errors find the line of the row."""
    fields = _STEP_FIELDS if steps else _SECONDS_FIELDS
    for index, row in enumerate(data["requests"]):
        try:
            yield 0, _own_row(row, fields, source.name)
        except TraceError as error:
            field = f"requests[{index}]" + (f".{error.field}" if error.field else "")
            line = line_of(text, "requests", index)
            raise TraceError(source.name, error.problem, line=line, field=field) from None


def _own_row(row: Any, fields: tuple[str, ...], name: str) -> Row:
    place = Place(name, 0)
    if not isinstance(row, dict):
        place.fail("", f"is {short(row)}, expected an object")
    only(row, fields, place)
    steps = "arrival_step" in fields
    at: float = (
        number_of({"arrival_step": 0, **row}, "arrival_step", place, 0, _MOST_STEPS)
        if steps
        else seconds_of(row, "arrival_s", place)
    )
    prompt = tokens_of(row, "prompt", place) if "prompt" in row else ()
    if prompt and row.get("prompt_len", len(prompt)) != len(prompt):
        place.fail("prompt_len", f"is {short(row['prompt_len'])}, but prompt has {len(prompt)} tokens")
    return Row(
        at=at,
        prompt_len=len(prompt) or number_of(row, "prompt_len", place, 1, MAX_TOKENS),
        output_len=number_of(row, "output_len", place, 1, MAX_TOKENS),
        request_id=identity(row.get("id"), place, "id"),
        priority=number_of({"priority": 0, **row}, "priority", place, -(2**31), 2**31),
        prompt=prompt,
    )


def _object(text: str, place: Place) -> dict[str, Any]:
    def twice(name: str) -> NoReturn:
        place.fail(name, "is given twice")

    def number(literal: str) -> NoReturn:
        place.fail("", f"{literal} is no number of JSON")

    try:
        data = json.loads(text, object_pairs_hook=unique_pairs(twice), parse_constant=number)
    except json.JSONDecodeError as error:
        line = place.line or error.lineno
        raise TraceError(place.source, f"column {error.colno}: no JSON: {error.msg}", line=line) from error
    except TraceError:
        raise
    except (ValueError, RecursionError) as error:
        raise TraceError(place.source, f"no JSON that can be read: {error}", line=place.line) from error
    if not isinstance(data, dict):
        place.fail("", f"is {short(data)}, expected an object")
    return data
