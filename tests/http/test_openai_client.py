"""The real ``openai`` package against a real server over the toy model."""

from __future__ import annotations

import asyncio

import openai
import pytest

from model_runner.tokenizer import ByteTokenizer
from scheduler import Request, SamplingParams
from tests.model_runner.driving import alone, toy_runner

PROMPTS = [f"prompt number {index}: " + "ab" * index for index in range(12)]


@pytest.fixture(scope="module")
def client(toy) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{toy.url}/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def lone_texts() -> list[str]:
    """What the model writes after each prompt, alone and greedily, without any server."""
    tokenizer = ByteTokenizer()
    requests = [
        Request(f"r{index}", tokenizer.encode(prompt), SamplingParams(max_tokens=20, ignore_eos=True))
        for index, prompt in enumerate(PROMPTS)
    ]
    return [tokenizer.decode(tokens) for tokens in alone(toy_runner(), requests).values()]


def test_models_are_listed_and_found_by_name(client):
    (model,) = client.models.list().data
    assert (model.id, model.object, model.owned_by, model.max_model_len) == ("toy", "model", "batchscope", 2048)
    assert client.models.retrieve("toy").id == "toy"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_a_completion_is_the_lone_text_with_its_tokens_counted(client, lone_texts):
    for prompt, text in zip(PROMPTS[:3], lone_texts, strict=False):
        answer = client.completions.create(
            model="toy", prompt=prompt, max_tokens=20, temperature=0, extra_body={"ignore_eos": True}
        )
        assert answer.choices[0].text == text
        assert answer.choices[0].finish_reason == "length"
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(prompt), 20)


def test_streams_side_by_side_bring_each_client_its_lone_text(toy, lone_texts):
    async def one(client: openai.AsyncOpenAI, prompt: str) -> tuple[str, int]:
        stream = await client.completions.create(
            model="toy", prompt=prompt, max_tokens=20, temperature=0, stream=True,
            stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
        )  # fmt: skip
        chunks = [chunk async for chunk in stream]
        assert [chunk.usage is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
        return "".join(choice.text for chunk in chunks for choice in chunk.choices), chunks[-1].usage.completion_tokens

    async def all_of_them() -> list[tuple[str, int]]:
        async with openai.AsyncOpenAI(base_url=f"{toy.url}/v1", api_key="unused", max_retries=0) as client:
            return await asyncio.gather(*(one(client, prompt) for prompt in PROMPTS))

    assert asyncio.run(all_of_them()) == [(text, 20) for text in lone_texts]


def test_a_chat_counts_every_turn_and_streams_what_it_answers_whole(client):
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}]},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    asked = {"model": "toy", "messages": messages, "max_completion_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**asked, extra_body={"ignore_eos": True})
    assert whole.choices[0].message.role == "assistant"
    # The toy's template: a token before and one after each turn, one before the answer; every byte is a token.
    assert whole.usage.prompt_tokens == sum(len(text) + 2 for text in ("be brief", "one two", "three", "four")) + 1
    chunks = list(client.chat.completions.create(**asked, stream=True, extra_body={"ignore_eos": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(parts) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_seed_alone_decides_what_is_sampled(client):
    def sample(seed: int, **more) -> str:
        answer = client.completions.create(model="toy", prompt="dice", max_tokens=16, seed=seed, **more)
        return answer.choices[0].text

    assert sample(7) == sample(7)
    assert len({sample(seed) for seed in range(5)}) == 5
    assert sample(7, extra_body={"top_k": 1}) == sample(8, top_p=1e-9) == sample(9, temperature=0)


def test_a_token_id_prompt_is_taken_as_it_is(client):
    by_text = client.completions.create(model="toy", prompt="abc", max_tokens=8, temperature=0)
    by_ids = client.completions.create(model="toy", prompt=[97, 98, 99], max_tokens=8, temperature=0)
    assert by_ids.choices[0].text == by_text.choices[0].text


def test_an_api_request_is_seen_on_the_page_with_its_priority(toy, client):
    client.chat.completions.create(
        model="toy", messages=[{"role": "user", "content": "hello"}], max_tokens=2, extra_body={"priority": 3}
    )
    seen = toy.client.requests()[-1]
    assert (seen.origin, seen.priority, seen.prompt_text) == ("api", 3, "user: hello")


@pytest.mark.parametrize(
    ("wrong", "error", "param"),
    [
        ({"n": 2}, openai.BadRequestError, "n"),
        ({"logprobs": 3}, openai.BadRequestError, "logprobs"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens"),
        ({"temperature": -1}, openai.BadRequestError, "temperature"),
        ({"model": "gpt-4"}, openai.NotFoundError, "model"),
        ({"prompt": [258]}, openai.BadRequestError, "prompt"),
        ({"prompt": "x" * 3000}, openai.BadRequestError, "prompt"),
        ({"stream": True, "prompt": "x" * 3000}, openai.BadRequestError, "prompt"),
    ],
)
def test_refusals_reach_the_package_as_its_own_errors(client, wrong, error, param):
    with pytest.raises(error) as caught:
        client.completions.create(**{"model": "toy", "prompt": "hello"} | wrong)
    assert caught.value.param == param


def test_a_prompt_too_long_is_called_so(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "x" * 2048}])
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    assert "max_model_len 2048" in caught.value.message
