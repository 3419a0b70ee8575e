"""Any body gets an answer of the API's own: never an error of the server, never silence, and the engine serves on."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model_runner.http import schemas
from tests.http.serving import post, wait_until

STATUSES = {200, 400, 404, 413}
PATHS = ("/v1/completions", "/v1/chat/completions")
FUZZ = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

odd_texts = st.sampled_from(
    [
        "",
        "\0",
        "a\0b",
        "\ud800",
        "x\udfff",
        "\U0001f680",
        "\ufeff",
        "\u202e",
        "<|im_end|>",
        "{{ 7 * 7 }}",
        "e\u0301" * 50,
    ]
)
texts = st.one_of(odd_texts, st.text(max_size=20))
numbers = st.one_of(
    st.sampled_from([0, -1, 1, 2, 3, -0.0, 0.5, 1e-320, 1e308, 2**31, 2**63, 2**64, -(2**70), 10**40]),
    st.floats(),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
names = sorted({*schemas._Completion.__struct_fields__, *schemas._Chat.__struct_fields__, *schemas.NEUTRAL})
fields = st.sampled_from(names) | texts
prompts = st.one_of(texts, st.lists(st.integers(-5, 300), max_size=6), st.lists(texts, max_size=3), values)
parts = st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url", ""])}, optional={"text": leaves})
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "\0"])},
    optional={"content": st.one_of(texts, st.lists(parts, max_size=3), values), "name": leaves, "tool_calls": values},
)
sound = {
    "temperature": st.floats(0, 2), "top_p": st.floats(0.01, 1), "top_k": st.integers(-1, 300), "seed": st.integers(),
    "stop": texts | st.lists(texts, max_size=3), "min_tokens": st.integers(0, 3), "priority": st.integers(-9, 9),
    "stream": st.booleans(), "stream_options": st.fixed_dictionaries({"include_usage": st.booleans()}),
    "repetition_penalty": st.floats(0.1, 3), "stop_token_ids": st.lists(st.integers(-3, 300), max_size=3),
}  # fmt: skip
"""Fields as they should be, or nearly: so that a good share of the bodies reaches the engine."""


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    path = draw(st.sampled_from(PATHS))
    body: dict = draw(st.fixed_dictionaries({}, optional=sound))
    if path.endswith("chat/completions"):
        body["messages"] = draw(st.lists(messages, max_size=3) | values)
    else:
        body["prompt"] = draw(prompts)
    if draw(st.booleans()):
        body[draw(fields)] = draw(values)
    # Given in every body, so that none that is sound runs to the model's end.
    body["max_tokens"] = draw(st.sampled_from([1, 2, 3, 3, 3, 0, -1, 2**64, 1.5, "3"]))
    body["max_completion_tokens"] = body["max_tokens"]
    if path == PATHS[0]:
        del body["max_completion_tokens"]
    return path, json.dumps(body).encode()


def check(answer: httpx.Response) -> None:
    assert answer.status_code in STATUSES, answer.text
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"]
        assert len(answer.content) < 2000
    elif answer.headers["content-type"].startswith("text/event-stream"):
        lines = [line for line in answer.text.split("\n\n") if line]
        assert lines[-1] == "data: [DONE]"
        for line in lines[:-1]:
            chunk = json.loads(line.removeprefix("data: "))
            assert "error" not in chunk or chunk["error"]["message"]
    else:
        assert answer.json()["choices"][0]["finish_reason"] in ("stop", "length")


CLIENT = httpx.Client(timeout=30)


def send(toy, path: str, body: bytes) -> httpx.Response:
    return CLIENT.post(toy.url + path, content=body, headers={"content-type": "application/json"})


@pytest.fixture(scope="module")
def served(toy):
    """Whatever was sent, the same worker still answers afterwards, and nothing is left running."""
    run_id = toy.client.latest.run_id
    yield toy
    wait_until(lambda: toy.client.num_unfinished == 0, what="nothing is left")
    assert (
        post(toy.url, {"prompt": "abc", "max_tokens": 3, "ignore_eos": True}).json()["usage"]["completion_tokens"] == 3
    )
    assert toy.client.latest.run_id == run_id


@FUZZ
@given(request=bodies())
def test_a_body_of_known_fields_is_answered_or_refused(served, request):
    check(send(served, *request))


@FUZZ
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_bytes_that_are_no_request_are_refused(served, path, body):
    answer = send(served, path, body)
    check(answer)
    assert answer.status_code == 400


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt": "x", "messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"a": ' * 200_000 + b"1" + b"}" * 200_000,
        b'{"prompt": ' + b"9" * 400_000 + b"}",
        b'{"prompt": "x", "seed": ' + b"1" * 5_000 + b"}",
        b'{"prompt": "x", "temperature": 1e99999}',
        b'{"prompt": "\\ud83d", "messages": [{"role": "user", "content": "\\udc00"}]}',
        b'{"prompt": "' + b"\\u0000" * 150_000 + b'", "messages": []}',
        b"\xef\xbb\xbf{}",
        b'{"prompt": "x", "prompt": 7, "messages": 7}',
        b" " * 5_000_000,
    ],
    ids=range(10),
)
def test_what_is_deep_huge_or_broken_is_refused_at_once(served, path, body):
    answer = send(served, path, body)
    check(answer)
    assert answer.status_code in (400, 413)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\0" * 600_000, "각" * 330_000, "\U0001f680" * 250_000])
def test_a_prompt_of_a_megabyte_is_called_too_long(served, text):
    for path, body in (
        (PATHS[0], {"prompt": text}),
        (PATHS[1], {"messages": [{"role": "user", "content": text}]}),
        (PATHS[0], {"prompt": [ord(text[0]) % 256] * len(text)}),
    ):
        answer = post(served.url, body, path)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "context_length_exceeded"), error
        assert error["param"] in body


def test_a_text_with_a_nul_in_it_is_a_text(served):
    answer = post(served.url, {"prompt": "a\0b", "max_tokens": 2, "stop": "\0", "ignore_eos": True})
    assert answer.json()["usage"]["prompt_tokens"] == 3
