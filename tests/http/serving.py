"""The API on a free port: over a real client, or over one whose requests a test answers itself."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import httpx
import uvicorn
from starlette.applications import Starlette

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.http.app import HttpApi
from model_runner.http.settings import ApiSettings
from model_runner.traffic import TrafficSpec
from model_runner.views import ClientState, SubmitOutcome
from model_runner.watch import News, Watch

WRITING_WORKER = (sys.executable, str(Path(__file__).parent / "writing_worker.py"))


def wait_until(true: Callable[[], object], timeout_s: float = 30.0, what: str = "") -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or true}"
        time.sleep(0.005)


@contextlib.contextmanager
def serving(client, settings: ApiSettings | None = None, api: HttpApi | None = None) -> Iterator[str]:
    """A server in a thread of this process; its address."""
    api = api or HttpApi()
    api.attach(client, settings or ApiSettings())
    config = uvicorn.Config(
        Starlette(routes=api.routes), port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, what="the server is started")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def writing(pieces: Sequence[bytes], *, step_s: float = 0.0, policy=None, **config) -> Iterator[RunnerClient]:
    """A client whose worker writes these pieces over and over, one a token."""
    command = (*WRITING_WORKER, "--step-s", str(step_s), *(piece.hex() for piece in pieces), "--")
    values = {"model": "toy", "block_size": 4, "num_blocks": 256} | config
    quiet = TrafficSpec(enabled=False)
    with RunnerClient(RunnerConfig(**values), policy, traffic=quiet, worker_command=command) as client:
        wait_until(lambda: client.state.phase == "idle", what="the worker is live")
        yield client


def send_only(url: str, body: object, headers: Sequence[str] = ()) -> socket.socket:
    """A connection on which a request was sent and nothing is read."""
    host, port = url.removeprefix("http://").split(":")
    encoded = json.dumps(body).encode()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((host, int(port)))
    length = f"Content-Length: {len(encoded)}"
    head = ("POST /v1/completions HTTP/1.1", f"Host: {host}", "Content-Type: application/json", length, *headers)
    sock.sendall("\r\n".join((*head, "", "")).encode() + encoded)
    return sock


def post(url: str, body: object, path: str = "/v1/completions", **more) -> httpx.Response:
    return httpx.post(url + path, json=body, timeout=60, **more)


class ScriptedClient:
    """What the API uses of a client. ``submit`` answers ``outcome``; the test tells the news of each request."""

    def __init__(self, *news: News, outcome: SubmitOutcome | None = None, phase: str = "idle", unfinished: int = 0):
        self.outcome = outcome
        self.news = news
        self.config = RunnerConfig(model="toy")
        self.latest = None
        self.state = ClientState(phase, 0.0, None, "a message", None, 0)
        self.num_unfinished = unfinished
        self.submitted: list[SimpleNamespace] = []
        self.watches: list[Watch] = []
        self.abandoned: list[str] = []
        self.unwatched: list[Watch] = []

    def submit(self, prompt, sampling, *, priority, chat, origin):
        self.submitted.append(SimpleNamespace(prompt=prompt, sampling=sampling, priority=priority, origin=origin))
        return self.outcome or SubmitOutcome(True, f"r{len(self.submitted)}")

    def watch(self, request_id, wake):
        watch = Watch(request_id, wake)
        self.watches.append(watch)
        for news in self.news:
            watch.put(news)
        return watch

    def unwatch(self, watch):
        self.unwatched.append(watch)

    def abandon(self, request_id, *, is_complete=False):
        self.abandoned.append((request_id, is_complete))

    def observe(self, observer):
        self.observer = observer

    def history(self, last=None):
        return ()
