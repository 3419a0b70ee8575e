"""Checks of single values, and the row that all formats are read into."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NoReturn

from experiments.traces.errors import TraceError, short
from experiments.traces.limits import MAX_ID, MAX_SECONDS, MAX_TOKENS

_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,18}(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: for messages only."""

    source: str
    line: int

    def fail(self, field: str, problem: str) -> NoReturn:
        """Raise the TraceError of a value that stands here."""
        raise TraceError(self.source, problem, line=self.line, field=field)


@dataclass(frozen=True, slots=True)
class Row:
    """One request as its file has it.

    at: units of the format's clock (``per_second`` of the reader), a whole number where the file's times are whole,
    so that differences are exact. lengths of 0 are kept here and dropped, and counted, when the trace is made.
    has_zone: whether its time names a time zone, None = it is no time of day.
    """

    at: float
    prompt_len: int
    output_len: int
    request_id: str = ""
    priority: int = 0
    prompt: tuple[int, ...] = ()
    has_zone: bool | None = None


def whole(text: str, place: Place, field: str, most: int = MAX_TOKENS) -> int:
    """A whole number 0 .. most, written in digits only."""
    if not _WHOLE.fullmatch(text) or int(text) > most:
        place.fail(field, f"is {short(text)}, expected a whole number from 0 to {most}")
    return int(text)


def decimal(text: str, place: Place, field: str) -> float:
    """A number >= 0, as digits with a point or an exponent; no sign, no nan, no inf."""
    if not _DECIMAL.fullmatch(text) or float(text) == float("inf"):
        place.fail(field, f"is {short(text)}, expected a number of seconds, 0 or more")
    return float(text)


def moment(text: str, place: Place, field: str) -> tuple[int, bool]:
    """(nanoseconds since year 1, whether a time zone is given) of ``2023-11-16 18:17:03.9799600[+00:00]``."""
    found = _MOMENT.fullmatch(text)
    if not found:
        place.fail(field, f"is {short(text)}, expected a time as 2023-11-16 18:17:03.9799600")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        place.fail(field, f"is {short(text)}: there is no such day")
    if hour > 23 or minute > 59 or second > 59:
        place.fail(field, f"is {short(text)}: there is no such time of day")
    fraction = int((found[7] or "").ljust(9, "0"))
    zone = found[8] or ""
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
    if len(zone) > 1:
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 23 or minutes > 59:
            place.fail(field, f"is {short(text)}: there is no such time zone")
        seconds -= (hours * 3_600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    return seconds * 1_000_000_000 + fraction, bool(zone)


def number_of(row: Mapping[str, Any], field: str, place: Place, least: int, most: int) -> int:
    """A whole number of a JSON object; true, 1.0 and "1" are none."""
    value = row.get(field)
    if type(value) is not int or not least <= value <= most:
        found = short(value) if field in row else "missing"
        place.fail(field, f"is {found}, expected a whole number from {least} to {most}")
    return value


def seconds_of(row: Mapping[str, Any], field: str, place: Place) -> float:
    """Seconds of a JSON object, 0 .. MAX_SECONDS."""
    value = row.get(field)
    if type(value) not in (int, float) or not 0 <= float(value) <= MAX_SECONDS:  # type: ignore[arg-type]
        found = short(value) if field in row else "missing"
        place.fail(field, f"is {found}, expected seconds from 0 to {MAX_SECONDS:g}")
    return float(value)  # type: ignore[arg-type]


def tokens_of(row: Mapping[str, Any], field: str, place: Place) -> tuple[int, ...]:
    """A list of token ids of a JSON object, not empty."""
    value = row[field]
    if not isinstance(value, list) or not value or not all(type(one) is int and 0 <= one < 2**31 for one in value):
        place.fail(field, f"is {short(value)}, expected a list of token ids, not empty")
    if len(value) > MAX_TOKENS:
        place.fail(field, f"has {len(value)} tokens, at most {MAX_TOKENS} are read")
    return tuple(value)


def identity(value: Any, place: Place, field: str) -> str:
    """A request id: text of 1 to MAX_ID printable characters."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or not value.isprintable():
        place.fail(field, f"is {short(value)}, expected a text of 1 to {MAX_ID} printable characters")
    return value


def only(row: Mapping[str, Any], allowed: Sequence[str], place: Place) -> None:
    """Refuse fields that the format does not have: they would be lost without a word."""
    unknown = sorted(set(row) - set(allowed))
    if unknown:
        place.fail(unknown[0][:80], f"is not a field of a request; there are {', '.join(allowed)}")


def unique_pairs(fail: Callable[[str], NoReturn]) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """A hook for JSON objects that refuses a field given twice."""

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            fail(next(name for name in names if names.count(name) > 1)[:80])
        return result

    return hook
