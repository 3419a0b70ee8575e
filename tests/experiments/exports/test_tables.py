"""CSV and Parquet read back with pandas: every cell, and the totals of the run."""

from __future__ import annotations

import io
import json
import math

import pandas as pd
import pytest

from experiments.exports.frames import csv_bytes, parquet_bytes, tables
from tests.experiments.exports.made_runs import RUNS


def from_csv(data: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(data), keep_default_na=False, na_values={})


@pytest.fixture(params=RUNS)
def run(request):
    return RUNS[request.param]()


def parquet(run, name: str) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(parquet_bytes(tables(run)[name])))


def test_parquet_holds_every_request_and_token(run) -> None:
    requests, tokens = parquet(run, "requests"), parquet(run, "tokens")
    assert list(requests["request_id"]) == [row.request_id for row in run.requests]
    for name in ("prompt_len", "output_len", "num_output_tokens", "priority", "outcome", "reason", "due_s",
                 "num_preemptions", "preempted_s", "recompute_tokens", "padding_tokens"):  # fmt: skip
        assert list(requests[name]) == [getattr(row, name) for row in run.requests], name
    for name in ("first_scheduled_s", "last_scheduled_s", "end_s"):
        expected = [getattr(row, name) for row in run.requests]
        assert [None if math.isnan(one) else one for one in requests[name]] == expected, name
    for row in run.requests:
        assert tuple(tokens.loc[tokens["request_id"] == row.request_id, "time_s"]) == row.token_times_s


def test_parquet_holds_every_step_and_what_it_scheduled(run) -> None:
    steps, scheduled = parquet(run, "steps"), parquet(run, "scheduled")
    for name in steps.columns.drop(["num_preempted"]):
        assert list(steps[name]) == [getattr(step, name) for step in run.steps], name
    rows = [(step.step_id, *one) for step in run.steps for one in step.scheduled]
    assert list(scheduled.itertuples(index=False, name=None)) == rows


def test_tables_agree_with_the_totals_of_the_run_and_with_each_other(run) -> None:
    steps, scheduled, requests, tokens, events = (
        parquet(run, name) for name in ("steps", "scheduled", "requests", "tokens", "events")
    )
    totals = run.totals
    for kind in ("prefill", "decode", "recompute", "padding"):
        assert steps[f"{kind}_tokens"].sum() == getattr(totals, f"{kind}_tokens")
    # Not kind by kind: a row that computes again and then goes on is one row of the kind it begins with.
    assert scheduled["tokens"].sum() == steps["num_tokens"].sum()
    assert len(tokens) == requests["num_output_tokens"].sum() == totals.output_tokens
    assert steps["num_preempted"].sum() == requests["num_preemptions"].sum() == totals.preemptions
    assert (events["kind"] == "preempted").sum() == totals.preemptions
    assert (requests["outcome"] == "finished").sum() == totals.finished
    assert (requests["outcome"] == "rejected").sum() == totals.rejected == (events["kind"] == "rejected").sum()
    assert steps["idle_slots"].sum() == totals.idle_slot_steps
    assert [json.loads(numbers) for numbers in events["numbers"]] == [dict(event.numbers) for event in run.events]


def test_csv_says_what_parquet_says_to_the_last_bit(run) -> None:
    for name, table in tables(run).items():
        theirs, ours = from_csv(csv_bytes(table)), parquet(run, name)
        assert list(theirs.columns) == list(ours.columns)
        assert len(theirs) == len(ours)
        for column in ours.columns:
            read = list(theirs[column])
            if ours[column].dtype.kind == "f":
                read = [float(one) if one != "" else None for one in read]
                expected = [None if math.isnan(one) else one for one in ours[column]]
            else:
                expected = list(ours[column])
            assert read == expected, f"{name}.{column}"


def test_columns_have_the_same_types_whatever_the_run_holds() -> None:
    schemas = [{name: table.schema for name, table in tables(make()).items()} for make in RUNS.values()]
    assert schemas[0] == schemas[1] == schemas[2]
