"""Composition root: the page, and the runner that lives exactly as long as this process serves it.

Start with ``streamlit run app.py``. Start-up choices come from BATCHSCOPE_* variables (``dashboard/settings.py``).
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


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
    """Start the runner before the first page asks for it; end it when the server ends."""
    try:
        running = await asyncio.to_thread(engine.shared)
    except SettingsError as error:
        print(f"Batchscope was not started: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # the server would print the traceback of any exception, SystemExit included
    try:
        yield {}
    finally:
        await asyncio.to_thread(running.client.close)


app = st.App("dashboard/main.py", lifespan=lifespan)
