"""Text that people type is shown as text, whatever it contains, and stays in its place."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS

pytestmark = pytest.mark.browser

MARKUP = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><style>body{display:none}</style>[a](javascript:alert(3))"
)
OVERRIDE = "\u202e\u2066desrever\u200b\u200d\ufeff"
LONG = "W" * 700
HOSTILE = f"{MARKUP} {OVERRIDE} $x^2$ :material/home: **bold** {LONG}"


def test_a_hostile_prompt_runs_nothing_and_breaks_no_line(open_page):
    page = open_page()
    alarms: list[str] = []
    page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    page.wait_for_timeout(3000)  # a page that is still being put up may draw its tabs once more
    tab = page.get_by_role("tab", name="Your request")
    tab.click()
    expect(tab).to_have_attribute("aria-selected", "true", timeout=WAIT_MS)
    page.get_by_placeholder("Write a prompt of your own").fill(HOSTILE)
    page.get_by_role("button", name="Send").click()
    shown = page.locator(".bs-prompt")
    expect(shown).to_contain_text("<img src=x onerror=alert(1)>", timeout=WAIT_MS)
    text = shown.inner_text()
    assert not set(text) & set("\u202e\u2066\u200b\u200d\ufeff")
    page.wait_for_timeout(1000)
    assert alarms == []
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    box, strip = shown.bounding_box(), page.locator("#bs-strip").bounding_box()
    assert box["x"] + box["width"] <= 1440
    assert strip["height"] < 100


@pytest.mark.parametrize("name", ["lang", "view", "request", "step", "run", "projector"])
def test_a_hostile_address_runs_nothing(open_page, server, name):
    page = open_page()
    alarms: list[str] = []
    page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    page.goto(f"{server.url}/?{name}=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%E2%80%AE")
    page.locator("#bs-strip").wait_for(timeout=WAIT_MS)
    page.wait_for_timeout(1500)
    assert alarms == []
    assert page.locator("img[src=x]").count() == 0
