"""What the peers' drivers share: arguments, warm-up size, and the one line of JSON they print."""

import argparse
import json
import resource
import statistics
import time
from pathlib import Path

WARM_UP_REQUESTS = 2
WARM_UP_TOKENS = 4


def arguments(*more):
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", type=Path, required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens-out", type=Path)
    for name, default in more:
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    return options, json.loads(options.workload.read_text())["requests"]


class Stopwatch:
    """Wall and CPU seconds of a block, and of each step in it."""

    def __init__(self):
        self.steps = []

    def __enter__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *problem):
        self.wall_s, self.cpu_s = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def step(self, work):
        cpu = time.process_time()
        result = work()
        self.steps.append(time.process_time() - cpu)
        return result


def report(options, engine, version, watch, outputs, steps):
    tokens = sum(map(len, outputs.values()))
    if options.tokens_out:
        options.tokens_out.write_text(json.dumps(outputs))
    line = {
        "engine": engine,
        "version": version,
        "output_tokens": tokens,
        "wall_s": round(watch.wall_s, 3),
        "cpu_s": round(watch.cpu_s, 3),
        "output_tokens_per_cpu_s": round(tokens / watch.cpu_s, 1),
        "steps": steps,
        "step_cpu_ms_median": round(1000 * statistics.median(watch.steps), 2) if watch.steps else None,
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    print(json.dumps(line))
