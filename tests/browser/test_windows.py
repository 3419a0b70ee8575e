"""The live page in windows of other sizes than the one it is laid out for."""

from __future__ import annotations

import pytest

from tests.browser.conftest import LAST_CHART, WAIT_MS, settles
from tests.browser.test_live_page import wait_for
from tests.browser.test_projector import HIDDEN

pytestmark = pytest.mark.browser

CUT = """() => {
  for (const e of document.querySelectorAll('.bs-tile:nth-child(2) .bs-value, .bs-tile:nth-child(3) .bs-value'))
    e.innerHTML = '888 ms<span class="bs-second"> / 888 ms</span>';  // the longest that a tile has to hold
  const button = '[data-testid=stMain] button';
  return [...document.querySelectorAll(`.bs-tile, .bs-gloss, ${button}, ${button} *`)]
    .filter(e => e instanceof HTMLElement && e.checkVisibility() && getComputedStyle(e).overflow !== 'visible')
    .filter(e => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2)
    .map(e => `${innerWidth}: ${e.innerText}`);
}"""
"""Tiles and buttons that show less than they say."""
CHARTS = "[...document.querySelectorAll('[data-testid=stVegaLiteChart]')]"


@pytest.fixture
def sized(browser, server):
    """``sized(width, height)``: a page of that size whose charts are drawn, up to the one of place ``last``."""
    contexts = []

    def one(width: int, height: int, last: int = LAST_CHART, locale: str = "en-US"):
        context = browser.new_context(viewport={"width": width, "height": height}, locale=locale)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(server.url)
        page.locator("[data-testid=stVegaLiteChart] svg").nth(last).wait_for()
        return page

    yield one
    for context in contexts:
        context.close()


def test_a_large_window_is_filled_and_its_charts_stand_still(sized):
    page = sized(1920, 1080)
    page.evaluate(f"() => {{ window.drawn = {CHARTS}.map(e => e.querySelector('svg')) }}")
    heights = page.evaluate(f"() => {CHARTS}.map(e => e.querySelector('svg').clientHeight)")
    low = page.locator(".st-key-scrubber").bounding_box()
    assert 1080 - 60 < low["y"] + low["height"] <= 1080 + 20, "the last row that moves ends where the window ends"
    before = page.evaluate("() => document.querySelector('#bs-step').innerText")
    wait_for(page, "old => document.querySelector('#bs-step').innerText !== old", before)
    page.wait_for_timeout(3000)
    assert page.evaluate(f"() => {CHARTS}.map(e => e.querySelector('svg').clientHeight)") == heights
    assert page.evaluate("() => window.drawn.every(e => e.isConnected)")


def test_a_phone_has_nothing_beside_the_page(sized):
    page = sized(390, 844, LAST_CHART - 1)  # the strip comes with the words, later
    page.wait_for_timeout(2000)
    settles(page, f"() => ({HIDDEN})()[0]", 0)
    settles(page, f"() => {CHARTS}.every(e => e.querySelector('svg').getBoundingClientRect().right <= 390)", True)


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_tiles_and_buttons_are_whole_down_to_a_tablet(sized, locale):
    page = sized(1440, 900, locale=locale)
    low = (
        "document.querySelector('.st-key-scrubber [data-testid=stSlider] [role=group]').getBoundingClientRect().bottom"
    )
    for tab in page.get_by_role("tab").all():
        tab.click()
        settles(page, f"() => {low} <= 900", True)
    for width in (1200, 1000, 900, 800, 700):
        page.set_viewport_size({"width": width, "height": 900})
        settles(page, "() => innerWidth", width)
        settles(page, CUT, [])
        settles(page, f"() => ({HIDDEN})()[0]", 0)
