"""Traces as they are published, read by their content: times, lengths and what was left out, worked out by hand."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from experiments.traces import TraceError, read_trace
from tests.experiments.traces.files import DATA, FILES, read, words

EXPECTED = {
    "azure_2023_conv.csv": ("azure-2023", 0,
        [(0.0, 374, 44), (4.314579, 396, 109), (4.541877, 879, 55), (4.710427, 91, 16)]),
    "azure_2023_code.csv": (
        "azure-2023", 0,
        [
            (0.0, 4808, 10), (0.052, 3180, 8), (0.098189, 110, 27), (0.140684, 7433, 14), (0.444994, 34, 12),
            (0.539187, 374, 14), (0.698571, 6985, 9),
        ],
    ),
    "azure_2024.csv": ("azure-2024", 0, [(0.0, 1452, 29), (0.04052, 300, 130), (0.998837, 310, 9)]),
    "burstgpt_1.csv": ("burstgpt", 1, [(0.0, 472, 18), (40.0, 1087, 230), (113.0, 417, 276)]),
    "burstgpt_3.csv": ("burstgpt", 1, [(0.0, 906, 446), (51.0, 36, 29)]),
    "mooncake.jsonl": (
        "mooncake", 0, [(0.0, 6758, 500), (0.0, 7322, 490), (0.0, 7236, 794), (3.0, 6324, 548), (3.0, 2012, 354)]
    ),
    "vidur.csv": ("vidur", 0, [(0.0, 374, 44), (4.314579, 396, 109), (4.541877, 879, 55)]),
    "vidur_lengths.csv": ("vidur", 0, [(0.0, 3772, 54), (0.0, 2015, 156)]),
    "splitwise.csv": ("splitwise-sim", 0, [(0.0, 512, 33), (0.25, 2048, 7)]),
    "sharegpt.json": ("sharegpt", 2, [(0.0, 3, 3), (0.0, 1, 3)]),
    "steps.json": ("batchscope-steps", 0, [(0.5, 2, 1), (2.0, 5, 3)]),
    "seconds.json": ("batchscope", 0, [(0.0, 5, 3), (0.1, 2, 1)]),
}  # fmt: skip
"""File -> (source, dropped, (arrival_s, prompt_len, output_len) of each request)."""


def test_every_file_has_its_expected_rows() -> None:
    assert sorted(EXPECTED) == FILES


@pytest.mark.parametrize("file", FILES)
def test_a_file_gives_the_requests_that_its_rows_say_in_seconds_and_tokens(file: str) -> None:
    source, dropped, rows = EXPECTED[file]
    trace = read(DATA / file)
    assert [(r.arrival_s, r.prompt_len, r.output_len) for r in trace.requests] == rows
    assert (trace.origin.source, trace.origin.dropped, trace.origin.truncated) == (source, dropped, 0)


@pytest.mark.parametrize("file", FILES)
def test_the_format_is_told_by_the_content_and_not_by_the_name(file: str, tmp_path: Path) -> None:
    other = tmp_path / "no_name_at_all"
    other.write_bytes((DATA / file).read_bytes())
    assert read(other).requests == read(DATA / file).requests == read((DATA / file).read_bytes()).requests


@pytest.mark.parametrize("file", [name for name in FILES if name.endswith(".csv")])
def test_line_ends_and_a_byte_order_mark_make_no_difference(file: str) -> None:
    plain = (DATA / file).read_bytes().replace(b"\r\n", b"\n")
    windows = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")
    assert read(plain).requests == read(windows).requests
    assert read(plain.rstrip(b"\n")).requests == read(plain).requests


@pytest.mark.parametrize("file", [name for name in FILES if name != "seconds.json"])
def test_the_origin_names_the_hash_of_the_file_also_where_reading_stopped_early(file: str) -> None:
    data = (DATA / file).read_bytes()
    trace = read_trace(data, limit=1, count_tokens=words, seconds_per_step=1)
    assert trace.origin.file_sha256 == hashlib.sha256(data).hexdigest()
    assert dict(trace.origin.parameters)["limit"].startswith("the first 1 ")
    assert len(trace.requests) == 1


def test_failed_requests_are_left_out_and_counted_with_the_reason() -> None:
    trace = read(DATA / "burstgpt_1.csv")
    assert (trace.origin.dropped, dict(trace.origin.parameters)["dropped_no_output"]) == (1, "1")
    assert [request.request_id for request in trace.requests] == ["r0", "r1", "r2"]


def test_what_was_taken_from_the_arrivals_and_which_rows_were_sorted_is_stated() -> None:
    rows = b"arrived_at,num_prefill_tokens,num_decode_tokens\n7.5,1,1\n9.25,2,2\n8.0,3,3\n"
    trace = read(rows)
    assert [(r.request_id, r.arrival_s, r.prompt_len) for r in trace.requests] == [
        ("r0", 0, 1),
        ("r2", 0.5, 3),
        ("r1", 1.75, 2),
    ]
    stated = dict(trace.origin.parameters)
    assert stated["start"] == "7.5 s taken from every arrival"
    assert stated["out_of_order"].startswith("1 rows")


def test_steps_become_seconds_by_a_factor_that_must_be_given_and_is_stated() -> None:
    with pytest.raises(TraceError, match="seconds_per_step"):
        read_trace(DATA / "steps.json")
    trace = read_trace(DATA / "steps.json", seconds_per_step=0.025)
    assert [(r.request_id, r.arrival_s, r.priority, r.prompt) for r in trace.requests] == [
        ("b", 0.025, 2, (7, 8)),
        ("a", 0.1, 0, ()),
    ]
    stated = dict(trace.origin.parameters)
    assert stated["seconds_per_step"] == "0.025"
    assert '"num_blocks": 40' in stated["config"]


def test_texts_need_a_tokenizer() -> None:
    with pytest.raises(TraceError, match="tokenizer"):
        read_trace(DATA / "sharegpt.json")


LONGER = {
    "azure_llm_2023_code_sample.csv": (600, 261.635999),
    "azure_llm_2023_conv_sample.csv": (600, 148.18913),
    "mooncake_conversation_sample.jsonl": (300, 102.0),
}
"""File -> rows, and seconds to the last arrival, of the beginnings of published traces."""


@pytest.mark.skipif("BATCHSCOPE_TRACES" not in os.environ, reason="BATCHSCOPE_TRACES names no folder of longer samples")
@pytest.mark.parametrize("name", LONGER)
def test_longer_samples_of_published_traces_are_read_whole(name: str) -> None:
    trace = read(Path(os.environ["BATCHSCOPE_TRACES"]) / name)
    count, last = LONGER[name]
    assert len(trace.requests) == count
    assert trace.requests[-1].arrival_s == pytest.approx(last, abs=1e-9)
