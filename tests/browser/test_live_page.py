"""The live page in a real browser, on a real worker."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from playwright.sync_api import expect

from tests.browser.conftest import LAST_CHART, WAIT_MS

pytestmark = pytest.mark.browser

MARK_NODES = """() => document.querySelectorAll('[data-testid=stVegaLiteChart] svg').forEach((n, i) => n.__kept = i)"""
KEPT_NODES = """() => [...document.querySelectorAll('[data-testid=stVegaLiteChart] svg')].map(n => n.__kept)"""
DRAWN = """() => [...document.querySelectorAll('[data-testid=stVegaLiteChart] svg')].map(n => n.innerHTML)"""

CHARTS = list(range(LAST_CHART + 1))

AFTER = "n => +(document.querySelector('#bs-step')?.innerText ?? '0').replaceAll(',', '') > n"


def iteration(page) -> int:
    return int(page.locator("#bs-step").inner_text().replace(",", ""))


def version(page) -> int:
    return int(page.locator("#bs-version").get_attribute("data-version"))


def wait_for(page, script: str, argument: object = None) -> None:
    page.wait_for_function(script, arg=argument, timeout=WAIT_MS)


def slide(page, label: str, key: str, times: int = 1) -> None:
    thumb = page.locator("[data-testid=stSlider]", has_text=label).locator("input[type=range]").first
    thumb.focus()
    for _ in range(times):
        page.keyboard.press(key)


@pytest.fixture
def page(open_page):
    """A page on a running engine, whatever the test before left."""
    page = open_page()
    page.wait_for_timeout(500)
    if "PAUSED" in page.locator(".bs-pill").inner_text():
        release(page)
    return page


def test_all_charts_move_and_no_chart_node_is_ever_replaced(page):
    page.evaluate(MARK_NODES)
    before = page.evaluate(DRAWN)
    page.get_by_role("button", name="Burst of").click()
    changed: set[int] = set()
    for _ in range(120):
        page.wait_for_timeout(250)
        changed |= {i for i, (old, new) in enumerate(zip(before, page.evaluate(DRAWN), strict=True)) if old != new}
        if changed == set(CHARTS):
            break
    assert changed == set(CHARTS), "queue, running set, block map, time lines and strip"
    page.wait_for_timeout(5000)
    assert page.evaluate(KEPT_NODES) == CHARTS


def test_the_charts_draw_without_a_warning(open_page):
    """Empty layers, unknown channels and infinite extents show up in the console of the browser and nowhere else."""
    told: list[str] = []
    page = open_page()
    page.on("console", lambda message: told.append(message.text) if message.type in ("warning", "error") else None)
    page.reload()
    page.locator("[data-testid=stVegaLiteChart] svg").nth(LAST_CHART).wait_for(timeout=WAIT_MS)
    page.wait_for_timeout(3000)
    assert told == []


def press_key(page, key: str, took_effect: str, argument: object) -> int:
    """Press a shortcut; once more where a page that still loads did not hear it. Returns how often it was pressed."""
    page.locator("body").press(key)
    try:
        page.wait_for_function(took_effect, arg=argument, timeout=15_000)
    except PlaywrightTimeoutError:
        page.locator("body").press(key)
        wait_for(page, took_effect, argument)
        return 2
    return 1


def hold(page) -> None:
    """Pause by the shortcut. A key heard late may toggle twice: the state decides, not the count."""
    for _ in range(6):
        page.locator("body").press("p")
        try:
            expect(page.locator(".bs-pill")).to_contain_text("PAUSED", timeout=15_000)
        except AssertionError:
            continue
        page.wait_for_timeout(1500)
        if "PAUSED" in page.locator(".bs-pill").inner_text():
            return
    raise AssertionError("the shortcut P does not pause the engine")


def release(page) -> None:
    # By the button: a key is no shortcut while a slider has the focus.
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".bs-pill")).to_contain_text(re.compile("LIVE|IDLE"), timeout=WAIT_MS)


def test_a_control_is_echoed_by_version_and_leaves_a_rule_with_a_word(page):
    page.evaluate(MARK_NODES)
    hold(page)
    old = version(page)
    slide(page, "max_num_batched_tokens", "ArrowLeft")
    expect(page.get_by_text(re.compile(r"In force from iteration [\d,]+ as policy v"))).to_be_visible(timeout=WAIT_MS)
    wait_for(page, "v => +document.querySelector('#bs-version').dataset.version > v", old)
    word = page.locator("[data-testid=stVegaLiteChart] svg text", has_text=re.compile("max_num_batched_tokens"))
    expect(word.first).to_be_attached(timeout=WAIT_MS)
    assert page.evaluate(KEPT_NODES) == CHARTS
    slide(page, "max_num_batched_tokens", "ArrowRight")
    release(page)


def test_key_presses_on_a_slider_are_all_applied(page):
    before = version(page)
    slide(page, "kv_block_limit", "ArrowLeft", times=6)
    # 192 blocks in 24 strides: six presses from "all" are six strides of 8.
    expect(page.locator("[data-testid=stSlider]", has_text="kv_block_limit")).to_contain_text("144", timeout=WAIT_MS)
    slide(page, "kv_block_limit", "ArrowRight", times=6)
    expect(page.locator("[data-testid=stSlider]", has_text="kv_block_limit")).to_contain_text("all", timeout=WAIT_MS)
    wait_for(page, "v => +document.querySelector('#bs-version').dataset.version > v", before)


def test_a_second_tab_follows_the_first(page, open_page):
    other = open_page()
    page.locator("[data-testid=stSidebar]").get_by_text("static", exact=True).first.click()
    expect(other.locator("#bs-strip")).to_contain_text("static batching", timeout=WAIT_MS)
    expect(other.get_by_role("radio", name="static")).to_be_checked(timeout=WAIT_MS)
    other.get_by_role("radio", name="continuous").locator("xpath=..").click(timeout=WAIT_MS)
    expect(page.locator("#bs-strip")).to_contain_text("continuous batching", timeout=WAIT_MS)


def test_pause_holds_the_engine_and_a_step_is_one_step(page):
    hold(page)
    page.get_by_role("button", name="Burst of").click()
    wait_for(page, "() => document.querySelector('#bs-tile-waiting .bs-value').innerText !== '0'")
    held = iteration(page)
    page.wait_for_timeout(1500)
    assert iteration(page) == held
    presses = press_key(page, "n", AFTER, held)
    page.wait_for_timeout(1500)
    assert held + 1 <= iteration(page) <= held + presses, "one iteration a press"
    held = iteration(page)
    page.get_by_role("button", name=re.compile("^Step")).click()
    wait_for(page, AFTER, held)
    page.wait_for_timeout(1500)
    assert iteration(page) == held + 1
    release(page)


def test_the_text_of_a_prompt_streams_and_hostile_text_stays_text(page):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    slide(page, "Pause after each iteration", "ArrowRight", times=2)
    expect(page.locator("[data-testid=stSlider]", has_text="Pause after")).to_contain_text("50 ms", timeout=WAIT_MS)
    page.get_by_role("tab", name="Your request").click()
    page.get_by_placeholder("Write a prompt of your own").fill("<img src=x onerror=alert(1)> why?")
    page.locator(".st-key-prompt\\.max_tokens input, [aria-label='max_tokens']").first.fill("120")
    page.get_by_role("button", name="Send").click()
    length = "() => (document.querySelector('#bs-text') || {innerText: ''}).innerText.length"
    wait_for(page, f"() => ({length})() > 0")
    first = page.evaluate(length)
    wait_for(page, f"n => ({length})() > n", first)
    second = page.evaluate(length)
    wait_for(page, f"n => ({length})() > n", second)
    assert page.locator(".bs-prompt").inner_text().startswith("<img")
    assert page.locator("[data-testid=stMain] img[src=x]").count() == 0
    assert not dialogs
    slide(page, "Pause after each iteration", "ArrowLeft", times=2)


def test_the_page_opens_in_the_language_of_the_browser(open_page):
    korean = open_page(locale="ko-KR")
    expect(korean.locator(".bs-title", has_text="대기열")).to_be_visible(timeout=WAIT_MS)
    korean.get_by_text("English", exact=True).first.click()
    expect(korean.locator(".bs-title", has_text="Queue")).to_be_visible(timeout=WAIT_MS)


def test_kill_minus_nine_of_the_worker_is_shown_and_survived_with_a_break(page, server):
    # At full speed the toy model would carry the break out of the window before anybody could look.
    slide(page, "Pause after each iteration", "ArrowRight", times=3)
    page.get_by_role("button", name="Burst of").click()
    worker = server.worker()
    assert worker is not None
    worker.kill()
    expect(page.locator(".bs-pill")).to_contain_text(
        re.compile("ENGINE DOWN|RESTARTING|STALE|STALLED|STARTING|LOADING"), timeout=WAIT_MS
    )
    expect(page.locator(".bs-pill")).to_contain_text(re.compile("LIVE|IDLE"), timeout=WAIT_MS)
    expect(page.locator("#bs-strip")).to_contain_text("restarts: 1", timeout=WAIT_MS)
    expect(page.locator("[data-testid=stVegaLiteChart] svg text", has_text="restart").first).to_be_attached(
        timeout=WAIT_MS
    )
    again = server.worker()
    assert again is not None
    assert again.pid != worker.pid
