"""Goal R10: every bad input is answered with a reason that names field, value and limit; never an exception."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scheduler import Request, SamplingParams
from tests.scheduler.helpers import bench, request

BIG = 10**400


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr for you")


def sampled(**values: Any) -> Request:
    return Request("bad", (1, 2), SamplingParams(**values))


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no request": (None, ("request is None", "Request")),
    "a dict": ({"request_id": "x"}, ("request is", "Request")),
    "id of a wrong type": (Request(5, (1,)), ("request_id is 5",)),
    "id that cannot be hashed": (Request(["x"], (1,)), ("request_id is ['x']",)),
    "empty id": (Request("", (1,)), ("request_id is ''", "256")),
    "long id": (Request("x" * 300, (1,)), ("request_id", "256")),
    "empty prompt": (Request("bad", ()), ("prompt_token_ids is empty", "at least 1")),
    "prompt of None": (Request("bad", None), ("prompt_token_ids is None", "tuple")),
    "prompt as text": (Request("bad", "hello"), ("prompt_token_ids is 'hello'", "tuple")),
    "prompt as number": (Request("bad", 7), ("prompt_token_ids is 7", "tuple")),
    "negative token": (Request("bad", (1, -4)), ("prompt_token_ids[1] is -4", "from 0 to 99")),
    "token above the vocabulary": (Request("bad", (1, 100)), ("prompt_token_ids[1] is 100", "99")),
    "token as text": (Request("bad", ("a",)), ("prompt_token_ids[0] is 'a'", "whole number")),
    "token as float": (Request("bad", (1.0,)), ("prompt_token_ids[0] is 1.0", "whole number")),
    "token as bool": (Request("bad", (True,)), ("prompt_token_ids[0] is True", "whole number")),
    "hostile token": (Request("bad", (Hostile(),)), ("prompt_token_ids[0]", "Hostile")),
    "over-long prompt": (Request("bad", (1,) * 64), ("prompt_token_ids has 64", "63", "max_model_len 64")),
    "over the pool": (Request("bad", (1,) * 30, SamplingParams(max_tokens=20)), ("max_tokens is 20", "13", "has 10")),
    "prior tokens of a wrong type": (Request("bad", (1,), prior_output_token_ids=None), ("prior_output_token_ids",)),
    "prior token negative": (Request("bad", (1,), prior_output_token_ids=(-1,)), ("prior_output_token_ids[0] is -1",)),
    "nothing left to make": (
        Request("bad", (1,), SamplingParams(max_tokens=2), prior_output_token_ids=(1, 2)),
        ("prior_output_token_ids has 2", "max_tokens (2)"),
    ),
    "priority of None": (Request("bad", (1,), priority=None), ("priority is None",)),
    "priority as float": (Request("bad", (1,), priority=0.5), ("priority is 0.5",)),
    "endless priority": (Request("bad", (1,), priority=BIG), ("priority is 1000", "2147483648")),
    "arrival NaN": (Request("bad", (1,), arrival_time=math.nan), ("arrival_time is nan",)),
    "arrival as text": (Request("bad", (1,), arrival_time="now"), ("arrival_time is 'now'",)),
    "arrival endless": (Request("bad", (1,), arrival_time=BIG), ("arrival_time is 1000",)),
    "no sampling": (Request("bad", (1,), None), ("sampling is None",)),
    "max_tokens 0": (sampled(max_tokens=0), ("max_tokens is 0", ">= 1")),
    "max_tokens negative": (sampled(max_tokens=-3), ("max_tokens is -3", ">= 1")),
    "max_tokens as float": (sampled(max_tokens=2.5), ("max_tokens is 2.5",)),
    "max_tokens as text": (sampled(max_tokens="8"), ("max_tokens is '8'",)),
    "max_tokens as bool": (sampled(max_tokens=True), ("max_tokens is True",)),
    "min_tokens negative": (sampled(min_tokens=-1), ("min_tokens is -1",)),
    "min_tokens above max_tokens": (sampled(max_tokens=2, min_tokens=3), ("min_tokens is 3", "max_tokens (2)")),
    "temperature NaN": (sampled(temperature=math.nan), ("temperature is nan",)),
    "temperature infinite": (sampled(temperature=math.inf), ("temperature is inf",)),
    "temperature negative": (sampled(temperature=-0.1), ("temperature is -0.1",)),
    "temperature as text": (sampled(temperature="hot"), ("temperature is 'hot'",)),
    "top_k negative": (sampled(top_k=-1), ("top_k is -1",)),
    "top_p zero": (sampled(top_p=0), ("top_p is 0",)),
    "top_p above one": (sampled(top_p=1.1), ("top_p is 1.1",)),
    "top_p NaN": (sampled(top_p=math.nan), ("top_p is nan",)),
    "penalty zero": (sampled(repetition_penalty=0), ("repetition_penalty is 0",)),
    "penalty infinite": (sampled(repetition_penalty=math.inf), ("repetition_penalty is inf",)),
    "seed as text": (sampled(seed="x"), ("seed is 'x'",)),
    "ignore_eos as number": (sampled(ignore_eos=1), ("ignore_eos is 1",)),
    "stop tokens of None": (sampled(stop_token_ids=None), ("stop_token_ids is None",)),
    "stop token negative": (sampled(stop_token_ids=(-1,)), ("stop_token_ids[0] is -1",)),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_request_is_answered_with_field_value_and_limit_and_harms_nobody(case: str) -> None:
    bad, words = BAD[case]
    made = bench([request("good", 3, 3)], num_blocks=10, max_model_len=64, vocab_size=100)
    outcome = made.scheduler.add(bad)
    assert not outcome.accepted
    for word in words:
        assert word in outcome.reason
    assert len(outcome.reason) < 400
    _, snapshot = made.step()
    rejected = [event for event in snapshot.events if event.kind == "rejected"]
    assert [event.reason for event in rejected] == [outcome.reason]
    assert [record.outcome for record in snapshot.records] == ["rejected"]
    made.drain()
    assert made.ends() == {"good": 2}
    assert (made.scheduler.totals.submitted, made.scheduler.totals.rejected) == (2, 1)


def test_a_list_of_tokens_is_taken_as_a_tuple() -> None:
    made = bench(num_blocks=10)
    assert made.scheduler.add(Request("A", [1, 2], SamplingParams(max_tokens=1, stop_token_ids=[3]))).accepted
