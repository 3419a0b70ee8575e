"""Cost of an open page: ticks a second, bytes and browser main-thread milliseconds a tick, server CPU a tick.

    python benchmarks/bench_page.py [--model toy] [--seconds 20] [--pages 1] [--num-blocks 192] [--rate 2]
                                    [--max-num-seqs 64] [--query "view=live"] [--profile FILE]

Starts the dashboard as a user does and opens it in headless Chromium (CHROMIUM, or the system's). Main-thread
milliseconds are CPU time of that thread, so a busy machine does not inflate them as it does wall time. Kilobytes are
counted twice: as the page reads them, and as they come over the network (the socket is compressed).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from playwright.sync_api import sync_playwright

from tests.browser.relay import Relay
from tests.browser.serving import chromium, dashboard

TICKS = """() => {
  window.__ticks = [];
  const strip = document.querySelector('#bs-strip').closest('[data-testid=stVerticalBlock]');
  new MutationObserver(() => {
    const now = performance.now(), last = window.__ticks.at(-1);
    if (last === undefined || now - last > 120) window.__ticks.push(now);
  }).observe(strip, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
CHARTS = "[data-testid=stVegaLiteChart] canvas"
NODES = f"() => [...document.querySelectorAll('{CHARTS}')].map((n, i) => (n.__kept ??= i))"


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main_thread_s(session) -> float:
    """CPU seconds of the page's main thread ("threadTicks"), not wall time of its tasks."""
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return metrics["TaskDuration"]


def crowd(page, lanes: int) -> None:
    """Set ``max_num_seqs`` by hand, as a user does, and let that many requests in."""
    thumb = page.locator("[data-testid=stSlider]", has_text="max_num_seqs").locator("input[type=range]").first
    thumb.focus()
    thumb.press("End")
    for _ in range(max(1, lanes // 24)):
        page.get_by_role("button", name="Burst of").click()
        page.wait_for_timeout(500)


def watch(pages: list, received: list[int]) -> None:
    for page in pages:
        page.evaluate(TICKS)
        page.evaluate(NODES)
    received.clear()


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    environment = {
        "BATCHSCOPE_MODEL": arguments.model, "BATCHSCOPE_RENDERER": "canvas", "BATCHSCOPE_RATE": str(arguments.rate),
        "BATCHSCOPE_NUM_BLOCKS": str(arguments.num_blocks),
    }  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="batchscope-bench-"))
    with (
        dashboard(folder / "log", **environment) as server,
        closing(Relay(server.url)) as relay,
        sync_playwright() as d,
    ):
        browser = d.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        received: list[int] = []
        pages = []
        for _ in range(arguments.pages):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.on("websocket", lambda ws: ws.on("framereceived", lambda data: received.append(len(data))))
            page.goto(f"{relay.url}/?{arguments.query}")
            page.locator(CHARTS).nth(arguments.charts - 1).wait_for(timeout=90_000)
            pages.append(page)
        first = pages[0]
        if arguments.max_num_seqs:
            crowd(first, arguments.max_num_seqs)
        first.wait_for_timeout(arguments.warm * 1000)
        session = first.context.new_cdp_session(first)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        watch(pages, received)
        process = psutil.Process(server.process.pid)
        started, server_before, browser_before, wire_before = (
            time.monotonic(), cpu_s(process), main_thread_s(session), relay.sent
        )  # fmt: skip
        if arguments.profile:
            session.send("Profiler.enable")
            session.send("Profiler.start")
        first.wait_for_timeout(arguments.seconds * 1000)
        if arguments.profile:
            Path(arguments.profile).write_text(json.dumps(session.send("Profiler.stop")["profile"]), encoding="utf-8")
        wall = time.monotonic() - started
        server_s, browser_s = cpu_s(process) - server_before, main_thread_s(session) - browser_before
        on_wire = relay.sent - wire_before
        ticks = first.evaluate("() => window.__ticks")
        kept = first.evaluate(NODES) == list(range(arguments.charts))
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
        "kilobytes_read_per_tick_and_page": round(sum(received) / 1000 / count / arguments.pages, 1),
        "kilobytes_on_the_wire_per_tick_and_page": round(on_wire / 1000 / count / arguments.pages, 1),
        "browser_main_thread_cpu_ms_per_tick": round(1000 * browser_s / count, 1),
        "server_cpu_ms_per_tick_and_page": round(1000 * server_s / count / arguments.pages, 1),
        "server_cpu_share_of_a_core_per_page": round(server_s / wall / arguments.pages, 3),
        "chart_nodes_kept": kept,
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--pages", type=int, default=1)
    parser.add_argument("--num-blocks", type=int, default=192)
    parser.add_argument("--rate", type=float, default=2.0)
    parser.add_argument("--max-num-seqs", type=int, default=0, help="0 = as the dashboard starts")
    parser.add_argument("--warm", type=int, default=6, help="seconds before measuring")
    parser.add_argument("--charts", type=int, default=5, help="charts that the page must show")
    parser.add_argument("--query", default="lang=en")
    parser.add_argument("--profile", default="", help="file for a CPU profile of the first page")
    print(json.dumps(measure(parser.parse_args()), indent=2))
