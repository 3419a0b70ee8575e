"""Composition root: the page, and the runner that lives exactly as long as this process serves it.

Start with ``streamlit run app.py``. Start-up choices come from BATCHSCOPE_* variables (``dashboard/settings.py``). The
same port answers OpenAI's API, /metrics and /health.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import streamlit as st

from dashboard import engine
from dashboard.settings import SettingsError
from model_runner.errors import RunnerConfigError
from model_runner.http.app import HttpApi
from model_runner.http.ending import stop_on_signals
from model_runner.http.settings import from_environment

api = HttpApi()


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
    """Start the runner before the first page asks for it; end it when the server ends."""
    try:
        settings = from_environment(os.environ)
        running = await asyncio.to_thread(engine.shared)
    except (SettingsError, RunnerConfigError) as error:
        print(f"Batchscope was not started: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # the server would print the traceback of any exception, SystemExit included
    api.attach(running.client, settings)
    stop_on_signals(api.stop)
    try:
        yield {}
    finally:
        await asyncio.to_thread(running.client.close)


app = st.App("dashboard/main.py", lifespan=lifespan, routes=api.routes)
