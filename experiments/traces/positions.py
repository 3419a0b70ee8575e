"""Where in a JSON text a value stands, and the entries of a long list one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from experiments.traces.checks import unique_pairs
from experiments.traces.errors import TraceError

_BLANK: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a list. index: from 0. line: on which it begins, from 1."""

    index: int
    value: Any
    line: int


def entries(text: str, source: str) -> Iterator[Entry]:
    """The values of a JSON list, each decoded when asked for. Raises TraceError naming line and entry."""
    position, index = _skip(text, 0), 0
    at = [position]
    line, counted = 1, 0

    def fail(problem: str) -> NoReturn:
        raise TraceError(source, problem, line=text.count("\n", 0, at[0]) + 1, field=f"[{index}]")

    decoder = json.JSONDecoder(
        object_pairs_hook=unique_pairs(lambda name: fail(f"{name} is given twice")),
        parse_constant=lambda literal: fail(f"{literal} is no number of JSON"),
    )
    if text[position : position + 1] != "[":
        fail("expected a list")
    position = _skip(text, position + 1)
    while text[position : position + 1] != "]" or index:
        at[0] = position
        try:
            value, end = decoder.raw_decode(text, position)
        except TraceError:
            raise
        except (ValueError, RecursionError) as error:
            at[0] = getattr(error, "pos", position)
            fail(f"no JSON: {getattr(error, 'msg', error)}")
        line, counted = line + text.count("\n", counted, position), position
        yield Entry(index, value, line)
        index += 1
        at[0] = position = _skip(text, end)
        mark = text[position : position + 1]
        position = _skip(text, position + 1)
        if mark == "]":
            break
        if mark != ",":
            fail("expected a comma or the end of the list")
    else:
        position = _skip(text, position + 1)
    at[0] = position
    if position != len(text):
        fail("something follows the end of the list")


def line_of(text: str, field: str, index: int | None = None) -> int:
    """Line of a field of the outermost object, or of an entry of the list in it; 0 where it cannot be told."""
    decoder = json.JSONDecoder()
    try:
        position = _skip(text, _skip(text, 0) + 1)
        while text[position : position + 1] == '"':
            name, end = decoder.raw_decode(text, position)
            start = _skip(text, _skip(text, end) + 1)
            if name == field:
                return text.count("\n", 0, start if index is None else _entry(text, start, index, decoder)) + 1
            _, end = decoder.raw_decode(text, start)
            position = _skip(text, _skip(text, end) + 1)
    except (ValueError, RecursionError):
        return 0
    return 0


def _entry(text: str, start: int, index: int, decoder: json.JSONDecoder) -> int:
    position = _skip(text, start + 1)
    for _ in range(index):
        _, end = decoder.raw_decode(text, position)
        position = _skip(text, _skip(text, end) + 1)
    return position


def _skip(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position
