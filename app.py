"""Composition root: the page, and the runner that lives exactly as long as this process serves it.

Start with ``streamlit run app.py``. Start-up choices come from BATCHSCOPE_* variables (``dashboard/settings.py``). The
same port answers OpenAI's API, /metrics and /health.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.routing import Route

from dashboard import addresses, engine
from dashboard.delivery import deliver_whole
from dashboard.door import Door
from dashboard.entrance import PATH, Doorway, Entrance
from dashboard.kept_files import keep_files
from dashboard.presses import act_once
from dashboard.settings import SettingsError
from model_runner.errors import RunnerConfigError
from model_runner.http.app import HttpApi
from model_runner.http.ending import stop_on_signals
from model_runner.http.settings import from_environment

act_once()
deliver_whole()
keep_files()
# The kept steps are hundreds of thousands of live objects: Python's default looks through all of them so often that it
# took a fifth of the server's time.
gc.set_threshold(10_000, 10, 10)

api = HttpApi()
doorway = Doorway()


def tell_addresses(door: Door) -> None:
    """Say where the room and the presenter go. A token made here is told to a terminal only, never to a log."""
    bound, port = st.get_option("server.address"), st.get_option("server.port")
    hosts = addresses.own_hosts(bound)
    addresses.let_in(hosts)
    if hosts:
        print(f"For the room: {addresses.url(hosts[0], port)}", file=sys.stderr)
    if door.is_open:
        return
    here = addresses.url(hosts[0] if bound and bound not in addresses.ALL and hosts else "127.0.0.1", port)
    if not door.is_made:
        print(f"The presenter: {here}{PATH}, with BATCHSCOPE_PRESENTER_TOKEN", file=sys.stderr, flush=True)
    elif sys.stderr.isatty():
        print(f"The presenter: {here}/?token={door.token}", file=sys.stderr, flush=True)
    else:
        print(
            "Nobody has the controls: BATCHSCOPE_PRESENTER_TOKEN is not set, and one made here would go into a log.",
            file=sys.stderr,
            flush=True,
        )


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
    """Start the runner before the first page asks for it; end it when the server ends."""
    try:
        settings = from_environment(os.environ)
        running = await asyncio.to_thread(engine.shared)
    except (SettingsError, RunnerConfigError) as error:
        print(f"Batchscope was not started: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # the server would print the traceback of any exception, SystemExit included
    api.attach(running.client, replace(settings, other_key=running.door.token))
    doorway.door = running.door
    tell_addresses(running.door)
    stop_on_signals(api.stop)
    try:
        yield {}
    finally:
        await asyncio.to_thread(running.client.close)


app = st.App(
    "dashboard/main.py",
    lifespan=lifespan,
    routes=[Route(PATH, doorway.presenter, methods=["GET", "POST"]), *api.routes],
    middleware=[Middleware(Entrance, doorway=doorway)],
)
