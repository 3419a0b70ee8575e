"""The tables of numbers read in the reader's language, while their files keep the names that programs read."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from dashboard.column_words import CODES, LABELS, NOTES, chosen_rows, heads, in_words
from dashboard.i18n import translator
from dashboard.number_frames import epochs_frame, events_frame, requests_frame, steps_frame
from scheduler import DEFER_REASONS, EVENT_KINDS, SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with

HANGUL = re.compile("[가-힣]")
KEPT = {"TTFT (ms)", "TPOT (ms)"}
"""Heads that are the same in every language: what papers and tools call them."""


@pytest.fixture(scope="module")
def tables():
    client = FakeClient(SchedulerPolicy(max_num_seqs=2, max_num_batched_tokens=16))
    for i, (prompt, output) in enumerate([(20, 6), (3, 12), (9, 4), (5, 8)]):
        client.add(f"r{i}", prompt, output)
    running = engine_with(client)
    client.run(10)
    client.set_policy(replace(client.policy, max_num_seqs=4))
    client.run(30)
    running.hub.frame()
    summary = running.hub.epochs.summary()
    return {
        "requests": requests_frame(summary.requests),
        "steps": steps_frame(client.history()),
        "events": events_frame(client.history()),
        "epochs": epochs_frame(summary, (1000, 100), whole_only=False),
    }


@pytest.mark.parametrize("which", ["requests", "steps", "events", "epochs"])
def test_every_column_has_a_korean_head_and_its_help_names_the_column_of_the_file(tables, which):
    columns = list(tables[which].columns)
    told = heads(columns, translator("ko"))
    assert list(told) == columns
    for column, words in told.items():
        is_metric = re.fullmatch(r"(ttft|itl|tpot)_(n|p\d+_ms)", column)
        assert HANGUL.search(words["label"]) or words["label"] in KEPT or is_metric, column
        assert f"`{column}`" in words["help"]
    assert len({words["label"] for words in told.values()}) == len(columns), "no two heads alike"


def test_heads_of_percentiles_and_counts():
    told = heads(["ttft_p99_ms", "queue_p50_ms", "e2e_n", "no_such"], translator("ko"))
    assert [words["label"] for words in told.values()] == [
        "TTFT p99 (ms)", "대기 시간 p50 (ms)", "전체 시간 표본 수", "no_such",
    ]  # fmt: skip
    assert heads(["queue_p50_ms"], translator("en"))["queue_p50_ms"]["label"] == "Queue time p50 (ms)"


def test_code_words_stay_and_are_told_in_korean():
    events = pd.DataFrame({"kind": ["preempted", "deferred"], "reason": ["newest", "kv_capacity"], "n": [1, 2]})
    assert in_words(events, translator("ko")).to_dict("list") == {
        "kind": ["preempted (선점)", "deferred (대기)"],
        "reason": ["newest (가장 늦게 들어온 요청)", "kv_capacity (KV 블록)"],
        "n": [1, 2],
    }
    assert in_words(events, translator("en")).equals(events)


def test_every_kind_of_event_and_every_reason_to_wait_has_words():
    assert CODES.keys() >= {*EVENT_KINDS, *DEFER_REASONS}
    assert LABELS.keys() >= NOTES.keys()


def test_rows_are_found_by_the_code_word_and_by_its_translation_and_the_file_has_the_same_rows(tables):
    t = translator("ko")
    for words in ("admitted r2", "수용 r2"):
        shown, file = chosen_rows(tables["events"], words, t)
        assert set(shown["kind"]) == {"admitted (수용)"}
        assert set(file["kind"]) == {"admitted"}
        assert list(file["request_id"]) == list(shown["request_id"]) == ["r2"]
        assert list(file.columns) == list(tables["events"].columns)
    assert len(chosen_rows(tables["events"], "", t)[1]) == len(tables["events"])


def test_an_empty_table_stays_empty():
    shown, file = chosen_rows(pd.DataFrame({"epoch": []}), "word", translator("ko"))
    assert shown.empty
    assert file.empty


FILE_HEADS = {
    "requests": "request_id,epoch,spans_epochs,outcome,reason,prompt_tokens,output_tokens,queue_ms,ttft_ms,tpot_ms,"
    "e2e_ms,preemptions,recompute_tokens,padding_tokens,ended_utc,run_id",
    "events": "iteration,engine_time_s,kind,request_id,reason,numbers,run_id",
    "steps": "iteration,policy_version,engine_time_s,duration_ms,schedule_ms,execute_ms,sample_ms,update_ms,"
    "prefill_tokens,decode_tokens,recompute_tokens,padding_tokens,delivered_tokens,running_requests,waiting_requests,"
    "preempted_requests,used_blocks,usable_blocks,run_id",
}


@pytest.mark.parametrize("which", FILE_HEADS)
def test_the_heads_of_the_files_stay_what_programs_know(tables, which):
    assert ",".join(tables[which].columns) == FILE_HEADS[which]
