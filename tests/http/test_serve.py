"""``python -m model_runner serve`` as a user runs it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from model_runner.__main__ import main
from tests.http.serving import post, send_only, wait_until

ROOT = Path(__file__).resolve().parents[2]
END_S = 10
TOY = ("--model", "toy", "--dtype", "float32", "--threads", "1", "--num-blocks", "64")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def serve(*flags: str, port: int | None = None) -> Iterator[tuple[subprocess.Popen, str]]:
    """The command as a process, and its address."""
    port = port or free_port()
    command = [sys.executable, "-m", "model_runner", "serve", *flags, "--port", str(port)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"BATCHSCOPE_API_KEY": ""}, **pipes) as process:
        try:
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def phase(url: str) -> str:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/health").json()["phase"]
    return ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_cleanly_with_an_answer_under_way(number):
    with serve(*TOY) as (process, url):
        wait_until(lambda: phase(url) == "idle", 90, "it is live")
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "toy"
        assert (
            post(url, {"prompt": "abc", "max_tokens": 3, "ignore_eos": True}).json()["usage"]["completion_tokens"] == 3
        )
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
        with send_only(url, {"prompt": "abc", "max_tokens": 900, "stream": True, "ignore_eos": True}):
            wait_until(lambda: phase(url) == "running", what="the answer is under way")
            process.send_signal(number)
            out, err = process.communicate(timeout=END_S)
        assert process.returncode == 0, err
        assert "toy on cpu" in out
        assert "Traceback" not in err
        assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)


@pytest.mark.parametrize("moment", ["at once", "listening"])
def test_it_ends_cleanly_while_it_starts(moment):
    with serve(*TOY) as (process, url):
        if moment == "listening":
            wait_until(lambda: phase(url), 60, "it listens")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=END_S)
        assert "Traceback" not in err


def test_a_model_that_cannot_be_loaded_ends_it_with_the_reason(tmp_path):
    with serve("--model", str(tmp_path)) as (process, _):
        _, err = process.communicate(timeout=90)
        assert process.returncode == 2
        assert err.startswith("error: ")
        assert str(tmp_path) in err
        assert "Traceback" not in err


def test_a_port_in_use_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with serve(*TOY, port=taken.getsockname()[1]) as (process, _):
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err.count("\n")) == (2, 1)
        assert "cannot listen there: Address already in use" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "max_num_seqs=0"], "max_num_seqs"),
        (["--set", "nonsense"], "expected field=value"),
    ],
)
def test_a_wrong_policy_is_named_before_anything_starts(flags, message, capsys):
    assert main(["serve", "--model", "toy", *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_a_wrong_port_is_named(port, capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--port", port])
    assert "1 to 65535" in capsys.readouterr().err


def test_wrong_limits_in_the_environment_are_named(monkeypatch, capsys):
    monkeypatch.setenv("BATCHSCOPE_API_MAX_QUEUED", "many")
    assert main(["serve", "--model", "toy"]) == 2
    assert "BATCHSCOPE_API_MAX_QUEUED='many'" in capsys.readouterr().err
