"""``python -m model_runner serve``: the runner and its HTTP API, without the page."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.errors import RunnerConfigError, RunnerError
from model_runner.http.app import HttpApi
from model_runner.http.ending import GRACE_S, stop_on_signals
from model_runner.http.settings import ApiSettings, from_environment
from model_runner.timings_line import timings_line
from model_runner.traffic import TrafficSpec
from scheduler import PRESETS, SchedulerPolicy
from scheduler.replay import policy_of, setting
from scheduler.workload import WorkloadError

LOOK_S = 0.1
BACKLOG = 1024
WAITING_PHASES = ("starting", "loading", "down", "restarting")


class Service:
    """Client, routes and server, living and ending together. Raises RunnerConfigError when it cannot listen there."""

    def __init__(
        self, config: RunnerConfig, policy: SchedulerPolicy, settings: ApiSettings, host: str, port: int
    ) -> None:
        self._socket = _listen(host, port)
        self._client = RunnerClient(config, policy, traffic=TrafficSpec(enabled=False))
        self._api = HttpApi()
        self._api.attach(self._client, settings)
        self._failure = ""
        app = Starlette(routes=list(self._api.routes), lifespan=self._lifespan)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False,
                timeout_graceful_shutdown=int(2 * GRACE_S), limit_concurrency=2 * settings.max_open,
            )
        )  # fmt: skip
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> int:
        """Serve until a signal ends it; 0 = ended as asked, 2 = the runner could not start."""
        for number in (signal.SIGINT, signal.SIGTERM):
            # The server puts its own in place while it runs, and raises the signal again for these when it has ended.
            signal.signal(number, self._end)
        try:
            self._server.run([self._socket])
        finally:
            self._client.close()
        if self._failure:
            print(f"error: {self._failure}", file=sys.stderr)
        return 2 if self._failure or not self._server.started else 0

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._server.should_exit = True

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._client.start()
        stop_on_signals(self._api.stop)
        watcher = asyncio.create_task(self._watch_start())
        try:
            yield
        finally:
            watcher.cancel()
            await asyncio.to_thread(self._client.close)

    async def _watch_start(self) -> None:
        """Say when requests will be answered, or end the server when they never will."""
        while self._client.state.phase in WAITING_PHASES:
            await asyncio.sleep(LOOK_S)
        state, latest = self._client.state, self._client.latest
        if state.phase == "failed":
            self._failure = state.message
            self._server.should_exit = True
        elif latest is not None:
            info = latest.info
            note = f" ({info.model_note})" if info.model_note else ""
            print(f"{info.model} on {info.device}, {info.dtype}{note}: {self._address}/v1", flush=True)
            if info.start_timings:
                print(timings_line(info.threads, info.start_timings), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """0 = ended by a signal, 2 = a start-up choice is wrong or the runner could not start."""
    options = _parser().parse_args(argv)
    config = RunnerConfig(
        model=options.model,
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
        block_size=options.block_size,
        num_blocks=options.num_blocks,
        num_host_blocks=options.num_host_blocks,
        max_model_len=options.max_model_len,
        seed=options.seed,
    )
    try:
        policy = policy_of(options.policy, {}, dict(setting(text) for text in options.set))
        service = Service(config, policy, from_environment(os.environ), options.host, options.port)
    except (RunnerError, WorkloadError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return service.run()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise RunnerConfigError(f"--host {host} --port {port}: cannot listen there: {error.strerror}") from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port, a whole number from 1 to 65535 is needed")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    defaults = RunnerConfig()
    parser = argparse.ArgumentParser(
        prog="python -m model_runner serve",
        description=__doc__,
        epilog="BATCHSCOPE_API_KEY: the key clients must bring; BATCHSCOPE_API_MAX_QUEUED: waiting requests, then 429.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=_port, default=8000, help="port to listen on (default 8000)")
    parser.add_argument("--model", default=defaults.model, help="smollm2, toy or a folder in Hugging Face form")
    parser.add_argument("--policy", default="vllm-v1", choices=sorted(PRESETS), help="preset (default vllm-v1)")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="policy field, repeatable")
    parser.add_argument("--device", default=defaults.device, help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--dtype", default=defaults.dtype, help="auto, float32 or bfloat16")
    parser.add_argument(
        "--threads",
        type=int,
        default=defaults.threads,
        help="torch threads (0 = measured, at most all cores but one)",
    )
    parser.add_argument("--block-size", type=int, default=defaults.block_size, help="tokens of a KV block")
    parser.add_argument("--num-blocks", type=int, default=1024, help="KV blocks (default 1024)")
    parser.add_argument(
        "--num-host-blocks", type=int, default=defaults.num_host_blocks,
        help=f"KV blocks in host memory for swapped requests (default {defaults.num_host_blocks}; 0 = no swap)",
    )  # fmt: skip
    parser.add_argument("--max-model-len", type=int, help="tokens of prompt and output (default: all that fit)")
    parser.add_argument("--seed", type=int, default=0, help="of the toy model and of requests that bring no seed")
    return parser
