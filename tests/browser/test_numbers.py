"""Compare two policies on the page of numbers, and take pictures and tables away, in a real browser."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS
from tests.browser.test_live_page import slide

pytestmark = pytest.mark.browser

CHARTS = "[data-testid=stVegaLiteChart]"
PNG = b"\x89PNG\r\n\x1a\n"


def numbers_page(open_page, server, locale="en-US"):
    page = open_page(locale)
    page.goto(f"{server.url}/?view=numbers")
    page.locator(f"{CHARTS} svg").nth(1).wait_for()
    return page


def saved(page, press) -> bytes:
    """What arrives as a file when something is pressed."""
    with page.expect_download(timeout=WAIT_MS) as arriving:
        press()
    return Path(arriving.value.path()).read_bytes()


def lines_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))


def width_of(png: bytes) -> int:
    assert png.startswith(PNG)
    return int.from_bytes(png[16:20], "big")


def picture_of(page, chart) -> bytes:
    """The chart as the button over it saves it; the button shows while the chart is pointed at."""
    name = chart.get_attribute("aria-label")
    chart.hover()
    return saved(page, page.get_by_role("button", name=f"Download as PNG: {name}", exact=True).click)


def test_two_policies_side_by_side_and_their_tables_as_files(open_page, server):
    live = open_page()
    live.get_by_role("button", name="Burst of").click()
    live.wait_for_timeout(4000)
    before = int(live.locator("#bs-version").get_attribute("data-version"))
    slide(live, "max_num_batched_tokens", "ArrowLeft")
    changed = "v => +document.querySelector('#bs-version').dataset.version > v"
    live.wait_for_function(changed, arg=before, timeout=WAIT_MS)
    live.wait_for_timeout(2000)
    page = numbers_page(open_page, server)
    table = page.locator(".bs-epochs").first
    expect(table).to_contain_text("max_num_batched_tokens", timeout=WAIT_MS)
    expect(table.locator("tbody tr")).to_have_count(2)
    page.get_by_role("radio", name="ITL").or_(page.get_by_role("button", name="ITL", exact=True)).first.click()
    expect(page.get_by_text("ITL: between two tokens")).to_be_visible()
    page.get_by_role("button", name="Definitions").click()
    expect(page.get_by_text("vllm:inter_token_latency_seconds")).to_be_visible()
    page.keyboard.press("Escape")
    requests = lines_of(saved(page, page.get_by_role("button", name="Table as CSV").click))
    assert requests
    assert {"request_id", "ttft_ms", "tpot_ms", "epoch"} <= requests[0].keys()
    page.get_by_placeholder("Filter rows by words").fill("nothing has this word")
    page.keyboard.press("Enter")
    expect(page.get_by_text("0 rows")).to_be_visible()
    curves = lines_of(saved(page, page.get_by_role("button", name="Curves as CSV").click))
    assert {row["metric"] for row in curves} == {"ttft", "itl", "tpot", "queue", "e2e"}
    tokens = lines_of(saved(page, page.get_by_role("button", name="Tokens as CSV").click))
    assert sum(int(row["tokens"]) for row in tokens) > 0


def test_every_chart_is_saved_as_a_picture_with_the_mouse_and_by_keyboard(open_page, server):
    page = numbers_page(open_page, server)
    for i in range(2):
        assert width_of(picture_of(page, page.locator(CHARTS).nth(i))) > 600
    page.mouse.move(5, 5)
    button = page.get_by_role("button", name="Download as PNG").first
    button.focus()
    expect(page.locator("[data-testid=stElementToolbar]").first).to_have_css("opacity", "1")
    assert width_of(saved(page, lambda: page.keyboard.press("Enter"))) > 600


def test_live_charts_are_saved_as_pictures_and_tables(open_page):
    page = open_page()
    for i in range(4):
        assert width_of(picture_of(page, page.locator(CHARTS).nth(i))) > 200
    page.get_by_role("button", name="Save charts and data").click()
    for what in ("Queue", "Running", "KV block map", "Lanes", "Lines over the iterations"):
        content = saved(page, page.get_by_role("button", name=f"{what} as CSV").click)
        assert content.decode("utf-8-sig").splitlines()[0].count(",") >= 1, what


def test_the_page_speaks_korean(open_page, server):
    page = numbers_page(open_page, server, "ko-KR")
    expect(page.get_by_text("에포크별 백분위수")).to_be_visible()
    zero = page.locator(CHARTS).first.locator("svg text", has_text=re.compile(r"^0[.0]* m?s$"))
    expect(zero).to_have_count(0, timeout=WAIT_MS)
    page.get_by_text("선형", exact=True).click()
    expect(zero).to_have_count(1, timeout=WAIT_MS)
    expect(page.locator("[data-testid=stDataFrame]")).to_contain_text("대기 시간(ms)", timeout=WAIT_MS)
    expect(page.get_by_role("button", name="표 CSV")).to_be_visible()
    assert lines_of(saved(page, page.get_by_role("button", name="토큰 CSV").click))
