"""A room of 25: what their open pages cost the runner and the page's server, and whether the server's memory stays.

    python benchmarks/bench_room.py [--model toy] [--presenters 1] [--audience 25] [--rounds 4] [--cycles 6]

Viewers speak the page's protocol and draw nothing (``light_viewer.py``), so what is measured is the server. Windows
without and with pages alternate. Where there are two cores, the runner has one of them to itself. Iterations are read
off /metrics. In each cycle the whole room comes, stays and goes; sessions are released a second after they are left
(Streamlit's default is two minutes, which would only take longer).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from benchmarks.light_viewer import Crowd
from tests.browser.serving import START_S, Server, dashboard, wait_until

TOKEN = "a-token-for-the-bench"
STEPS = re.compile(r"^vllm:iteration_tokens_total_count\{[^}]*\} (\S+)$", re.MULTILINE)
WARM_S = 5
STAY_S = 6


def steps(server: Server) -> tuple[float, float]:
    """(seconds, iterations so far)."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
        found = STEPS.search(answer.read().decode())
    return time.monotonic(), float(found.group(1)) if found else 0.0


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def pin(server: Server) -> bool:
    """Give the runner a core of its own; False where there is none to give."""
    cores = sorted(os.sched_getaffinity(0))
    worker = server.worker()
    if len(cores) < 2 or worker is None:
        return False
    for process, own in ((worker, cores[-1:]), (psutil.Process(server.process.pid), cores[:-1])):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, own)
        os.sched_setaffinity(process.pid, own)
    os.sched_setaffinity(0, cores[:-1])
    return True


async def window(server: Server, crowd: Crowd, seconds: float) -> dict[str, float]:
    """One stretch with the pages that are open."""
    process = psutil.Process(server.process.pid)
    ticks, size = ([getattr(v.seen, name) for v in crowd.viewers] for name in ("ticks", "size"))
    (begin, first), busy = await asyncio.to_thread(steps, server), cpu_s(process)
    await asyncio.sleep(seconds)
    (end, last), used = await asyncio.to_thread(steps, server), cpu_s(process) - busy
    wall = end - begin
    hz = [(v.seen.ticks - t) / wall for v, t in zip(crowd.viewers, ticks, strict=True)]
    kb = [(v.seen.size - s) / wall / 1000 for v, s in zip(crowd.viewers, size, strict=True)]
    return {
        "iterations_per_s": (last - first) / wall, "server_core": used / wall,
        "presenter_hz": hz[0] if hz else 0.0, "audience_hz": statistics.median(hz[1:]) if hz[1:] else 0.0,
        "slowest_audience_hz": min(hz[1:]) if hz[1:] else 0.0, "audience_kb_per_s": statistics.median(kb[1:] or [0.0]),
    }  # fmt: skip


async def speed(server: Server, arguments: argparse.Namespace) -> dict[str, Any]:
    """Windows in turn: nobody, the room, the room, nobody, and so on."""
    found: dict[str, list[dict[str, float]]] = {"no page": [], "room": []}
    for turn in range(arguments.rounds):
        for name in ("no page", "room") if turn % 2 == 0 else ("room", "no page"):
            crowd = Crowd(server.url, TOKEN)
            if name == "room":
                await crowd.enter(arguments.audience, arguments.presenters)
            await asyncio.sleep(WARM_S)
            found[name].append(await window(server, crowd, arguments.seconds))
            await crowd.leave()
    middle = {
        name: {key: round(statistics.median(w[key] for w in windows), 3) for key in windows[0]}
        for name, windows in found.items()
    }
    pairs = [b["iterations_per_s"] / a["iterations_per_s"] for a, b in zip(*found.values(), strict=True)]
    return {
        **middle,
        "share_of_speed_alone": [round(p, 3) for p in pairs],
        "median": round(statistics.median(pairs), 3),
    }


async def memory(server: Server, arguments: argparse.Namespace) -> list[float]:
    """Resident megabytes of the server after each time the room has come and gone."""
    process, found = psutil.Process(server.process.pid), []
    for _ in range(arguments.cycles):
        crowd = Crowd(server.url, TOKEN)
        await crowd.enter(arguments.audience, arguments.presenters)
        await asyncio.sleep(STAY_S)
        await crowd.leave()
        await asyncio.sleep(3)
        found.append(round(process.memory_info().rss / 2**20, 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--presenters", type=int, default=1, help="pages with all controls, at 4 Hz")
    parser.add_argument("--audience", type=int, default=25, help="pages that only look, at 1 Hz")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--cycles", type=int, default=6)
    arguments = parser.parse_args()
    environment = {
        "BATCHSCOPE_MODEL": arguments.model, "BATCHSCOPE_RATE": "10", "BATCHSCOPE_PRESENTER_TOKEN": TOKEN,
        "BATCHSCOPE_RENDERER": "canvas", "STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": "1",
    }  # fmt: skip
    with dashboard(Path(tempfile.mkdtemp(prefix="batchscope-bench-")) / "log", **environment) as server:
        wait_until(lambda: steps(server)[1] > 100, START_S, "a hundred iterations")
        report: dict[str, Any] = {
            "model": arguments.model,
            "presenters": arguments.presenters,
            "audience": arguments.audience,
            "pinned": pin(server),
        }
        if arguments.rounds:
            report["speed"] = asyncio.run(speed(server, arguments))
        if arguments.cycles:
            report["server_mb_after_each_cycle"] = asyncio.run(memory(server, arguments))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
