"""A page left open: browser heap after a forced collection and resident memory of browser and server, over time.

    python benchmarks/soak_page.py [--minutes 120] [--every 60] [--model toy] [--num-blocks 192] [--rate 2]

One line of JSON a sample, then a summary: growth of the heap after the first ten minutes (or the first third of a
shorter run) to the mean of the last three samples, as a share, and in bytes a tick.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from playwright.sync_api import sync_playwright

from tests.browser.serving import chromium, dashboard

TICKS = """() => {
  window.__ticks = 0;
  let last = 0;
  const strip = document.querySelector('#bs-strip').closest('[data-testid=stVerticalBlock]');
  new MutationObserver(() => {
    const now = performance.now();
    if (now - last > 120) { window.__ticks += 1; last = now; }
  }).observe(strip, {subtree: true, childList: true, characterData: true, attributes: true});
}"""
SETTLED_S = 600
CHARTS = "[data-testid=stVegaLiteChart] canvas"


def heap_mb(session) -> float:
    """JavaScript heap in use after two forced collections."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"] / 1e6


def renderers_mb(pid: int) -> float:
    """Resident memory of the largest renderer below a process: that of the page."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if "--type=renderer" in child.cmdline():
                found.append(child.memory_info().rss / 1e6)
        except psutil.NoSuchProcess:
            continue
    return max(found, default=0.0)


def summary(samples: list[dict[str, float]], seconds: float) -> dict[str, float | str]:
    settled = min(SETTLED_S, seconds / 3)
    after = [s for s in samples if s["seconds"] >= settled]
    if len(after) < 4:
        return {"summary": "too short"}
    first, last = statistics.mean(s["heap_mb"] for s in after[:2]), statistics.mean(s["heap_mb"] for s in after[-3:])
    ticks = after[-2]["ticks"] - after[0]["ticks"]
    server = after[-1]["server_mb"] - after[0]["server_mb"]
    return {
        "settled_after_s": round(settled),
        "heap_growth": round(last / first - 1, 3),
        "heap_bytes_per_tick": round((last - first) * 1e6 / max(1, ticks)),
        "server_growth_mb": round(server, 1),
        "nodes_growth": after[-1]["nodes"] - after[0]["nodes"],
    }


def soak(arguments: argparse.Namespace) -> None:
    environment = {
        "BATCHSCOPE_MODEL": arguments.model, "BATCHSCOPE_RENDERER": "canvas", "BATCHSCOPE_RATE": str(arguments.rate),
        "BATCHSCOPE_NUM_BLOCKS": str(arguments.num_blocks),
    }  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="batchscope-soak-"))
    samples: list[dict[str, float]] = []
    with dashboard(folder / "log", **environment) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(f"{server.url}/?{arguments.query}")
        page.locator(CHARTS).nth(arguments.charts - 1).wait_for(timeout=90_000)
        page.evaluate(TICKS)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        process, started = psutil.Process(server.process.pid), time.monotonic()
        while time.monotonic() - started < arguments.minutes * 60:
            page.wait_for_timeout(arguments.every * 1000)
            metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
            samples.append(
                {
                    "seconds": round(time.monotonic() - started),
                    "ticks": page.evaluate("() => window.__ticks"),
                    "heap_mb": round(heap_mb(session), 1),
                    "nodes": metrics["Nodes"],
                    "listeners": metrics["JSEventListeners"],
                    "renderer_mb": round(renderers_mb(os.getpid()), 1),
                    "server_mb": round(process.memory_info().rss / 1e6, 1),
                }
            )
            print(json.dumps(samples[-1]), flush=True)
        browser.close()
    print(json.dumps(summary(samples, arguments.minutes * 60)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--every", type=int, default=60, help="seconds between two samples")
    parser.add_argument("--model", default="toy")
    parser.add_argument("--num-blocks", type=int, default=192)
    parser.add_argument("--rate", type=float, default=2.0)
    parser.add_argument("--charts", type=int, default=5, help="charts that the page must show")
    parser.add_argument("--query", default="lang=en")
    soak(parser.parse_args())
