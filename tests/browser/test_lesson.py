"""A scene in a real browser, on a real worker: asked, voted on, run, revealed, given back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS, settles
from tests.browser.test_projector import FLOOR_PX, SMALL_TEXT
from tests.browser.test_projector import press as press_key

pytestmark = pytest.mark.browser


@pytest.fixture
def lesson(open_page, server):
    """The lesson in English or Korean."""

    def open_one(locale: str):
        page = open_page(locale)
        page.goto(f"{server.url}/?view=lesson")
        page.locator(".bs-lesson h2").wait_for(timeout=WAIT_MS)
        return page

    return open_one


COVERED = """() => {
  const right = document.querySelector('.bs-ask').getBoundingClientRect().left;
  return [...document.querySelectorAll('[data-testid=stVegaLiteChart] svg')]
    .some(svg => svg.getBoundingClientRect().right > right);
}"""
"""A chart that is zoomed stays in its column."""


def press(page, name: str) -> None:
    button = page.get_by_role("button", name=name, exact=True)
    expect(button).to_be_enabled(timeout=WAIT_MS)
    button.click()


def test_a_scene_is_asked_voted_on_run_and_revealed_with_its_numbers(lesson):
    page = lesson("en-US")
    press(page, "Ask")
    press(page, "Vote a)")
    expect(page.get_by_text("Votes: 1")).to_be_visible(timeout=WAIT_MS)
    press(page, "Close vote")
    expect(page.get_by_text("150", exact=True)).to_have_count(0, timeout=WAIT_MS)
    press(page, "Start scene")
    status = page.locator("#bs-lesson-status")
    expect(status).to_contain_text(re.compile("Run A|Run B"), timeout=WAIT_MS)
    expect(status).to_contain_text("Measured.", timeout=2 * WAIT_MS)
    press(page, "Reveal")
    row = page.locator(".bs-lesson tr", has_text="iterations until all had ended")
    expect(row.locator("td")).to_have_text(["iterations until all had ended", "150", "83", "12"], timeout=WAIT_MS)
    expect(page.locator("#bs-lesson-verdict")).to_contain_text("B needs fewer")
    expect(page.locator(".bs-choice.bs-right")).to_contain_text("B needs fewer")
    expect(page.get_by_text("toy (random weights)")).to_be_visible()

    press_key(page, "b")
    expect(page.locator("[data-testid=stSidebar]")).to_be_hidden(timeout=WAIT_MS)
    expect(row.locator("td").nth(1)).to_be_in_viewport()
    expect(page.locator(".bs-choice.bs-right")).to_be_in_viewport()
    settles(page, SMALL_TEXT, [], FLOOR_PX[1440])

    korean = lesson("ko-KR")
    expect(korean.locator("#bs-lesson-verdict")).to_contain_text("측정했고, 이론의 예상과 같습니다.", timeout=WAIT_MS)
    press(page, "Give back my settings")
    expect(page.get_by_role("button", name="Give back my settings")).to_be_disabled(timeout=WAIT_MS)
    press(page, "Next scene")
    page.locator("[data-testid=stVegaLiteChart] svg").wait_for(timeout=WAIT_MS)
    settles(page, SMALL_TEXT, [], FLOOR_PX[1440])
    page.set_viewport_size({"width": 1920, "height": 1080})
    expect(page.locator("[data-testid=stVegaLiteChart] svg")).to_have_count(1)
    settles(page, COVERED, False)
    expect(korean.locator(".bs-lesson h2")).to_have_text("배치는 언제 재구성되는가?", timeout=WAIT_MS)
