"""CPU of an idle dashboard, as shares of a core: its worker and its server, without a page and with one.

    python benchmarks/bench_idle.py [--model toy] [--seconds 30]

No traffic. The server's share holds all of it: Streamlit, the runner's client and, with a page, what each tick draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from bench_viewers import open_page
from playwright.sync_api import sync_playwright

from tests.browser.serving import chromium, dashboard

SETTLE_S = 5


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def shares(processes: dict[str, psutil.Process], seconds: float) -> dict[str, float]:
    """Percent of one core that each of them uses."""
    before, started = {name: cpu_s(process) for name, process in processes.items()}, time.monotonic()
    time.sleep(seconds)
    spent = time.monotonic() - started
    return {name: round(100 * (cpu_s(process) - before[name]) / spent, 2) for name, process in processes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="batchscope-bench-"))
    environment = {"BATCHSCOPE_MODEL": arguments.model, "BATCHSCOPE_RENDERER": "canvas", "BATCHSCOPE_RATE": "0"}
    with dashboard(folder / "log", **environment) as server, sync_playwright() as driver:
        worker = server.worker()
        assert worker is not None
        processes = {"worker": worker, "server": psutil.Process(server.process.pid)}
        time.sleep(SETTLE_S)
        report = {"no page": shares(processes, arguments.seconds)}
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = open_page(browser, server.url)
        time.sleep(SETTLE_S)
        report["one page"] = shares(processes, arguments.seconds)
        page.context.close()
        time.sleep(SETTLE_S)
        report["page closed"] = shares(processes, arguments.seconds)
        browser.close()
    print(json.dumps({"model": arguments.model, "percent of a core": report}, indent=2))


if __name__ == "__main__":
    main()
