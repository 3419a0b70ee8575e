"""Begin a tiny experiment on the page, watch it, and read what came out, as a user does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.serving import dashboard
from tests.browser.test_accessibility import violations
from tests.dashboard.experiment_folders import TINY, experiment

pytestmark = pytest.mark.browser

TOO_NARROW = """() => [...document.querySelectorAll('[data-testid=stMain] input[type=text]')]
  .filter(e => e.checkVisibility() && e.getBoundingClientRect().width > 1 && (e.value || e.placeholder))
  .filter(e => {
    const style = getComputedStyle(e), pen = document.createElement('canvas').getContext('2d');
    pen.font = style.font;
    const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return pen.measureText(e.value || e.placeholder).width > room;
  }).map(e => `${e.ariaLabel}: ${e.value || e.placeholder}`)"""
"""Boxes that do not show all that is in them."""
CHART = "[data-testid=stVegaLiteChart] svg"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    experiment(cache / "experiments", replace(TINY, kind="chunk"))
    with dashboard(cache / "log", BATCHSCOPE_RATE="2", BATCHSCOPE_CACHE=str(cache)) as running:
        yield running


WATCH = """() => new MutationObserver(() => {
  const text = document.querySelector('[data-testid=stMain]').innerText;
  if (window.idle === undefined && text.includes('Begun; its folder is'))
    window.idle = text.includes('No experiment runs.');
}).observe(document.body, {childList: true, subtree: true, characterData: true})"""
"""Notes whether the line on top still says that nothing runs when the form first says that something was begun."""


RED = """() => {
  const probe = document.body.appendChild(document.createElement('span'));
  probe.style.color = 'var(--bs-wrong)';
  const red = getComputedStyle(probe).color;
  probe.remove();
  return red;
}"""
"""What the style calls wrong, as the browser computes it."""


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
    repeats = page.get_by_label("Repeats", exact=True)
    line = repeats.locator("xpath=ancestor::*[@data-testid='stTextInputRootElement']")
    red = page.evaluate(RED)
    repeats.fill("two")
    repeats.press("Enter")
    expect(line).to_have_css("border-top-color", red, timeout=WAIT_MS)
    repeats.fill("2")
    repeats.press("Enter")
    expect(line).not_to_have_css("border-top-color", red, timeout=WAIT_MS)
    expect(page.get_by_text("4 runs of 6 requests")).to_be_visible(timeout=WAIT_MS)
    page.evaluate(WATCH)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Begun; its folder is")).to_be_visible(timeout=WAIT_MS)
    assert page.evaluate("window.idle") is False, "the line says that nothing runs after the form says it has begun"
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


@pytest.mark.parametrize(("theme", "locale"), [("dark", "en-US"), ("light", "ko-KR")])
def test_no_section_has_a_serious_violation_or_a_box_that_cuts_its_value(browser, server, theme, locale):
    context = browser.new_context(viewport={"width": 1400, "height": 900}, locale=locale, color_scheme=theme)
    page = context.new_page()
    page.set_default_timeout(3 * WAIT_MS)
    page.goto(f"{server.url}/?view=experiments", wait_until="commit")
    told = {}

    def look(name: str, ready: str) -> None:
        page.locator(ready).first.wait_for()
        page.wait_for_timeout(1000)
        found = [*violations(page), *page.evaluate(TOO_NARROW)]
        if found:
            told[name] = found

    look("start", ".st-key-exp-run button")
    for kind in (1, 2):
        page.locator(".st-key-exp-f-kind [role=radio]").nth(kind).click()
        look(f"start {kind}", f".st-key-exp-f-{('allocation_off', 'sizes')[kind - 1]}")
    page.locator(".st-key-exp-section [role=radio]").nth(2).click()
    look("race", "#bs-no-race, #bs-held-out")  # nobody has raced yet, or another test has
    page.locator(".st-key-exp-section [role=radio]").nth(3).click()
    look("what if", ".st-key-exp-whatif button")
    page.locator(".st-key-exp-section [role=radio]").nth(1).click()
    page.locator(".st-key-exp-r-part [role=radio]").first.wait_for()
    for place in range(page.locator(".st-key-exp-r-part [role=radio]").count()):
        page.locator(".st-key-exp-r-part [role=radio]").nth(place).click()
        look(f"results {place}", ".st-key-exp-r-part [role=radio]")
    assert told == {}
    context.close()
