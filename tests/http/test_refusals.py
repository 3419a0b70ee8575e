"""What is refused, with which status and in which words; nothing reaches the engine before it is known to be good."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace

import httpx
import pytest

from model_runner.errors import RunnerConfigError
from model_runner.http.app import seconds_to_a_place
from model_runner.http.settings import ApiSettings, from_environment
from model_runner.views import SubmitOutcome
from model_runner.watch import News
from tests.http.serving import ScriptedClient, post, serving

DONE = News("text", 1, 1, "finished", "length")
GOOD = {"prompt": "x"}


def error_of(response: httpx.Response) -> dict:
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


def test_a_second_key_serves_as_well_and_either_alone_closes_the_api():
    for settings in (ApiSettings(api_key="sesam", other_key="presenter"), ApiSettings(other_key="presenter")):
        with serving(ScriptedClient(DONE), settings) as url:
            assert post(url, GOOD).status_code == httpx.get(f"{url}/v1/models").status_code == 401
            assert post(url, GOOD, headers={"authorization": "Bearer"}).status_code == 401
            assert httpx.get(f"{url}/v1/models", headers={"authorization": "Bearer presenter"}).status_code == 200
            first = httpx.get(f"{url}/v1/models", headers={"authorization": "Bearer sesam"})
            assert first.status_code == (200 if settings.api_key else 401)
    assert "presenter" not in repr(ApiSettings(other_key="presenter"))


def test_the_key_is_asked_for_on_v1_and_nowhere_else():
    with serving(ScriptedClient(DONE), ApiSettings(api_key="sesam")) as url:
        for headers in (
            {},
            {"authorization": "Bearer nope"},
            {"authorization": "Basic sesam"},
            {"authorization": "sesam"},
        ):
            for answer in (httpx.get(f"{url}/v1/models", headers=headers), post(url, GOOD, headers=headers)):
                assert answer.status_code == 401
                assert error_of(answer)["code"] == "invalid_api_key"
        assert post(url, GOOD, headers={"authorization": "Bearer sesam"}).status_code == 200
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.get(f"{url}/metrics").status_code == 200
    assert "sesam" not in repr(ApiSettings(api_key="sesam"))


@pytest.mark.parametrize("host", ["x", "x/health?", "x/metrics#", "x/a?b=", "[", ""])
def test_no_host_header_leads_around_the_key(host):
    with serving(ScriptedClient(DONE), ApiSettings(api_key="sesam")) as url:
        for path in ("/v1/models", "/v1/nothing"):
            answer = httpx.get(f"{url}{path}", headers={"host": host})
            assert answer.status_code in (400, 401)
        assert post(url, GOOD, headers={"host": host}).status_code in (400, 401)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_form_that_any_page_could_send_is_refused(content_type):
    client = ScriptedClient(DONE)
    with serving(client) as url:
        answer = httpx.post(f"{url}/v1/completions", content=b'{"prompt": "x"}', headers={"content-type": content_type})
    assert answer.status_code == 415
    assert client.submitted == []


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://example.com", 403), ("null", 403), ("http://[", 403), ("http://127.0.0.1.example.com", 403),
        ("http://localhost:8501", 200), ("http://127.0.0.1", 200),
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_not_served(origin, status):
    with serving(ScriptedClient(DONE)) as url:
        assert post(url, GOOD, headers={"origin": origin}).status_code == status


@pytest.mark.parametrize("is_told", [True, False])
def test_a_body_over_the_limit_is_refused_before_it_is_read(is_told):
    def chunks():
        yield from (b"x" * 1000 for _ in range(50))

    client = ScriptedClient(DONE)
    with serving(client, ApiSettings(max_body_bytes=10_000)) as url:
        content = b"x" * 50_000 if is_told else chunks()
        answer = httpx.post(f"{url}/v1/completions", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 413
        assert "10000 bytes" in error_of(answer)["message"]
    assert client.submitted == []


def test_a_body_that_does_not_come_is_given_up():
    with serving(ScriptedClient(DONE), ApiSettings(body_timeout_s=0.05)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as sock:
            head = ("POST /v1/completions HTTP/1.1", "Host: x", "Content-Type: application/json", "Content-Length: 9")
            sock.sendall("\r\n".join((*head, "", "")).encode())
            assert sock.recv(100).startswith(b"HTTP/1.1 408 ")


def test_a_full_queue_is_answered_with_429_and_when_to_come_again():
    client = ScriptedClient(DONE, unfinished=3)
    with serving(client, ApiSettings(max_queued=3)) as url:
        answer = post(url, GOOD)
        assert (answer.status_code, error_of(answer)["code"]) == (429, "queue_full")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        client.num_unfinished = 2
        assert post(url, GOOD).status_code == 200
    assert len(client.submitted) == 1


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [([], 1), ([0, 0, 0], 60), ([0, 1, 1], 2), ([5, 5, 5], 1), ([0, 0, 1], 4)],
)
def test_retry_after_is_the_pace_at_which_requests_end(ends, seconds):
    """Steps two seconds apart, in each of which so many requests ended."""
    steps = [
        SimpleNamespace(monotonic_time=100.0 + 2 * index, step=SimpleNamespace(records=[None] * count))
        for index, count in enumerate(ends)
    ]
    client = ScriptedClient()
    client.history = lambda last: tuple(steps)
    assert seconds_to_a_place(client) == seconds


@pytest.mark.parametrize(("refusal", "status"), [("full", 429), ("unavailable", 503), ("invalid", 400)])
def test_a_refusal_of_the_client_has_the_status_of_its_kind(refusal, status):
    with serving(ScriptedClient(outcome=SubmitOutcome(False, reasons=("because",), refusal=refusal))) as url:
        for stream in (False, True):
            answer = post(url, GOOD | {"stream": stream})
            assert (answer.status_code, error_of(answer)["message"]) == (status, "because")


def test_a_refusal_of_the_engine_is_told_before_a_stream_begins():
    news = News("", 0, 0, "rejected", "prompt_token_ids has 99 tokens, at most 15 fit (max_model_len 16)")
    client = ScriptedClient(news)
    with serving(client) as url:
        answer = post(url, GOOD | {"stream": True})
    assert (answer.status_code, error_of(answer)["code"]) == (400, "context_length_exceeded")
    assert client.unwatched == client.watches


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_client_does_not_wait_for_an_engine_that_has_failed(is_stream, monkeypatch):
    monkeypatch.setattr("model_runner.http.generation.CHECK_S", 0.02)
    client = ScriptedClient(phase="failed")
    with serving(client) as url:
        answer = post(url, GOOD | {"stream": is_stream})
    assert (answer.status_code, error_of(answer)["code"]) == (503, "engine_failed")
    assert client.abandoned == [("r1", False)]


def test_a_failure_in_the_middle_of_a_stream_is_its_last_word(monkeypatch):
    monkeypatch.setattr("model_runner.http.generation.CHECK_S", 0.02)
    client = ScriptedClient(News("half", 1, 1), phase="failed")
    with serving(client) as url:
        lines = [line for line in post(url, GOOD | {"stream": True}).text.split("\n\n") if line]
    assert json.loads(lines[0][6:])["choices"][0]["text"] == "half"
    assert json.loads(lines[1][6:])["error"]["code"] == "engine_failed"
    assert lines[2] == "data: [DONE]"


def test_another_model_begins_an_answer_again_as_long_as_nothing_of_it_was_sent():
    again = (News(begun_again=True), News("new", 1, 1, "finished", "stop"))
    with serving(ScriptedClient(News("", 0, 1), *again)) as url:
        assert post(url, GOOD).json()["choices"][0]["text"] == "new"
        assert '"text":"new"' in post(url, GOOD | {"stream": True}).text


def test_a_stream_that_has_begun_is_not_continued_by_another_model():
    client = ScriptedClient(News("old", 1, 1))
    with serving(client) as url, httpx.stream("POST", f"{url}/v1/completions", json=GOOD | {"stream": True}) as answer:
        lines = answer.iter_lines()
        assert '"text":"old"' in next(lines)
        client.watches[0].put(News(begun_again=True))
        rest = [line for line in lines if line]
    assert '"code":"model_changed"' in rest[0]
    assert rest[1] == "data: [DONE]"


def test_what_is_not_there_is_said_in_json():
    with serving(ScriptedClient(DONE)) as url:
        assert error_of(httpx.get(f"{url}/v1/embeddings"))["code"] == "unknown_url"
        answer = httpx.get(f"{url}/v1/completions")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert error_of(answer)
        script = httpx.get(f"{url}/v1/<script>alert(1)</script>")
        assert script.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions", "/v1/chat/completions", "/metrics", "/health"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_another_method_is_refused_in_the_same_form_as_all_else(method, path):
    with serving(ScriptedClient(DONE)) as url:
        answer = httpx.request(method, url + path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST" if "completions" in path else "GET")
    assert method in error_of(answer)["message"]
    assert "access-control-allow-origin" not in answer.headers


def test_nothing_of_an_unforeseen_error_is_shown():
    class Broken(ScriptedClient):
        def submit(self, *args, **more):
            raise AssertionError("unused")

        @property
        def latest(self):
            raise RuntimeError("secret detail")

        @latest.setter
        def latest(self, value):
            pass

    with serving(Broken()) as url:
        answer = httpx.get(f"{url}/v1/models")
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("idle", 200),
        ("running", 200),
        ("computing", 200),
        ("paused", 200),
        ("loading", 503),
        ("down", 503),
        ("failed", 503),
        ("stalled", 503),
    ],
)
def test_health_is_that_of_the_page(phase, status):
    with serving(ScriptedClient(phase=phase)) as url:
        answer = httpx.get(f"{url}/health")
    assert (answer.status_code, answer.json()["phase"]) == (status, phase)


def test_settings_come_from_the_environment():
    assert from_environment({}) == ApiSettings()
    found = from_environment({"BATCHSCOPE_API_KEY": "k", "BATCHSCOPE_API_MAX_QUEUED": "7"})
    assert (found.api_key, found.max_queued) == ("k", 7)
    for wrong in ("0", "901", "-1", "seven", "٣"):
        with pytest.raises(RunnerConfigError, match=r"BATCHSCOPE_API_MAX_QUEUED=.*1 to 900"):
            from_environment({"BATCHSCOPE_API_MAX_QUEUED": wrong})
