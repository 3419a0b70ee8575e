"""A bad file is refused with the line and the field, and never taken for something else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from experiments.traces import TraceError, read_trace, tables
from experiments.traces import limits as limits_module
from tests.experiments.traces.files import DATA, FILES, read

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
OWN = '{"format": "batchscope-trace", "version": 1, "requests": [\n'
ROW = '{"id": "a", "arrival_s": 1, "prompt_len": 5, "output_len": 3}'

BAD = {
    "empty": ("", 1, ""),
    "prose": ("Dear reader,\nthis is no trace\n", 1, ""),
    "header only": (AZURE.split("\n")[0] + "\n", 1, ""),
    "a column renamed": (AZURE.replace("ContextTokens", "Context"), 1, "ContextTokens"),
    "columns in another order": (
        AZURE.replace("ContextTokens,GeneratedTokens", "GeneratedTokens,ContextTokens"),
        1,
        "TIMESTAMP",
    ),
    "negative": (AZURE.replace("374", "-374"), 2, "ContextTokens"),
    "fraction": (AZURE.replace("374", "374.0"), 2, "ContextTokens"),
    "too many tokens": (AZURE.replace("374", "10000001"), 2, "ContextTokens"),
    "other digits": (AZURE.replace("374", "３７４"), 2, "ContextTokens"),
    "no such month": (AZURE.replace("2023-11", "2023-13"), 2, "TIMESTAMP"),
    "no such day": (AZURE.replace("11-16", "02-30"), 2, "TIMESTAMP"),
    "no such hour": (AZURE.replace("18:15", "24:15"), 2, "TIMESTAMP"),
    "no such zone": (AZURE.replace("5900", "59+25:00"), 2, "TIMESTAMP"),
    "zones mixed": (AZURE + "2023-11-16 18:15:47+00:00,1,1\n", 3, "TIMESTAMP"),
    "a cell short": (AZURE + "2023-11-16 18:15:47,7\n", 3, "GeneratedTokens"),
    "a cell more": (AZURE + "2023-11-16 18:15:47,7,7,7\n", 3, "GeneratedTokens"),
    "a quote that swallows": (AZURE + '2023-11-16 18:15:47,"7,7\n2023-11-16 18:15:48,7,7\n', 3, "TIMESTAMP"),
    "a row that may be two": (BURST.replace("Chat", "Ch\rat"), 2, ""),
    "a row missing": (AZURE + "\n2023-11-16 18:15:48,7,7\n", 3, ""),
    "years apart": (AZURE + "2093-11-16 18:15:48,7,7\n", 3, ""),
    "only empty requests": (AZURE.replace(",44", ",0"), 1, ""),
    "total is no sum": (BURST.replace("490", "491"), 2, "Total tokens"),
    "nan seconds": (BURST.replace("5,Chat", "nan,Chat"), 2, "Timestamp"),
    "endless seconds": (BURST.replace("5,Chat", "9e999,Chat"), 2, "Timestamp"),
    "negative seconds": (BURST.replace("5,Chat", "-5,Chat"), 2, "Timestamp"),
    "batch of two": ((DATA / "splitwise.csv").read_text().replace(",1,512", ",2,512"), 2, "batch_size"),
    "id twice": ((DATA / "splitwise.csv").read_text().replace("\n1,2", "\n0,2"), 3, "request_id"),
    "mooncake, seconds as text": ('{"timestamp": "0", "input_length": 1, "output_length": 1}\n', 1, "timestamp"),
    "mooncake, unknown field": ('{"timestamp": 0, "input_length": 1, "output_length": 1, "delay": 3}\n', 1, "delay"),
    "mooncake, field twice": (
        '{"timestamp": 0, "timestamp": 1, "input_length": 1, "output_length": 1}\n',
        1,
        "timestamp",
    ),
    "mooncake, true": ('{"timestamp": 0, "input_length": true, "output_length": 1}\n', 1, "input_length"),
    "mooncake, bad hash": (
        '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [-1]}\n',
        1,
        "hash_ids",
    ),
    "mooncake, second line broken": (
        '{"timestamp": 0, "input_length": 1, "output_length": 1}\n{"timestamp": 1\n',
        2,
        "",
    ),
    "sharegpt, no list of turns": ('[\n{"id": "a"}]', 2, "[0].conversations"),
    "sharegpt, number as text": ('[{"conversations": [{"from": "a", "value": 3}]}]', 1, "[0].conversations[0].value"),
    "sharegpt, cut short": ('[{"conversations": []},\n{"conver', 2, "[1]"),
    "sharegpt, no end": ('[{"conversations": []}\n', 2, "[1]"),
    "sharegpt, something behind": ("[]\nx", 2, "[0]"),
    "own, unknown version": (OWN.replace(": 1", ": 2") + ROW + "]}", 1, "version"),
    "own, another format": (OWN.replace("batchscope-trace", "trace") + ROW + "]}", 1, "format"),
    "own, earlier than before": (
        OWN + ROW + ",\n" + ROW.replace('"a"', '"b"').replace(": 1,", ": 0.5,") + "]}",
        3,
        "requests[1].arrival_s",
    ),
    "own, id twice": (OWN + ROW + ",\n" + ROW + "]}", 3, "requests[1].id"),
    "own, nan": (OWN + ROW.replace(": 1,", ": NaN,") + "]}", 0, ""),
    "own, prompt of another length": (
        OWN + ROW.replace("}", ', "prompt": [1, 2]}') + "]}",
        2,
        "requests[0].prompt_len",
    ),
    "own, output of 0": (OWN + ROW.replace(": 3", ": 0") + "]}", 2, "requests[0].output_len"),
    "own, no requests": (OWN + "]}", 1, "requests"),
    "own, line break in an id": (OWN + ROW.replace('"a"', '"a\\n"') + "]}", 2, "requests[0].id"),
    "own, broken": (OWN + ROW + ",,]}", 2, ""),
    "own, changed after writing": (
        OWN.replace('1, "r', '1, "requests_sha256": "0", "r') + ROW + "]}",
        1,
        "requests_sha256",
    ),
    "own, no such origin": (OWN.replace('1, "r', '1, "origin": {"source": 3}, "r') + ROW + "]}", 1, "origin"),
    "deep": ("[" * 100_000, 1, "[0]"),
    "a number without end": ("[" + "1" * 10_000 + "]", 1, "[0]"),
    "steps, unknown field": (
        '{"requests": [\n{"id": "a", "arrival_s": 1, "prompt_len": 1, "output_len": 1}]}',
        2,
        "requests[0].arrival_s",
    ),
}
"""What is wrong -> (text, line that the message must name, field that it must name)."""


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_naming_line_and_field(what: str) -> None:
    text, line, field = BAD[what]
    with pytest.raises(TraceError) as caught:
        read(text.encode())
    assert (caught.value.line, caught.value.field) == (line, field), caught.value
    assert len(str(caught.value)) < 1000, "a message stays short, whatever the file holds"


def test_what_is_not_utf_8_is_refused_with_the_line() -> None:
    for data, line in ((AZURE.encode() + b"2023-11-16 18:15:47,\xff,1\n", 3), (b'[\n"\xff"]', 2)):
        with pytest.raises(TraceError, match="UTF-8") as caught:
            read(data)
        assert caught.value.line == line


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(TraceError, match="not a file"):
        read(tmp_path)


def test_files_over_a_limit_are_refused_and_a_limit_of_rows_reads_their_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_line = AZURE.encode() + b"2023-11-16 18:15:47," + b"9" * limits_module.MAX_LINE_BYTES + b",1\n"
    with pytest.raises(TraceError, match="longer than") as caught:
        read(long_line)
    assert caught.value.line == 3
    assert len(read_trace(long_line, limit=1).requests) == 1, "what follows the limit is not looked at"
    monkeypatch.setattr("experiments.traces.reading.MAX_REQUESTS", 3)
    with pytest.raises(TraceError, match="more than 3 rows") as caught:
        read((DATA / "azure_2023_code.csv").read_bytes())
    assert caught.value.line == 5
    monkeypatch.setattr("experiments.traces.lines.MAX_TABLE_BYTES", 10)
    monkeypatch.setattr("experiments.traces.lines.MAX_DOCUMENT_BYTES", 10)
    for file in FILES:
        with pytest.raises(TraceError, match="at most 10 are read"):
            read(DATA / file)


NOT_WHOLE = ("-1", "1.5", "nan", "inf", "", "12x", "１２", "1e3", "99999999999", "0x10", " 12", "+3", "1_000", "None")
NOT_SECONDS = ("-0.5", "nan", "inf", "", "noon", "1,5", "1e999", "0x1p3", " 1", "1_0.0", "--1")
NOT_MOMENTS = ("", "0", "2023-11-16", "18:15:46", "2023-00-16 18:15:46", "2023-11-31 18:15:46", "2023-11-16 18:60:00",
               "2023-11-16 18:15:46.1234567890", "16.11.2023 18:15", "2023-11-16 18:15:61")  # fmt: skip
NOT_NUMBERS = (-1, 1.5, "7", None, True, [], {}, 10**20)
TEXT_COLUMNS = {"Model", "Log Type", "Session ID", "Elapsed time", "request_id"}


def bad_table(lines: list[str], rng: random.Random) -> tuple[str, int, str]:
    """(file, line, column) with one cell that cannot be right."""
    header = lines[0].split(",")
    number = rng.randrange(1, len(lines))
    cells = lines[number].split(",")
    column = rng.choice([index for index, name in enumerate(header) if name not in TEXT_COLUMNS])
    name = header[column]
    if name == "TIMESTAMP":
        wrong = rng.choice(NOT_MOMENTS)
    elif name in ("Timestamp", "arrived_at", "arrival_timestamp", "pd_ratio"):
        wrong = rng.choice([one for one in NOT_SECONDS if "," not in one])
    else:
        wrong = rng.choice(NOT_WHOLE)
    cells[column] = wrong
    return "\n".join([*lines[:number], ",".join(cells), *lines[number + 1 :]]), number + 1, name


def bad_shape(lines: list[str], rng: random.Random) -> tuple[str, int, str | None]:
    """(file, line, None) with one row that has too few or too many cells, or with a header that is none."""
    number = rng.randrange(len(lines))
    cells = lines[number].split(",")
    place = rng.randrange(len(cells))
    changed = cells[:place] + cells[place + 1 :] if rng.random() < 0.5 else [*cells[:place], "7", *cells[place:]]
    return "\n".join([*lines[:number], ",".join(changed), *lines[number + 1 :]]), number + 1, None


def bad_object(rows: list[dict], rng: random.Random, fields: list[str]) -> tuple[int, str]:
    """Spoils one field of one row; (index, field)."""
    index = rng.randrange(len(rows))
    field = rng.choice(fields)
    how = rng.random()
    if how < 0.2 and field not in ("prompt", "priority"):
        del rows[index][field]
    elif how < 0.4:
        rows[index]["surprise"], field = 1, "surprise"
    else:
        wrong = [
            one
            for one in NOT_NUMBERS
            if not (field == "id" and one == "7") and not (field == "arrival_s" and one == 1.5)
        ]
        rows[index][field] = rng.choice(wrong)
    return index, field


def mutant(file: str, rng: random.Random) -> tuple[bytes, int, str | None]:
    """(file, line, field or None) of a file with one thing wrong."""
    text = (DATA / file).read_text(encoding="utf-8").strip("\n")
    if file.endswith(".csv"):
        made = bad_table(text.splitlines(), rng) if rng.random() < 0.7 else bad_shape(text.splitlines(), rng)
        return made[0].encode(), made[1], made[2]
    if file == "mooncake.jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
        index, field = bad_object(rows, rng, ["timestamp", "input_length", "output_length"])
        if index == 0 and "timestamp" not in rows[0]:
            rows[0]["timestamp"] = None
        return "\n".join(map(json.dumps, rows)).encode(), index + 1, field
    if file == "sharegpt.json":
        entries = json.loads(text)
        index = rng.randrange(len(entries))
        turns = entries[index]["conversations"]
        entries[index]["conversations"] = rng.choice(
            [None, 3, "no", {}, [3], [{"from": "a"}], [*turns, {"value": "b"}]]
        )
        return ("[\n" + ",\n".join(map(json.dumps, entries)) + "]").encode(), index + 2, None
    data = json.loads(text)
    rows = data.pop("requests")
    fields = ["id", "output_len"] if file == "steps.json" else ["id", "output_len", "arrival_s"]
    index, field = bad_object(rows, rng, fields)
    head = json.dumps(data)[:-1] + ', "requests": [\n'
    return (head + ",\n".join(map(json.dumps, rows)) + "]}").encode(), index + 2, f"requests[{index}].{field}"


def test_a_thousand_mutated_files_are_all_refused_each_with_its_line_and_field() -> None:
    rng = random.Random(20)
    for count in range(1000):
        file = FILES[count % len(FILES)]
        data, line, field = mutant(file, rng)
        with pytest.raises(TraceError) as caught:
            read(data)
        error = caught.value
        if line == 1 and file.endswith(".csv"):
            continue  # without its header a table is of no format, or of another
        assert error.line == line, f"{file}: {error}\n{data.decode()}"
        assert field in (None, error.field), f"{file}: {error}\n{data.decode()}"


def test_tables_are_told_apart_by_their_headers_alone() -> None:
    headers = [table.header for table in tables.TABLES]
    assert len(set(headers)) == len(headers)
