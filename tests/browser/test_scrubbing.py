"""Going back through the kept iterations in a real browser, while the engine goes on."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.test_live_page import AFTER, CHARTS, DRAWN, KEPT_NODES, MARK_NODES, iteration, wait_for

pytestmark = pytest.mark.browser

BAD_STEP = {
    "en-US": "?step=soon: a whole number from 1 on is needed, as in ?step=120. Shown: live.",
    "ko-KR": "주소의 ?step=soon: ?step=120처럼 1 이상의 정수여야 합니다. 실시간 화면을 보여 줍니다.",
}
PAST = {"en-US": "PAST", "ko-KR": "과거"}
LANES = 3
PICTURES = f"() => ({DRAWN})().slice(0, {LANES + 1}).map(svg => svg.replaceAll(/(clip|gradient_)\\d+/g, ''))"
"""All charts but the strip, less the numbers that a browser gives to parts of them as it draws."""
AT = "n => +document.querySelector('#bs-step').innerText.replaceAll(',', '') === n"
IN_ADDRESS = "n => new URLSearchParams(location.search).get('step') === String(n)"
"""A busy page shows a step before its address names it, and going back would skip that step."""


def press(page, key: str) -> None:
    page.evaluate("() => document.activeElement?.blur()")
    page.keyboard.press(key)


@pytest.mark.parametrize("locale", sorted(PAST))
def test_the_past_is_shown_step_by_step_while_the_engine_goes_on_and_its_link_opens_it_again(open_page, server, locale):
    page = open_page(locale)
    page.wait_for_timeout(4000)  # keys are heard once the page has settled
    before = iteration(page)
    page.get_by_role("button", name=re.compile("Burst of|한꺼번에")).first.click()
    wait_for(page, AFTER, before + 60)
    page.evaluate(MARK_NODES)
    press(page, "Shift+ArrowLeft")
    expect(page.locator(".bs-past")).to_contain_text(PAST[locale], timeout=WAIT_MS)
    page.wait_for_timeout(1500)
    first, drawn = iteration(page), page.evaluate(PICTURES)
    press(page, "ArrowLeft")
    wait_for(page, AT, first - 1)
    for i in range(1, 4):
        press(page, "Shift+ArrowLeft")
        wait_for(page, AT, first - 1 - 10 * i)
        wait_for(page, IN_ADDRESS, first - 1 - 10 * i)
    wait_for(page, f"old => ({PICTURES})()[{LANES}] !== old[{LANES}]", drawn)
    assert page.evaluate(KEPT_NODES) == CHARTS
    ahead = page.locator("#bs-strip").inner_text()  # how far the engine is by now
    wait_for(page, "old => document.querySelector('#bs-strip').innerText !== old", ahead)
    assert iteration(page) == first - 31
    assert parse_qs(urlsplit(page.url).query)["step"] == [str(first - 31)]
    again = open_page(locale, page.url)
    wait_for(again, AT, first - 31)
    wait_for(again, f"there => ({PICTURES})().join() === there.join()", page.evaluate(PICTURES))
    page.go_back()
    wait_for(page, AT, first - 21)
    press(page, "l")
    expect(page.locator(".bs-past")).to_have_count(0, timeout=WAIT_MS)
    wait_for(page, AFTER, first)


@pytest.mark.parametrize("locale", sorted(BAD_STEP))
def test_an_address_that_names_no_step_says_so_and_shows_the_present(open_page, server, locale):
    page = open_page(locale=locale, address=f"{server.url}/?step=soon")
    expect(page.locator("#bs-strip")).to_contain_text(BAD_STEP[locale], timeout=WAIT_MS)
    expect(page.locator(".bs-past")).to_have_count(0, timeout=WAIT_MS)
