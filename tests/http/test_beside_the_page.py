"""The dashboard's own port answers the API as well, and a stream keeps it neither from serving nor from ending."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.http.serving import send_only, wait_until
from tests.http.test_serve import END_S, free_port, phase

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page():
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    choices = {"BATCHSCOPE_MODEL": "toy", "BATCHSCOPE_RATE": "0", "BATCHSCOPE_THREADS": "1"}
    environment = os.environ | choices | {"BATCHSCOPE_API_KEY": "sesam"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: phase(url) == "idle", 120, "the page's engine is live")
            yield process, url
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def test_one_port_serves_page_api_metrics_and_health(page):
    _, url = page
    key = {"authorization": "Bearer sesam"}
    assert httpx.get(f"{url}/").text.lstrip().startswith("<!")
    assert httpx.get(f"{url}/v1/models", headers=key).json()["data"][0]["id"] == "toy"
    assert httpx.get(f"{url}/v1/models").status_code == 401
    assert httpx.get(f"{url}/v1/nothing", headers=key).json()["error"]["code"] == "unknown_url"
    assert b"vllm:num_requests_running" in httpx.get(f"{url}/metrics").content
    asked = {"prompt": "abc", "max_tokens": 8, "stream": True, "ignore_eos": True}
    headers = key | {"accept-encoding": "gzip"}
    with httpx.stream("POST", f"{url}/v1/completions", json=asked, headers=headers, timeout=60) as answer:
        assert "content-encoding" not in answer.headers, "a compressed stream would come in lumps"
        lines = [line for line in answer.iter_lines() if line]
    assert len("".join(json.loads(line[6:])["choices"][0]["text"] for line in lines[:-1])) == 8
    assert lines[-1] == "data: [DONE]"


def test_a_client_that_hangs_up_ends_its_request_and_the_page_ends_with_a_stream_open(page):
    process, url = page
    asked = {"prompt": "abc", "max_tokens": 2000, "stream": True, "ignore_eos": True}
    key = ("Authorization: Bearer sesam",)
    with send_only(url, asked, headers=key):
        wait_until(lambda: phase(url) == "running", what="it runs")
    wait_until(lambda: phase(url) == "idle", what="it has ended")
    with send_only(url, asked, headers=key):
        wait_until(lambda: phase(url) == "running", what="another runs")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S)
