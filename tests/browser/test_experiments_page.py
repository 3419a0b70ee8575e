"""Begin a tiny experiment on the page, watch it, and read what came out, as a user does."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.serving import dashboard

pytestmark = pytest.mark.browser

CHART = "[data-testid=stVegaLiteChart] svg"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    with dashboard(cache / "log", BATCHSCOPE_RATE="2", BATCHSCOPE_CACHE=str(cache)) as running:
        yield running


def section(page, name: str) -> None:
    page.locator("[data-testid=stMain]").get_by_role("radio", name=name, exact=True).or_(
        page.locator("[data-testid=stMain]").get_by_role("button", name=name, exact=True)
    ).first.click()


def test_an_a_b_is_begun_watched_and_read_and_the_engine_is_held_meanwhile(browser, server):
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{server.url}/?view=experiments", wait_until="commit")
    for label, value in (("Requests", "6"), ("rate (1/s)", "50"), ("Repeats", "2"), ("high", "40")):
        field = page.get_by_label(label, exact=True).first
        field.fill(value)
        field.press("Enter")
    expect(page.get_by_text("4 runs of 6 requests")).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("The live engine is held meanwhile.")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("of 4 runs").first).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("No experiment runs.")).to_be_visible(timeout=WAIT_MS)
    section(page, "Results")
    expect(page.get_by_text("vllm-v1 against static")).to_be_visible(timeout=WAIT_MS)
    page.locator(CHART).first.wait_for()
    expect(page.locator(CHART).first.get_by_text("Output tokens / s")).to_be_visible()
    section(page, "Claim card")
    expect(page.get_by_text("No headline number")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("What this does not support")).to_be_visible()
    section(page, "Fork and race")
    page.get_by_role("button", name="Fork and race").last.click()
    expect(page.locator("#bs-held-out")).to_contain_text("held out", timeout=WAIT_MS)
    page.reload(wait_until="commit")  # the folder is there for every session, also for one that begins now
    section(page, "Results")
    expect(page.get_by_text("done · 4 of 4 runs")).to_be_visible(timeout=WAIT_MS)
    context.close()
