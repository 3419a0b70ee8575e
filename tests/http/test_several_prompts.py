"""Several prompts in one request: a choice each, in their order, and all of them or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest

from model_runner.http.merging import merged
from model_runner.http.settings import ApiSettings
from model_runner.views import SubmitOutcome
from model_runner.watch import News
from tests.http.serving import ScriptedClient, post, send_only, serving, wait_until, writing

TEXTS = ["one", "number two", "3"]
ASKED = {"model": "toy", "max_tokens": 12, "temperature": 0, "extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def client(toy) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{toy.url}/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def alone(client) -> list[str]:
    return [client.completions.create(prompt=text, **ASKED).choices[0].text for text in TEXTS]


@pytest.mark.parametrize("kind", ["texts", "token ids"])
def test_each_prompt_has_the_choice_it_has_alone(client, alone, kind):
    prompts = TEXTS if kind == "texts" else [list(text.encode()) for text in TEXTS]
    answer = client.completions.create(prompt=prompts, **ASKED)
    assert [choice.text for choice in answer.choices] == alone
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len("".join(TEXTS)), 36)


def test_a_stream_brings_the_parts_of_all_side_by_side(client, alone):
    options = {"include_usage": True}
    *chunks, last = client.completions.create(prompt=TEXTS, stream=True, stream_options=options, **ASKED)
    parts: dict[int, list[str]] = {0: [], 1: [], 2: []}
    ends = []
    for chunk in chunks:
        (choice,) = chunk.choices
        parts[choice.index].append(choice.text)
        ends += [choice.index] if choice.finish_reason else []
    assert ["".join(texts) for texts in parts.values()] == alone
    assert sorted(ends) == [0, 1, 2]
    assert len({chunk.id for chunk in chunks}) == 1
    first_ends = [chunk.choices[0].index for chunk in chunks].index(1)
    assert first_ends < len(parts[0]), "the second begins before the first has ended"
    assert (last.choices, last.usage.completion_tokens) == ([], 36)


@pytest.mark.parametrize("is_stream", [True, False])
def test_one_that_is_refused_ends_all(client, toy, is_stream):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(
            model="toy", prompt=["a", "x" * 3000, "b"], max_tokens=1000, stream=is_stream,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
    assert caught.value.code == "context_length_exceeded"
    wait_until(lambda: toy.client.num_unfinished == 0, 5, "none is left")
    assert [request.outcome for request in toy.client.requests()[-3:]] == ["aborted", "rejected", "aborted"]


@pytest.mark.parametrize("is_stream", [True, False])
def test_hanging_up_ends_all(is_stream):
    with writing([b"a"], step_s=0.005) as client, serving(client) as url:
        with send_only(url, {"prompt": ["x", "y", "z"], "max_tokens": 400, "stream": is_stream}):
            wait_until(lambda: client.num_unfinished == 3 and client.requests()[-1].tokens, what="they run")
        wait_until(lambda: client.num_unfinished == 0, what="they have ended")
        assert {request.outcome for request in client.requests()} == {"aborted"}


def test_a_queue_without_room_for_all_takes_none():
    client = ScriptedClient(News("t", 1, 1, "finished", "length"), unfinished=2)
    with serving(client, ApiSettings(max_queued=4)) as url:
        assert post(url, {"prompt": ["a", "b", "c"]}).status_code == 429
        assert post(url, {"prompt": ["a"] * 5}).status_code == 400
        assert client.submitted == []
        assert len(post(url, {"prompt": ["a", "b"]}).json()["choices"]) == 2


def test_a_refusal_in_the_middle_lets_go_of_those_before_it():
    class Filling(ScriptedClient):
        def submit(self, *args, **more):
            outcome = super().submit(*args, **more)
            return outcome if len(self.submitted) < 3 else SubmitOutcome(False, reasons=("full",), refusal="full")

    client = Filling()
    with serving(client) as url:
        assert post(url, {"prompt": ["a", "b", "c"]}).status_code == 429
    assert sorted(client.abandoned) == [("r1", False), ("r2", False)]


def test_merging_brings_all_items_and_an_error_of_one_ends_all():
    closed = []

    async def source(number: int, items: int, error: bool = False) -> AsyncIterator[int]:
        try:
            for item in range(items):
                await asyncio.sleep(0)
                yield item
            if error:
                raise ValueError(number)
            if items == 5:
                await asyncio.sleep(3600)
        finally:
            closed.append(number)

    async def take(*sources: AsyncIterator[int]) -> list[tuple[int, int]]:
        return [item async for item in merged(sources)]

    items = asyncio.run(take(source(0, 3), source(1, 0), source(2, 2)))
    assert sorted(items) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
    closed.clear()
    with pytest.raises(ValueError, match="1"):
        asyncio.run(take(source(0, 5), source(1, 2, error=True)))
    assert sorted(closed) == [0, 1]
