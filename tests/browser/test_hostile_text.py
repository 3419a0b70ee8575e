"""Text that people type is shown as text, whatever it contains, and stays in its place."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS, settles

pytestmark = pytest.mark.browser

MARKUP = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><style>body{display:none}</style>[a](javascript:alert(3))"
)
OVERRIDE = "\u202e\u2066desrever\u200b\u200d\ufeff"
LONG = "W" * 700
IN_PLACE = """() => {
  const box = name => document.querySelector(name)?.getBoundingClientRect() ?? {};
  const [prompt, strip] = ['.bs-prompt', '#bs-strip'].map(box);
  return [0 < prompt.width && prompt.right <= 1440, 0 < strip.height && strip.height < 100];
}"""
"""The prompt does not reach out of the page, and the strip stays low."""
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
    expect(page.locator("img[src=x]")).to_have_count(0, timeout=WAIT_MS)
    settles(page, "() => document.documentElement.scrollWidth <= window.innerWidth", True)
    settles(page, IN_PLACE, [True, True])


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
