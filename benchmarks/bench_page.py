"""Cost of an open page: ticks a second, bytes and browser main-thread milliseconds a tick, server CPU a tick.

    python benchmarks/bench_page.py [--model toy] [--seconds 20] [--pages 1] [--num-blocks 192] [--rate 2]

Starts the dashboard as a user does and opens it in headless Chromium (CHROMIUM, or the system's). Browser and server
share the machine, so read ratios rather than absolute milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from playwright.sync_api import sync_playwright

from tests.browser.serving import chromium, dashboard

WARM_S = 6
TICKS = """() => {
  window.__ticks = [];
  const strip = document.querySelector('#bs-strip').closest('[data-testid=stVerticalBlock]');
  new MutationObserver(() => {
    const now = performance.now(), last = window.__ticks.at(-1);
    if (last === undefined || now - last > 120) window.__ticks.push(now);
  }).observe(strip, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
NODES = "() => [...document.querySelectorAll('[data-testid=stVegaLiteChart] canvas')].map((n, i) => (n.__kept ??= i))"


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main_thread_s(session) -> float:
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return metrics["TaskDuration"]


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    environment = {
        "BATCHSCOPE_MODEL": arguments.model, "BATCHSCOPE_RENDERER": "canvas", "BATCHSCOPE_RATE": str(arguments.rate),
        "BATCHSCOPE_NUM_BLOCKS": str(arguments.num_blocks),
    }  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="batchscope-bench-"))
    with dashboard(folder / "log", **environment) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        received = [0]
        pages = []
        for _ in range(arguments.pages):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.on("websocket", lambda ws: ws.on("framereceived", lambda data: received.append(len(data))))
            page.goto(server.url)
            page.locator("[data-testid=stVegaLiteChart] canvas").nth(3).wait_for(timeout=90_000)
            pages.append(page)
        first = pages[0]
        first.wait_for_timeout(WARM_S * 1000)
        session = first.context.new_cdp_session(first)
        session.send("Performance.enable")
        first.evaluate(TICKS)
        first.evaluate(NODES)
        received.clear()
        process = psutil.Process(server.process.pid)
        started, server_before, browser_before = time.monotonic(), cpu_s(process), main_thread_s(session)
        first.wait_for_timeout(arguments.seconds * 1000)
        wall = time.monotonic() - started
        server_s, browser_s = cpu_s(process) - server_before, main_thread_s(session) - browser_before
        ticks = first.evaluate("() => window.__ticks")
        kept = first.evaluate(NODES) == list(range(4))
        browser.close()
    gaps = [b - a for a, b in pairwise(ticks)]
    count = max(1, len(ticks))
    return {
        "pages": arguments.pages,
        "model": arguments.model,
        "num_blocks": arguments.num_blocks,
        "seconds": round(wall, 1),
        "hz": round(count / wall, 2),
        "interval_ms_p95": round(statistics.quantiles(gaps, n=20)[-1]) if len(gaps) > 20 else None,
        "kilobytes_per_tick_and_page": round(sum(received) / 1000 / count / arguments.pages, 1),
        "browser_main_thread_ms_per_tick": round(1000 * browser_s / count, 1),
        "server_cpu_ms_per_tick_and_page": round(1000 * server_s / count / arguments.pages, 1),
        "server_cpu_share_of_a_core_per_page": round(server_s / wall / arguments.pages, 3),
        "chart_nodes_kept": kept,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--pages", type=int, default=1)
    parser.add_argument("--num-blocks", type=int, default=192)
    parser.add_argument("--rate", type=float, default=2.0)
    print(json.dumps(measure(parser.parse_args()), indent=2))
