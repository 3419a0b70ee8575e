"""A server that is told to end waits for the answers under way; this makes them come to an end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType

GRACE_S = 2.0
"""For answers to finish by themselves once the process is told to end."""

Handler = Callable[[int, FrameType | None], object]


def stop_on_signals(stop: Callable[[], None], grace_s: float = GRACE_S) -> None:
    """Call ``stop`` in the running loop, a while after SIGINT or SIGTERM; the handlers there are keep their work.

    To be called when the server has its handlers in place. Elsewhere than in the main thread it does nothing: who runs
    a server there gets no signals, and ends it in a way of his own.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        previous = signal.getsignal(number)
        if callable(previous):
            signal.signal(number, _after(previous, loop, stop, grace_s))


def _after(previous: Handler, loop: asyncio.AbstractEventLoop, stop: Callable[[], None], grace_s: float) -> Handler:
    def handler(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(loop.call_later, grace_s, stop)
        previous(number, frame)

    return handler
