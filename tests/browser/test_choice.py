"""A click on any picture of a request singles it out in all of them, in a real browser, in both languages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.test_live_page import DRAWN, wait_for
from tests.browser.test_projector import hold, let_go, press

pytestmark = pytest.mark.browser

QUEUE, RUNNING, MAP, LANES = range(4)
NAMES = re.compile(r"^\s*(request|block|요청|블록)\s*$")
NOBODY = re.compile(r"^\s*(free|빈 블록)\s*$")
"""What the map says of a block that is nobody's: a click there singles nothing out."""
LIST = "[data-testid=stMain] [data-testid=stSelectbox] input"


MARKS = """place => {
  const chart = document.querySelectorAll('[data-testid=stVegaLiteChart]')[place].getBoundingClientRect();
  return [...document.querySelectorAll('[data-testid=stVegaLiteChart]')[place].querySelectorAll('svg path')]
    .map(path => path.getBoundingClientRect())
    .filter(box => box.width > 3 && box.height > 3 && box.width * box.height < chart.width * chart.height / 8)
    .map(box => [box.x + box.width / 2, box.y + box.height / 2]);
}"""
"""Middles of what is drawn in a chart and is not a background."""


def click_until_told(page, place: int) -> None:
    """Point at what a chart draws until its tooltip names a request or a block, and click there."""
    for x, y in page.evaluate(MARKS, place):
        page.mouse.move(x, y)
        page.wait_for_timeout(60)  # a tooltip comes with the next picture of the browser
        told = page.locator("#vg-tooltip-element.visible")
        if (
            told.filter(has=page.locator("td.key", has_text=NAMES))
            .filter(has_not=page.locator("td.value", has_text=NOBODY))
            .count()
        ):
            page.mouse.down()
            page.mouse.up()
            return
    raise AssertionError(f"chart {place} tells of nothing")


def chosen(page) -> str:
    return page.locator(LIST).first.input_value()


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_a_click_on_a_chart_or_on_words_singles_a_request_out_everywhere(open_page, locale):
    page = open_page(locale)
    page.wait_for_timeout(4000)  # clicks are heard once the page has settled
    burst = page.get_by_role("button", name=re.compile("Burst of|한꺼번에")).first
    burst.click()
    page.wait_for_timeout(1500)  # the lanes have something to point at
    hold(page)
    burst.click()
    for _ in range(3):
        press(page, "n")
    page.wait_for_timeout(2500)
    for place in (QUEUE, RUNNING, MAP, LANES):
        drawn = page.evaluate(DRAWN)
        click_until_told(page, place)
        wait_for(page, f"() => document.querySelector('{LIST}').value !== ''")
        name = chosen(page)
        wait_for(page, f"old => ({DRAWN})().some((picture, i) => picture !== old[i])", drawn)
        page.mouse.move(5, 5)
        page.wait_for_timeout(1500)
        assert chosen(page) == name, "no later message of the page undoes it"
        click_until_told(page, place)
        wait_for(page, f"() => document.querySelector('{LIST}').value === ''")
        page.mouse.move(5, 5)
        page.wait_for_timeout(1200)
    told = page.locator(".bs-dict [data-request]").first
    told.click()
    expect(page.locator(LIST).first).to_have_value(told.get_attribute("data-request"), timeout=WAIT_MS)
    let_go(page)
