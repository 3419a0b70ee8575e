"""What goes wrong, as the real ``openai`` package tells it: its error classes, its retries, its hanging up."""

from __future__ import annotations

import asyncio
import threading

import httpx
import openai
import pytest

from model_runner.http.settings import ApiSettings
from model_runner.views import SubmitOutcome
from model_runner.watch import News
from tests.http.serving import ScriptedClient, serving, wait_until, writing

DONE = News("text", 1, 1, "finished", "length")


def client_of(url: str, **more) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", **{"api_key": "unused", "max_retries": 0} | more)


def complete(client: openai.OpenAI, **more):
    return client.completions.create(**{"model": "toy", "prompt": "x"} | more)


@pytest.fixture(scope="module")
def slow():
    with writing([b"ab", b"c "], step_s=0.01) as client, serving(client) as url:
        yield url, client


def test_a_wrong_key_is_an_authentication_error_and_the_right_one_is_let_in():
    with serving(ScriptedClient(DONE), ApiSettings(api_key="sesam")) as url:
        with pytest.raises(openai.AuthenticationError) as caught:
            complete(client_of(url))
        assert (caught.value.status_code, caught.value.code, caught.value.type) == (
            401, "invalid_api_key", "authentication_error",
        )  # fmt: skip
        assert complete(client_of(url, api_key="sesam")).choices[0].text == "text"


def test_a_full_queue_is_a_rate_limit_error_that_says_when_to_come_again():
    full = serving(ScriptedClient(DONE, unfinished=3), ApiSettings(max_queued=3))
    with full as url, pytest.raises(openai.RateLimitError) as caught:
        complete(client_of(url))
    assert (caught.value.code, caught.value.response.headers["retry-after"]) == ("queue_full", "1")


def test_a_client_that_retries_gets_its_answer_when_there_is_room_again():
    client = ScriptedClient(DONE, unfinished=3)
    with serving(client, ApiSettings(max_queued=3)) as url:
        threading.Timer(0.2, lambda: setattr(client, "num_unfinished", 0)).start()
        assert complete(client_of(url, max_retries=3)).choices[0].text == "text"
    assert len(client.submitted) == 1


@pytest.mark.parametrize(
    ("outcome", "error"),
    [("unavailable", openai.InternalServerError), ("full", openai.RateLimitError), ("invalid", openai.BadRequestError)],
)
def test_a_refusal_is_the_error_class_of_its_kind(outcome, error):
    with serving(ScriptedClient(outcome=SubmitOutcome(False, reasons=("why",), refusal=outcome))) as url:
        for stream in (False, True):
            with pytest.raises(error, match="why"):
                complete(client_of(url), stream=stream)


def test_a_body_too_large_has_its_status():
    strict = serving(ScriptedClient(DONE), ApiSettings(max_body_bytes=1000))
    with strict as url, pytest.raises(openai.APIStatusError) as caught:
        complete(client_of(url), prompt="x" * 2000)
    assert caught.value.status_code == 413


def test_an_engine_that_fails_in_the_middle_of_a_stream_is_an_error_with_its_code(monkeypatch):
    monkeypatch.setattr("model_runner.http.generation.CHECK_S", 0.02)
    with serving(ScriptedClient(News("half", 1, 1), phase="failed")) as url:
        stream = complete(client_of(url), stream=True)
        assert next(iter(stream)).choices[0].text == "half"
        with pytest.raises(openai.APIError) as caught:
            next(iter(stream))
    assert caught.value.code == "engine_failed"


def test_a_client_whose_time_is_up_ends_its_request(slow):
    url, client = slow
    with pytest.raises(openai.APITimeoutError):
        complete(client_of(url, timeout=httpx.Timeout(5, read=0.3)), max_tokens=400)
    wait_until(lambda: client.num_unfinished == 0, what="it has ended")
    assert client.requests()[-1].outcome == "aborted"


def test_a_stream_that_is_left_ends_its_request(slow):
    url, client = slow
    with complete(client_of(url), stream=True, max_tokens=400) as stream:
        assert next(iter(stream)).choices[0].text
    wait_until(lambda: client.num_unfinished == 0, what="it has ended")
    assert client.requests()[-1].outcome == "aborted"


def test_tasks_that_are_cancelled_end_their_requests_and_no_others(slow):
    url, client = slow

    async def some() -> int:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as asked:
            wanted = {"model": "toy", "prompt": "x"}
            doomed = [asyncio.create_task(asked.completions.create(**wanted, max_tokens=400)) for _ in range(4)]
            kept = asyncio.create_task(asked.completions.create(**wanted, max_tokens=60))
            while client.num_unfinished < 5:
                await asyncio.sleep(0.01)
            for task in doomed:
                task.cancel()
            return (await kept).usage.completion_tokens

    assert asyncio.run(some()) == 60
    wait_until(lambda: client.num_unfinished == 0, what="they have ended")
    assert sorted(request.outcome for request in client.requests()[-5:]) == ["aborted"] * 4 + ["finished"]


def test_the_packages_own_gathering_of_a_chat_stream_is_the_whole_answer(slow):
    url, _ = slow
    asked = {"model": "toy", "messages": [{"role": "user", "content": "x"}], "stop": ["c abc "]}
    with client_of(url).chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        kinds = {event.type for event in stream}
        whole = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert whole.choices[0].message.content == "ab"
    assert (whole.choices[0].finish_reason, whole.usage.completion_tokens) == ("stop", 4)


def test_the_id_of_an_answer_is_in_its_header_too(slow):
    url, _ = slow
    answer = complete(client_of(url), max_tokens=1)
    assert answer._request_id == answer.id
