"""Random damage: a file is refused, or read as another reader reads it. Nothing else."""

from __future__ import annotations

import csv
import io
import json
import random
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from experiments.trace import Trace
from experiments.traces import TraceError, trace_bytes
from tests.experiments.traces.files import DATA, FILES, STEP_S, read, words

COLUMNS = {
    "TIMESTAMP": ("ContextTokens", "GeneratedTokens"),
    "Timestamp": ("Request tokens", "Response tokens"),
    "arrived_at": ("num_prefill_tokens", "num_decode_tokens"),
    "arrival_timestamp": ("prompt_size", "token_size"),
}


def damaged(data: bytes, rng: random.Random) -> bytes:
    """1 to 3 of: a byte changed, left out or put in, a piece doubled or cut, the end cut off, digits swapped."""
    parts = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        place, kind = rng.randrange(len(parts) + 1), rng.randrange(7)
        if kind == 0 and place < len(parts):
            parts[place] = rng.randrange(256)
        elif kind == 1:
            del parts[place : place + 1]
        elif kind == 2:
            parts[place:place] = bytes([rng.choice(b'0123456789,.-+"{}[]:eE \n\r\t\x00\xff')])
        elif kind == 3:
            parts[place:place] = parts[place : place + rng.randrange(40)]
        elif kind == 4:
            del parts[place : place + rng.randrange(40)]
        elif kind == 5 and rng.random() < 0.3:
            del parts[place:]
        elif place < len(parts) and chr(parts[place]).isdigit():
            parts[place] = rng.choice(b"0123456789")
    return bytes(parts)


def by_another_reader(data: bytes) -> list[tuple[float, int, int]]:
    """(seconds from the first, prompt, output) by Python's own csv, json and datetime, without a check."""
    text = data.decode("utf-8-sig")
    if text.lstrip()[:1] in ("{", "["):
        rows = _of_json(text)
    else:
        rows = list(_of_table(list(csv.DictReader(io.StringIO(text, newline="")))))
    rows = [row for row in rows if row[1] and row[2]]
    begin = 0 if '"requests"' in text else min(row[0] for row in rows)
    rows.sort(key=lambda row: row[0])
    return [(float(at - begin), prompt, output) for at, prompt, output in rows]


def _of_table(rows: list[dict]):
    for row in rows:
        time = next((name for name in COLUMNS if name in row), None)
        prompt, output = COLUMNS[time or "arrived_at"]
        at = 0.0 if time is None else _seconds(row[time]) if time == "TIMESTAMP" else float(row[time])
        yield at, int(row[prompt]), int(row[output])


def _seconds(text: str) -> Fraction:
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    moment = datetime.fromisoformat(whole + rest[len(digits) :])
    since = moment - datetime(2020, 1, 1, tzinfo=UTC if moment.tzinfo else None)
    return Fraction(int(since.total_seconds())) + Fraction(f"0.{digits or 0}")


def _of_json(text: str) -> list[tuple[float, int, int]]:
    if text.lstrip()[0] == "[":
        turns = [[turn["value"] for turn in entry["conversations"]] for entry in json.loads(text)]
        return [(0.0, words(values[0]), words(values[1])) for values in turns if len(values) > 1]
    if "input_length" in text:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        return [(row["timestamp"] / 1000, row["input_length"], row["output_length"]) for row in rows]
    return [
        (
            row["arrival_s"] if "arrival_s" in row else row.get("arrival_step", 0) * STEP_S,
            len(row.get("prompt", ())) or row["prompt_len"],
            row["output_len"],
        )
        for row in json.loads(text)["requests"]
    ]


def check(data: bytes) -> Trace | None:
    """Reads it both ways; None = refused."""
    try:
        trace = read(data)
    except TraceError:
        return None
    theirs = by_another_reader(data)
    assert [(r.prompt_len, r.output_len) for r in trace.requests] == [row[1:] for row in theirs], data
    assert [r.arrival_s for r in trace.requests] == pytest.approx([row[0] for row in theirs], abs=2e-6), data
    assert read(trace_bytes(trace)) == trace
    return trace


def fuzz(count: int, seed: int) -> int:
    """Damages every file in turn; how many were read all the same."""
    rng = random.Random(seed)
    originals = [(DATA / file).read_bytes() for file in FILES]
    return sum(check(damaged(originals[index % len(originals)], rng)) is not None for index in range(count))


def test_damaged_files_are_refused_or_read_as_another_reader_reads_them() -> None:
    read_all_the_same = fuzz(2400, seed=7)
    assert 100 < read_all_the_same < 2000, "both ways should be taken often"


def test_undamaged_files_agree_with_the_other_reader() -> None:
    for file in FILES:
        assert check((DATA / file).read_bytes()) is not None


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_damaged_files_for_long(seed: int) -> None:
    fuzz(60_000, seed=1000 + seed)


@pytest.mark.soak
def test_bytes_at_random_for_long() -> None:
    rng = random.Random(5)
    alphabet = b'{}[]":,0123456789.eE-+ \n\r\t\\unfalsetr\x00\xff\xc3'
    for _ in range(200_000):
        check(bytes(rng.choices(alphabet, k=rng.randrange(60))))
