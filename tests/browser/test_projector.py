"""Projector mode and the keyboard, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dashboard.i18n import translator
from dashboard.keys import KEYS
from tests.browser.conftest import WAIT_MS, settles
from tests.browser.test_live_page import iteration, wait_for

pytestmark = pytest.mark.browser

FLOOR_PX = {1440: 24, 1920: 32}
"""Width of the image to the smallest font that is 12 minutes of arc high at 5 m, on an image 2 m wide."""
SMALL_TEXT = """floor => {
  const small = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility() || element.closest('style, script')) continue;
    const box = element.getBoundingClientRect();
    const size = parseFloat(getComputedStyle(element).fontSize) * (element.currentCSSZoom ?? 1);
    if (box.width > 1 && box.height > 1 && size < floor - 0.5) small.push([node.textContent.slice(0, 40), size]);
  }
  return small;
}"""

HIDDEN = """() => {
  const main = document.querySelector('[data-testid=stMain]');
  return [main.scrollWidth - main.clientWidth, main.scrollHeight - main.clientHeight];
}"""


NARROW = """() => [...document.querySelectorAll('[data-testid=stVegaLiteChart] svg')]
  .map(svg => svg.getBoundingClientRect().width / innerWidth).filter(share => share < 0.9 || share > 1)"""
"""Charts that do not fill the width, or are wider."""
READ_DOWN = (("request", 1), ("numbers", 2), ("experiments", 0))
"""Pages that are read by going down them, and their charts while no experiment was made."""


@pytest.fixture
def open_page(open_page):
    """Pages that have settled: keys are heard only then."""

    def settled(*arguments):
        page = open_page(*arguments)
        page.wait_for_timeout(5000)
        return page

    return settled


def press(page, key: str) -> None:
    """On the page, not on a control that a click before has left focused and that has its own use for the key."""
    page.evaluate("() => document.activeElement?.blur()")
    page.keyboard.press(key)


def hold(page) -> None:
    if "bs-held" not in (page.locator(".bs-pill").get_attribute("class") or ""):
        press(page, " ")
    expect(page.locator(".bs-pill.bs-held")).to_be_visible(timeout=WAIT_MS)
    page.wait_for_timeout(1000)


def let_go(page) -> None:
    press(page, "p")
    expect(page.locator(".bs-pill.bs-live")).to_be_visible(timeout=WAIT_MS)


def ask_for_work(page) -> None:
    """Best of an engine that is held: what it runs freely may be done before it stops, and then no step is possible."""
    page.get_by_role("button", name=re.compile("Burst of")).click()
    page.wait_for_timeout(500)


def test_each_press_of_a_key_is_one_iteration_however_fast_it_is_pressed(open_page):
    page = open_page()
    hold(page)
    ask_for_work(page)
    before = iteration(page)
    for key in ("n", "n", "n", "ArrowRight", "n"):
        press(page, key)
    wait_for(page, "n => +document.querySelector('#bs-step').innerText.replaceAll(',', '') >= n", before + 5)
    page.wait_for_timeout(1500)
    assert iteration(page) == before + 5
    let_go(page)


def test_a_key_that_is_held_down_counts_once_and_a_text_field_keeps_its_keys(open_page):
    page = open_page()
    hold(page)
    ask_for_work(page)
    before = iteration(page)
    page.evaluate("() => document.activeElement?.blur()")
    for _ in range(4):
        page.keyboard.down("n")  # without "up" in between, playwright marks them as repeats
    page.keyboard.up("n")
    page.get_by_role("tab", name="Your request").click()
    field = page.get_by_role("textbox").first
    field.click()
    page.keyboard.type("n n b 1")
    page.wait_for_timeout(2000)
    assert iteration(page) == before + 1
    assert field.input_value() == "n n b 1"
    expect(page.locator(".bp-caption")).to_have_count(0, timeout=WAIT_MS)
    let_go(page)


@pytest.mark.parametrize(("locale", "language"), [("en-US", "en"), ("ko-KR", "ko")])
def test_the_list_of_keys_names_all_of_them_in_the_language_of_the_page(open_page, locale, language):
    page = open_page(locale)
    press(page, "?")
    dialog = page.locator("dialog")
    expect(dialog).to_be_visible()
    for key in KEYS:
        expect(dialog).to_contain_text(translator(language)(key.words))
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def reads_down(page, width: int) -> None:
    """The pages after the live one, in projector mode: what is on them is large enough, charts fill the image's width
    and nothing lies beside it."""
    for place, (name, charts) in enumerate(READ_DOWN, start=1):
        page.locator("[data-testid=stSidebar] [role=radio]").nth(place).dispatch_event("click")
        wait_for(page, "name => new URLSearchParams(location.search).get('view') === name", name)
        expect(page.locator(".bp-caption")).to_have_count(0, timeout=WAIT_MS)
        expect(page.locator("[data-testid=stVegaLiteChart] svg")).to_have_count(charts, timeout=WAIT_MS)
        settles(page, SMALL_TEXT, [], FLOOR_PX[width])
        settles(page, f"() => ({HIDDEN})()[0]", 0)
        settles(page, NARROW, [])
    page.locator("[data-testid=stSidebar] [role=radio]").first.dispatch_event("click")
    expect(page.locator(".bp-caption")).to_be_visible(timeout=WAIT_MS)


@pytest.mark.parametrize("width", [1440, 1920])
def test_a_room_reads_everything_from_five_metres(open_page, server, width):
    page = open_page("ko-KR")
    page.set_viewport_size({"width": width, "height": width * 9 // 16 + 90 * (width == 1440)})
    press(page, "b")
    expect(page.locator(".bp-caption")).to_be_visible(timeout=WAIT_MS)
    assert "projector=1" in page.url
    expect(page.locator("[data-testid=stSidebar]")).to_be_hidden(timeout=WAIT_MS)
    for key, charts in (("1", 2), ("2", 1), ("3", 1), ("4", 0)):
        press(page, key)
        expect(page.locator("[data-testid=stVegaLiteChart] svg")).to_have_count(charts, timeout=WAIT_MS)
        page.wait_for_timeout(1500)
        settles(page, SMALL_TEXT, [], FLOOR_PX[width])
        settles(page, HIDDEN, [0, 0])
    sizes = "[...document.querySelectorAll('.bp-tile b')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    values = page.evaluate(f"() => {sizes}")
    assert len(values) == 3
    assert min(values) >= 64
    back = "document.querySelector('.stApp').matches('*') && getComputedStyle(document.querySelector('.stApp'))"
    shown = page.evaluate(f"() => {back}.backgroundColor")
    press(page, "t")
    wait_for(page, f"old => {back}.backgroundColor !== old", shown)
    page.wait_for_timeout(2000)  # the listener that the other theme has put up hears it, and it alone
    press(page, "?")
    expect(page.locator("dialog:visible")).to_have_count(1, timeout=WAIT_MS)
    page.keyboard.press("Escape")
    press(page, "t")
    wait_for(page, f"old => {back}.backgroundColor === old", shown)
    page.wait_for_timeout(2000)
    press(page, "Shift+ArrowLeft")
    expect(page.locator(".bs-past")).to_be_visible(timeout=WAIT_MS)
    press(page, "l")
    expect(page.locator(".bs-past")).to_have_count(0, timeout=WAIT_MS)
    if width == 1440:
        reads_down(page, width)
    press(page, "b")
    expect(page.locator(".bp-caption")).to_have_count(0, timeout=WAIT_MS)
    expect(page.locator("[data-testid=stSidebar]")).to_be_visible(timeout=WAIT_MS)
