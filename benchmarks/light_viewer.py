"""A viewer without a browser: speaks the page's protocol, asks for ticks as its timers do, and draws nothing."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import urllib.parse
from dataclasses import dataclass, field

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

OPEN_S = 120
"""Generous: the first page of a server builds the charts."""


class ViewerError(RuntimeError):
    """The page answered with an exception of the script."""


@dataclass
class Seen:
    """What came to one viewer. ticks: script runs that ended; charts: chart elements that were drawn."""

    ticks: int = 0
    messages: int = 0
    size: int = 0
    charts: int = 0
    errors: list[str] = field(default_factory=list)


def cookies(url: str, token: str = "") -> str:
    """The Cookie header of a browser that has opened the page; of the presenter's where a token is given."""
    where = urllib.parse.urlsplit(url)
    found = []
    for method, path, body in [("GET", "/", None), *([("POST", "/presenter", f"token={token}")] if token else [])]:
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
        connection.request(method, path, body)
        answer = connection.getresponse()
        found += [h.partition(";")[0] for h in answer.headers.get_all("set-cookie") or []]
        connection.close()
    return "; ".join(found)


class LightViewer:
    """One open page. ``run`` until cancelled."""

    def __init__(self, url: str, cookie: str, query: str = "") -> None:
        self._url = url.replace("http://", "ws://") + "/_stcore/stream"
        self._cookie = cookie
        self._query = query
        self._timers: dict[str, asyncio.Task[None]] = {}
        self.seen = Seen()

    async def run(self) -> None:
        """Open the page and keep it open."""
        headers = {"Cookie": self._cookie}
        async with websockets.connect(
            self._url, subprotocols=["streamlit"], additional_headers=headers, max_size=None, compression=None
        ) as socket:
            self._socket = socket
            await socket.send(self._ask("").SerializeToString())
            try:
                async for data in socket:
                    self._take(bytes(data))
            finally:
                self._stop_timers()

    def _ask(self, fragment: str) -> BackMsg:
        message = BackMsg()
        state = message.rerun_script
        state.query_string = self._query
        state.context_info.locale = "en-US"
        state.context_info.timezone = "UTC"
        state.fragment_id = fragment
        state.is_auto_rerun = bool(fragment)
        return message

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers = {}

    async def _tick(self, fragment: str, seconds: float) -> None:
        ask = self._ask(fragment).SerializeToString()
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                await asyncio.sleep(seconds)
                await self._socket.send(ask)

    def _take(self, data: bytes) -> None:
        message = ForwardMsg.FromString(data)
        self.seen.messages += 1
        self.seen.size += len(data)
        kind = message.WhichOneof("type")
        if kind == "auto_rerun":
            name = message.auto_rerun.fragment_id
            if name not in self._timers:
                self._timers[name] = asyncio.create_task(self._tick(name, message.auto_rerun.interval))
        elif kind == "script_finished":
            self.seen.ticks += 1
        elif kind == "delta":
            self._count(message)

    def _count(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        what = element.WhichOneof("type")
        if what == "exception":
            self.seen.errors.append(f"{element.exception.type}: {element.exception.message}")
        elif what == "vega_lite_chart":
            self.seen.charts += 1


class Crowd:
    """Several viewers, opened and closed together."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._tasks: list[asyncio.Task[None]] = []
        self.viewers: list[LightViewer] = []

    async def enter(self, audience: int, presenters: int) -> None:
        """Open so many pages, and wait until each has drawn its charts."""
        for i in range(audience + presenters):
            cookie = await asyncio.to_thread(cookies, self._url, self._token if i < presenters else "")
            viewer = LightViewer(self._url, cookie)
            self.viewers.append(viewer)
            self._tasks.append(asyncio.create_task(viewer.run()))
        async with asyncio.timeout(OPEN_S):
            while any(not (v.seen.charts or v.seen.errors or t.done()) for v, t in self._pages()):
                await asyncio.sleep(0.1)

    def _pages(self) -> list[tuple[LightViewer, asyncio.Task[None]]]:
        return list(zip(self.viewers, self._tasks, strict=True))

    async def leave(self) -> None:
        """Close all of them. Raises ViewerError when a page has shown an exception, or none of its charts."""
        for task in self._tasks:
            if task.done():
                raise ViewerError(f"a viewer ended by itself: {task.exception()!r}")
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        errors = [e for viewer in self.viewers for e in viewer.seen.errors]
        if errors:
            raise ViewerError(errors[0])
        if not all(viewer.seen.charts for viewer in self.viewers):
            raise ViewerError("a page drew no chart")
        self._tasks, self.viewers = [], []
