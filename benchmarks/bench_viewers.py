"""Speed of the runner with 0, 1 and 3 open pages, iterations a second, in one run and in turn.

    python benchmarks/bench_viewers.py [--model smollm2] [--seconds 20] [--rounds 2]

Traffic keeps the batch full (10 arrivals a second), so every iteration is a full one. The iteration number is read off
the page itself, by a page that is open only for the two readings where no page is to be open. Pages are drawn by
headless Chromium on the same machine: with two cores, what the runner loses is mostly the browser's own work.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.serving import chromium, dashboard

PAGES = (0, 1, 3)
WARM_S = 15


def open_page(browser: Browser, url: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US").new_page()
    page.goto(url)
    page.locator("[data-testid=stVegaLiteChart] canvas").nth(4).wait_for(timeout=90_000)
    return page


def reading(page: Page) -> tuple[float, int]:
    """(seconds, iteration) as the page's strip says now."""
    text = page.locator("#bs-strip").inner_text()
    found = re.search(r"iteration\s+([\d,]+)", text)
    assert found, f"no iteration in {text!r}"
    return time.monotonic(), int(found.group(1).replace(",", ""))


def window(browser: Browser, url: str, count: int, seconds: float) -> float:
    """Iterations a second while ``count`` pages are open."""
    pages = [open_page(browser, url) for _ in range(max(1, count))]
    begin = reading(pages[0])
    if count == 0:
        pages.pop().context.close()
    time.sleep(seconds)
    if count == 0:
        pages = [open_page(browser, url)]
    end = reading(pages[0])
    for page in pages:
        page.context.close()
    return (end[1] - begin[1]) / (end[0] - begin[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    environment = {"BATCHSCOPE_MODEL": arguments.model, "BATCHSCOPE_RENDERER": "canvas", "BATCHSCOPE_RATE": "10"}
    found: dict[int, list[float]] = {count: [] for count in PAGES}
    folder = Path(tempfile.mkdtemp(prefix="batchscope-bench-"))
    with dashboard(folder / "log", **environment) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        time.sleep(WARM_S)
        for turn in range(arguments.rounds):
            for count in PAGES if turn % 2 == 0 else PAGES[::-1]:
                found[count].append(window(browser, server.url, count, arguments.seconds))
        browser.close()
    alone = statistics.median(found[0])
    report = {
        str(count): {
            "iterations_per_s": [round(value, 2) for value in values],
            "share_of_alone": round(statistics.median(values) / alone, 3),
        }
        for count, values in found.items()
    }
    print(json.dumps({"model": arguments.model, "pages": report}, indent=2))


if __name__ == "__main__":
    main()
