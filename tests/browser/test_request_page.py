"""One request followed in a real browser: from the picture to its page, in both languages."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.test_live_page import hold, release

pytestmark = pytest.mark.browser

CHART = "[data-testid=stVegaLiteChart] svg"
TEXTS = "() => [...document.querySelectorAll('[data-testid=stVegaLiteChart] svg text')].map(n => n.textContent)"
AS_NUMBER = "n => +n.innerText.replaceAll(',', '')"


def choose(page, place: int) -> str:
    """Choose one of the offered requests; returns its id."""
    box = page.locator("[data-testid=stMain] [data-testid=stSelectbox] input").first
    box.click()
    option = page.get_by_role("option").nth(place)
    name = option.inner_text().strip()
    option.click()
    return name


def view(page, name: str) -> None:
    """Go to another page by the control in the sidebar."""
    page.locator("[data-testid=stSidebar]").get_by_text(name, exact=True).first.click()


def test_a_highlighted_request_has_a_page_with_a_link_that_lives_on(open_page):
    page = open_page()
    hold(page)
    page.get_by_role("button", name="Burst of").click()
    page.wait_for_function("() => document.querySelector('#bs-tile-waiting .bs-value').innerText !== '0'")
    page.get_by_role("tab", name="Why").click()
    expect(page.get_by_text("Considered, not done")).to_be_visible(timeout=WAIT_MS)
    name = choose(page, 0)
    page.get_by_role("button", name=f"Open the page of {name}").click(timeout=WAIT_MS)
    expect(page.locator(".bs-head", has_text=name).first).to_be_visible(timeout=WAIT_MS)
    address = parse_qs(urlsplit(page.url).query)
    assert (address["view"], address["request"]) == (["request"], [name])
    view(page, "Live")
    release(page)
    view(page, "One request")
    expect(page.get_by_text("Life and blame")).to_be_visible(timeout=WAIT_MS)
    expect(page.locator(CHART)).to_have_count(1, timeout=WAIT_MS)  # those of the live page have gone
    page.locator(f"{CHART} text", has_text="own tokens").first.wait_for(timeout=WAIT_MS)
    page.evaluate("() => { document.querySelector('[data-testid=stVegaLiteChart] svg').__kept = true }")
    expect(page.locator(".bs-head", has_text=f"{name} · finished").first).to_be_visible(timeout=WAIT_MS)
    page.wait_for_timeout(1500)
    assert page.evaluate("() => document.querySelector('[data-testid=stVegaLiteChart] svg').__kept")
    assert {"own tokens", "prefill of others", "arrived", "admitted", "finished"} <= set(page.evaluate(TEXTS))
    rows = page.locator(".bs-table tr td:nth-child(2)")
    whole, *parts = [round(1000 * cell.evaluate(AS_NUMBER)) for cell in rows.all()]
    assert sum(parts) == whole > 0
    assert len(page.locator("#bs-answer").inner_text()) > 0


def test_the_page_of_a_request_opens_by_its_address_in_korean(open_page, server):
    page = open_page(locale="ko-KR")
    page.goto(f"{server.url}/?view=request")
    page.get_by_placeholder(re.compile("요청을 고르거나")).wait_for(timeout=WAIT_MS)
    box = page.locator("[data-testid=stMain] [data-testid=stSelectbox] input").first
    box.fill("r1")
    box.press("Enter")
    expect(page.get_by_text("생애와 원인")).to_be_visible(timeout=WAIT_MS)
    page.wait_for_function("() => location.search.includes('request=r1')", timeout=WAIT_MS)
    page.reload()
    expect(page.locator(".bs-head", has_text="r1").first).to_be_visible(timeout=WAIT_MS)
    expect(page.locator(f"{CHART} text", has_text="다른 요청의 prefill").first).to_be_attached(timeout=WAIT_MS)
    page.get_by_text("가장 긴 간격").click()
    expect(page.get_by_text("토큰 사이 간격")).to_be_visible(timeout=WAIT_MS)
