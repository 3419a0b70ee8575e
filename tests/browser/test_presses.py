"""One press of a button acts once, in a browser that is busy at that moment."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.test_live_page import iteration, wait_for
from tests.browser.test_projector import ask_for_work, hold, let_go

pytestmark = pytest.mark.browser

BUSY = """() => {
  const busy = () => {
    const end = performance.now() + 400;
    while (performance.now() < end);
    window.__busy = setTimeout(busy, 20);
  };
  busy();
}"""
"""Longer than the page's ticks are apart: whenever a click is heard, a tick is due, and is sent before the click."""
PRESSES = 6


def test_a_press_in_a_busy_browser_acts_once(open_page):
    page = open_page()
    page.wait_for_timeout(4000)  # keys are heard once the page has settled
    hold(page)
    ask_for_work(page)
    expect(page.get_by_role("button", name="Step", exact=True)).to_be_enabled(timeout=WAIT_MS)
    page.wait_for_timeout(1000)
    place = page.get_by_role("button", name="Step", exact=True).bounding_box()
    before = iteration(page)
    for done in range(1, PRESSES + 1):
        page.evaluate(BUSY)
        page.mouse.click(place["x"] + 10, place["y"] + 10)
        page.evaluate("() => clearTimeout(window.__busy)")
        wait_for(page, "n => +document.querySelector('#bs-step').innerText.replaceAll(',', '') >= n", before + done)
        page.wait_for_timeout(700)
        assert iteration(page) == before + done
    let_go(page)
