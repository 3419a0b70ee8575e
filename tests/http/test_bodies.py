"""What a body may hold, field by field: what is taken, what changes nothing, and what is refused in which words."""

from __future__ import annotations

import msgspec
import pytest

from model_runner.http import schemas
from model_runner.http.errors import ApiError
from model_runner.messages import Turn
from scheduler import SamplingParams

GOOD = {"prompt": "x"}
CHAT = {"messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"no json", None),
        (b"[1]", None),
        (b'"text"', None),
        (b"[" * 100_000, None),
        (b'{"a":' * 100_000, None),
        (b'{"prompt": "\xff"}', None),
        (b'{"prompt": "\\ud800"}', None),
        (b"{}", "prompt"),
        (b'{"prompt": null}', "prompt"),
        (b'{"prompt": {"a": 1}}', "prompt"),
        (b'{"prompt": [1.5]}', "prompt[0]"),
        (b'{"prompt": [true]}', "prompt[0]"),
        (b'{"prompt": ["a", 1]}', "prompt"),
        (b'{"prompt": [[1], 2]}', "prompt"),
        (b'{"prompt": [["a"]]}', "prompt[0][0]"),
        (b'{"prompt": [' + b'"a",' * 64 + b'"a"]}', "prompt"),
        (b'{"prompt": "x", "max_tokens": "9"}', "max_tokens"),
        (b'{"prompt": "x", "max_tokens": 1.5}', "max_tokens"),
        (b'{"prompt": "x", "max_tokens": 99999999999999999999}', "max_tokens"),
        (b'{"prompt": "x", "temperature": 1e999}', None),
        (b'{"prompt": "x", "temperature": NaN}', None),
    ],
)
def test_a_body_that_cannot_be_read_names_its_field(body, param):
    with pytest.raises(ApiError) as caught:
        schemas.completion(body)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"n": True}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": 0}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": True}, "echo"),
        ({"suffix": "end"}, "suffix"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": -0.5}, "frequency_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 2**63}, "seed"),
        ({"priority": 2**32}, "priority"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x" * 257]}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop_token_ids": [1] * 257}, "stop_token_ids"),
        ({"stop_token_ids": ["1"]}, "stop_token_ids[0]"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"what": True}}, "what"),
        ({"temprature": 0.5}, "temprature"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_named(more, param):
    with pytest.raises(ApiError) as caught:
        schemas.completion(msgspec.json.encode(GOOD | more))
    assert (caught.value.status, caught.value.param) == (400, param)
    assert param in caught.value.message


@pytest.mark.parametrize(
    "neutral",
    [
        {"n": 1, "best_of": 1, "logprobs": None, "echo": False, "suffix": None, "logit_bias": {}},
        {"presence_penalty": 0.0, "frequency_penalty": 0, "user": "me", "metadata": {"a": "b"}},
        {"stop": None, "seed": None, "stream_options": None, "temperature": None, "top_k": -1},
        {"response_format": {"type": "text"}, "tools": [], "tool_choice": "none"},
    ],
)
def test_fields_that_ask_for_nothing_change_nothing(neutral):
    assert schemas.completion(msgspec.json.encode(GOOD | neutral)) == schemas.completion(b'{"prompt": "x"}')


def test_defaults_are_those_of_openai():
    assert schemas.completion(b'{"prompt": "x"}').sampling == SamplingParams(max_tokens=16, temperature=1.0)
    assert schemas.chat(msgspec.json.encode(CHAT)).sampling == SamplingParams(max_tokens=None, temperature=1.0)


@pytest.mark.parametrize(
    ("prompt", "each"),
    [
        ("a", ["a"]),
        (["a"], ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [(1, 2)]),
        ([[1, 2]], [(1, 2)]),
        ([[1], [2, 3]], [(1,), (2, 3)]),
        ([], [()]),
    ],
)
def test_a_prompt_comes_in_four_kinds(prompt, each):
    wanted = schemas.completion(msgspec.json.encode({"prompt": prompt, "seed": 1}))
    assert [one.prompt for one in wanted.each] == each
    assert {one.sampling.seed for one in wanted.each} == {1}


def test_every_field_arrives_where_it_belongs():
    wanted = schemas.completion(
        b'{"model": "m", "prompt": [1, 2], "max_tokens": 9, "min_tokens": 2, "temperature": 0, "top_p": 0.5,'
        b'"top_k": 3,'
        b'"repetition_penalty": 1.5, "seed": -4, "stop": ["a", "b"], "stop_token_ids": [7], "ignore_eos": true,'
        b'"include_stop_str_in_output": true, "priority": -2, "stream": true, "stream_options":'
        b'{"include_usage": true, "continuous_usage_stats": true}}'
    )
    sampling = SamplingParams(9, 2, 0.0, 3, 0.5, 1.5, -4, (7,), True)
    assert wanted == schemas.Wanted("m", (1, 2), sampling, -2, ("a", "b"), True, True, True, True)


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hello", "messages"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": "x"}, {"content": "y"}], "messages[1]"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content[0]"),
        ([{"role": "assistant", "content": None, "tool_calls": [{}]}], "messages[0]"),
        ([{"role": "user", "content": "x"}] * 1001, "messages"),
    ],
)
def test_a_message_that_cannot_be_understood_is_named(messages, param):
    with pytest.raises(ApiError) as caught:
        schemas.chat(msgspec.json.encode({"messages": messages}))
    assert (caught.value.status, caught.value.param) == (400, param)


def test_messages_become_turns_in_their_order():
    messages = [
        {"role": "developer", "content": "rules"},
        {"role": "system", "content": "more rules", "name": "boss"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "tool_calls": None, "annotations": []},
    ]
    turns = schemas.chat(msgspec.json.encode({"messages": messages})).prompt
    assert turns == (Turn("system", "rules"), Turn("system", "more rules"), Turn("user", "ab"), Turn("assistant", "c"))
