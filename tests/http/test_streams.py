"""Streams over the real engine loop and a worker that writes what it is told, token by token."""

from __future__ import annotations

import json
import os
import re
import signal

import httpx
import psutil
import pytest

from model_runner.http.app import HttpApi
from model_runner.http.settings import ApiSettings
from scheduler import SchedulerPolicy
from tests.http.serving import post, send_only, serving, wait_until, writing

EMOJI = "🚀".encode()
THREE_TOKENS = (b"go ", EMOJI[:1], EMOJI[1:3], EMOJI[3:] + b"!")
"""Four tokens; the character lies over the last three."""


@pytest.fixture(scope="module")
def emoji():
    with writing(THREE_TOKENS) as client, serving(client) as url:
        yield url


@pytest.fixture(scope="module")
def words():
    with writing([b"ab", b"c EN", b"D mo", b"re. "], step_s=0.002) as client, serving(client) as url:
        yield url, client


def stream(url: str, **body) -> list[dict]:
    """The objects of a stream, which must end with [DONE]."""
    asked = {"prompt": "x", "stream": True, "stream_options": {"include_usage": True}} | body
    with httpx.stream("POST", f"{url}/v1/completions", json=asked, timeout=60) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line[6:]) for line in lines[:-1]]


def texts(chunks: list[dict]) -> list[str]:
    return [choice["text"] for chunk in chunks for choice in chunk["choices"]]


def test_f64_an_emoji_over_three_tokens_comes_out_whole(emoji):
    chunks = stream(emoji, max_tokens=8)
    assert "".join(texts(chunks)) == "go 🚀!go 🚀!"
    assert all("\ufffd" not in text for text in texts(chunks))


def test_a_token_without_text_makes_a_piece_of_its_own(emoji):
    """Clients take the times of the pieces for those of the tokens, and the first for the time to the first token."""
    chunks = stream(emoji, max_tokens=4, stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks[:-1]]
    for text, count in zip(texts(chunks), counts, strict=True):
        assert text or count in (2, 3), "a part of a character"
    assert counts == sorted(set(counts))
    assert counts[-1] == 4


def test_f64_an_answer_cut_inside_a_character_shows_so_at_its_end_only(emoji):
    parts = texts(stream(emoji, max_tokens=7))
    assert "".join(parts) == "go 🚀!go \ufffd"
    assert all("\ufffd" not in text for text in parts[:-1])


def test_a_stop_string_over_the_border_of_tokens_ends_the_answer(words):
    url, _ = words
    chunks = stream(url, max_tokens=100, stop="END")
    assert "".join(texts(chunks)) == "abc "
    last = chunks[-2]["choices"][0]
    assert (last["finish_reason"], last["stop_reason"]) == ("stop", "END")
    # "END" is complete with the third token.
    assert chunks[-1]["usage"] == {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}


def test_no_part_of_a_stop_string_is_ever_sent(words):
    url, _ = words
    parts = texts(stream(url, max_tokens=100, stop=["END more. abc END", "never"]))
    shown = ["".join(parts[: count + 1]) for count in range(len(parts))]
    assert set(shown) <= {"ab", "abc "}


@pytest.mark.parametrize(
    ("more", "text", "tokens"),
    [
        ({"stop": ["re", "END"]}, "abc ", 3),
        ({"stop": "END", "include_stop_str_in_output": True}, "abc END", 3),
        ({"stop": "END", "min_tokens": 3}, "abc END more. abc ", 7),
        ({"stop": "nowhere", "max_tokens": 4}, "abc END more. ", 4),
        ({"stop": "re. x", "max_tokens": 4}, "abc END more. ", 4),
    ],
)
def test_the_whole_answer_ends_where_the_stream_does(words, more, text, tokens):
    url, _ = words
    asked = {"max_tokens": 100} | more
    whole = post(url, {"prompt": "x"} | asked).json()
    assert whole["choices"][0]["text"] == text == "".join(texts(stream(url, **asked)))
    assert whole["usage"]["completion_tokens"] == tokens


def test_a_request_ended_by_a_stop_string_ends_in_the_engine_too_and_counts_as_finished(words):
    def finished_by(reason: str) -> float:
        page = httpx.get(f"{url}/metrics").text
        return float(re.search(rf'request_success_total{{.*finished_reason="{reason}".*}} (\S+)', page)[1])

    url, client = words
    wait_until(lambda: client.num_unfinished == 0)
    stopped, aborted = finished_by("stop"), finished_by("abort")
    post(url, {"prompt": "x", "max_tokens": 500, "stop": "END"})
    wait_until(lambda: finished_by("stop") == stopped + 1, what="it is counted")
    seen = client.requests()[-1]
    assert (seen.outcome, seen.reason) == ("finished", "stop")
    assert len(seen.tokens) < 500
    assert finished_by("abort") == aborted


def test_continuous_usage_counts_with_every_chunk(words):
    url, _ = words
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream(url, max_tokens=4, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == 4


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_client_that_hangs_up_ends_its_request(words, is_stream):
    url, client = words
    with send_only(url, {"prompt": "x", "max_tokens": 500, "stream": is_stream}):
        wait_until(lambda: client.num_unfinished == 1 and client.requests()[-1].tokens, what="it runs")
    wait_until(lambda: client.num_unfinished == 0, what="the request has ended")
    seen = client.requests()[-1]
    assert seen.outcome == "aborted"
    assert len(seen.tokens) < 500


def test_a_client_that_hangs_up_while_it_waits_is_taken_off_the_queue():
    one_by_one = SchedulerPolicy(max_num_seqs=1)
    with (
        writing([b"a"], step_s=0.01, policy=one_by_one) as client,
        serving(client) as url,
        send_only(url, {"prompt": "first", "max_tokens": 490}),
    ):
        wait_until(lambda: client.latest.step.running, what="the first runs")
        with send_only(url, {"prompt": "second", "max_tokens": 10}):
            wait_until(lambda: client.latest.step.num_waiting == 1, what="the second waits")
        wait_until(lambda: client.requests()[-1].outcome == "aborted", what="the second has gone")
        assert client.requests()[0].outcome == ""


def test_a_stream_outlives_its_worker():
    """The worker is killed in the middle: another goes on from the tokens there are, none twice and none lost."""
    others = children()
    letters = [b"a", b"b", b"c", "é".encode()[:1], "é".encode()[1:]]
    with writing(letters, step_s=0.01) as client, serving(client) as url:
        (worker,) = children() - others
        asked = {"prompt": "x", "max_tokens": 100, "stream": True}
        parts = []
        with httpx.stream("POST", f"{url}/v1/completions", json=asked, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    parts.append(json.loads(line[6:])["choices"][0]["text"])
                    if len(parts) == 10:
                        os.kill(worker, signal.SIGKILL)
        assert "".join(parts) == "abcé" * 20
        assert client.requests()[-1].num_restarts == 1


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_a_client_that_reads_nothing_holds_up_nobody_and_is_given_up():
    """Its answer outgrows all buffers between here and it."""
    api, settings = HttpApi(), ApiSettings(send_timeout_s=0.3)
    with (
        writing([b"x" * 60_000], max_model_len=400) as client,
        serving(client, settings, api) as url,
        send_only(url, {"prompt": "x", "max_tokens": 390, "stream": True}),
    ):
        wait_until(lambda: client.requests() and client.requests()[0].tokens, what="it runs")
        assert post(url, {"prompt": "y", "max_tokens": 2}).json()["usage"]["completion_tokens"] == 2
        wait_until(lambda: api.num_open == 0, what="it is given up")
