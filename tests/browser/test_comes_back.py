"""The page after a lost network, a laptop that slept and a reload: back on the same run, without help."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.relay import Relay
from tests.browser.test_live_page import AFTER, iteration, wait_for

pytestmark = pytest.mark.browser

LOST_S = 4.0


@pytest.fixture
def cable(server):
    cable = Relay(server.url)
    yield cable
    cable.close()


def is_back(page, before: int) -> None:
    """The page follows the engine again, with all its charts and nothing in front of them."""
    wait_for(page, AFTER, before)
    further = iteration(page)
    wait_for(page, AFTER, further)
    expect(page.locator("[data-testid=stVegaLiteChart] svg")).to_have_count(5, timeout=WAIT_MS)
    expect(page.get_by_role("dialog")).to_have_count(0, timeout=WAIT_MS)
    expect(page.locator("[data-testid=stException]")).to_have_count(0, timeout=WAIT_MS)


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
