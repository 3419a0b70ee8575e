"""The published CSV formats: Azure, BurstGPT, Vidur and SplitwiseSim, told apart by their header line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.traces.checks import Place, Row, decimal, identity, moment, whole
from experiments.traces.errors import TraceError, short
from experiments.traces.lines import Source

Cells = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableFormat:
    """name: as in TraceOrigin.source. header: the columns, in order. per_second: units of Row.at in one second.

    has_times: False = the file tells no arrivals, all requests are there at once.
    """

    name: str
    description: str
    header: tuple[str, ...]
    per_second: int
    row: Callable[[Cells, Place], Row]
    has_times: bool = True


def _azure(cells: Cells, place: Place) -> Row:
    at, has_zone = moment(cells["TIMESTAMP"], place, "TIMESTAMP")
    prompt = whole(cells["ContextTokens"], place, "ContextTokens")
    output = whole(cells["GeneratedTokens"], place, "GeneratedTokens")
    return Row(at, prompt, output, has_zone=has_zone)


def _burstgpt(cells: Cells, place: Place) -> Row:
    at = decimal(cells["Timestamp"], place, "Timestamp")
    prompt = whole(cells["Request tokens"], place, "Request tokens")
    output = whole(cells["Response tokens"], place, "Response tokens")
    _sum(cells, place, "Total tokens", prompt + output)
    return Row(at, prompt, output)


def _vidur(cells: Cells, place: Place) -> Row:
    at = decimal(cells["arrived_at"], place, "arrived_at")
    return Row(at, *_vidur_lengths(cells, place))


def _vidur_without_times(cells: Cells, place: Place) -> Row:
    prompt, output = _vidur_lengths(cells, place)
    _sum(cells, place, "num_total_tokens", prompt + output)
    decimal(cells["pd_ratio"], place, "pd_ratio")
    return Row(0, prompt, output)


def _vidur_lengths(cells: Cells, place: Place) -> tuple[int, int]:
    prompt = whole(cells["num_prefill_tokens"], place, "num_prefill_tokens")
    return prompt, whole(cells["num_decode_tokens"], place, "num_decode_tokens")


def _splitwise(cells: Cells, place: Place) -> Row:
    request_id = identity(cells["request_id"], place, "request_id")
    whole(cells["request_type"], place, "request_type")
    whole(cells["application_id"], place, "application_id")
    if whole(cells["batch_size"], place, "batch_size") != 1:
        place.fail("batch_size", f"is {short(cells['batch_size'])}, expected 1: a row here is one request")
    at = decimal(cells["arrival_timestamp"], place, "arrival_timestamp")
    prompt = whole(cells["prompt_size"], place, "prompt_size")
    return Row(at, prompt, whole(cells["token_size"], place, "token_size"), request_id)


def _sum(cells: Cells, place: Place, field: str, expected: int) -> None:
    if whole(cells[field], place, field, 2**62) != expected:
        place.fail(field, f"is {short(cells[field])}, but the two lengths before it make {expected}")


_BURST_TAIL: Final = ("Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")

TABLES: Final = (
    TableFormat(
        "azure", "Azure LLM inference trace", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), 10**9, _azure
    ),
    TableFormat("burstgpt", "BurstGPT trace", ("Timestamp", *_BURST_TAIL), 1, _burstgpt),
    TableFormat(
        "burstgpt", "BurstGPT trace with sessions", ("Timestamp", "Session ID", "Elapsed time", *_BURST_TAIL), 1,
        _burstgpt,
    ),
    TableFormat(
        "vidur", "Vidur processed trace", ("arrived_at", "num_prefill_tokens", "num_decode_tokens"), 1, _vidur
    ),
    TableFormat(
        "vidur", "Vidur processed trace, lengths only",
        ("num_prefill_tokens", "num_decode_tokens", "num_total_tokens", "pd_ratio"), 1, _vidur_without_times, False,
    ),
    TableFormat(
        "splitwise-sim", "SplitwiseSim trace",
        (
            "request_id", "request_type", "application_id", "arrival_timestamp", "batch_size", "prompt_size",
            "token_size",
        ),
        1, _splitwise,
    ),
)  # fmt: skip


def table_of(head: bytes) -> TableFormat | None:
    """The format whose header is the first line, or None."""
    first = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace").rstrip("\r")
    names = tuple(first.split(","))
    return next((table for table in TABLES if table.header == names), None)


def table_rows(source: Source, table: TableFormat) -> Iterator[tuple[int, Row]]:
    """(line, row) of every line after the header. Raises TraceError naming line and column.

    A cell holds no line break: none of the formats has such cells, and a stray quote must not swallow rows.
    """
    lines = source.lines()
    next(lines)
    zone: bool | None = None
    ended = 0
    for number, text in lines:
        if not text:
            ended = ended or number
            continue
        if ended:
            raise TraceError(source.name, "is empty, and rows follow: one is missing", line=ended)
        place = Place(source.name, number)
        row = table.row(dict(zip(table.header, _cells(text, table.header, place), strict=True)), place)
        if zone is not None and zone != row.has_zone:
            place.fail(table.header[0], "some times of the file have a time zone, others do not")
        zone = row.has_zone
        yield number, row


def _cells(text: str, header: Sequence[str], place: Place) -> list[str]:
    if '"' in text:
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as error:
            place.fail(header[0], f"the row is no CSV: {error}")
    else:
        cells = text.split(",")
    if len(cells) != len(header):
        missing = header[len(cells)] if len(cells) < len(header) else header[-1]
        place.fail(missing, f"the row has {len(cells)} cells, expected {len(header)}: {', '.join(header)}")
    return cells
