"""One browser for all tests here, one dashboard a module."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.serving import chromium, dashboard

WAIT_MS = 120_000
"""A machine that does other work takes a minute to open a page."""
LAST_CHART = 4
"""Place of the last chart of the live page: queue, running set, block map, time lines, strip."""


def settles(page, script: str, wanted: object, argument: object = None) -> None:
    """Wait until a script says what is wanted: elements of one drawing come one after the other, old ones go last."""
    deadline = time.monotonic() + WAIT_MS / 1000
    while (said := page.evaluate(script, argument)) != wanted and time.monotonic() < deadline:
        page.wait_for_timeout(250)
    assert said == wanted


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with dashboard(tmp_path_factory.mktemp("server") / "log", BATCHSCOPE_RATE="2") as running:
        yield running


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, server):
    """``open_page(locale=..., address=...)``: a page on the dashboard whose charts are drawn."""
    contexts = []

    def open_one(locale: str = "en-US", address: str = "", **options: object):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, locale=locale, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(address or server.url)
        page.locator("[data-testid=stVegaLiteChart] svg").nth(LAST_CHART).wait_for()
        return page

    yield open_one
    for context in contexts:
        context.close()
