"""The page after a lost network, a laptop that slept and a reload: back on the same run, without help."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.test_live_page import AFTER, iteration, wait_for

pytestmark = pytest.mark.browser

CHUNK = 1 << 16
LOST_S = 4.0


class Cable:
    """A TCP relay to the dashboard that can be pulled out and put in again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._there = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._is_out = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def pull(self) -> None:
        self._is_out = True
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def plug_in(self) -> None:
        self._is_out = False

    def close(self) -> None:
        self._listener.close()
        self.pull()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_out:
                    client.close()
                    continue
                server = socket.create_connection(self._there)
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cable(server):
    cable = Cable(server.url)
    yield cable
    cable.close()


def is_back(page, before: int) -> None:
    """The page follows the engine again, with all its charts and nothing in front of them."""
    wait_for(page, AFTER, before)
    further = iteration(page)
    wait_for(page, AFTER, further)
    expect(page.locator("[data-testid=stVegaLiteChart] svg")).to_have_count(5, timeout=WAIT_MS)
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=WAIT_MS)
    assert page.locator("[data-testid=stException]").count() == 0


def document_id(page) -> float:
    """Differs when the page was loaded anew."""
    return float(page.evaluate("() => window.__document ??= Math.random()"))


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_a_page_whose_network_was_lost_comes_back_by_itself(open_page, cable, locale):
    page = open_page(locale, cable.url)
    same = document_id(page)
    before = iteration(page)
    cable.pull()
    time.sleep(LOST_S)
    cable.plug_in()
    is_back(page, before)
    assert document_id(page) == same, "the page was not loaded anew"


def test_a_page_that_slept_comes_back_by_itself(open_page, cable):
    page = open_page("en-US", cable.url)
    same = document_id(page)
    before = iteration(page)
    session = page.context.new_cdp_session(page)
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    cable.pull()
    time.sleep(LOST_S)
    cable.plug_in()
    session.send("Page.setWebLifecycleState", {"state": "active"})
    is_back(page, before)
    assert document_id(page) == same, "the page was not loaded anew"


def test_a_reload_shows_the_same_run(open_page):
    page = open_page()
    before = iteration(page)
    page.reload()
    page.locator("#bs-step").wait_for(timeout=WAIT_MS)
    assert iteration(page) >= before
    is_back(page, before)
