"""Microseconds a step of ``schedule`` + ``update``, with events and a snapshot, for n running decodes.

    python benchmarks/bench_scheduler.py [--waiting N] [--repeats R] [--out FILE.json]

Every row decodes all the time; with block size 16 one row in sixteen takes a new block in each step, as in a real run.
Times are CPU time of this process; the minimum is the figure to compare, the median says how noisy the machine is.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, StepResult

STEPS = 100


def microseconds_a_step(num_running: int, num_waiting: int, repeats: int) -> list[float]:
    """One figure a repeat: the mean over ``STEPS`` steps."""
    policy = SchedulerPolicy(max_num_seqs=num_running, max_num_batched_tokens=max(2048, num_running * 16))
    scheduler = Scheduler(
        policy,
        num_blocks=num_running * 512,
        block_size=16,
        max_model_len=8192,
        eos_token_ids=(2,),
        snapshot_waiting_limit=64,
    )
    for index in range(num_running + num_waiting):
        prompt = (5,) * (1 + index % 16)
        scheduler.add(Request(f"request-{index}", prompt, SamplingParams(max_tokens=8192 - 16)))

    def step() -> None:
        planned = scheduler.schedule()
        scheduler.update(StepResult(planned.step_id, dict.fromkeys(planned.sampling_ids, 5)))

    for _ in range(20):
        step()
    assert len(scheduler.running_ids) == num_running
    figures = []
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        for _ in range(STEPS):
            step()
        figures.append((time.process_time() - start) / STEPS * 1e6)
    return figures


def main() -> None:
    """Print one line a size, and write the figures where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--waiting", type=int, nargs="+", default=[0], help="waiting requests beside the running ones")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{'running':>8} {'waiting':>8} {'min us/step':>12} {'median':>10} {'us/row':>8}")
    for waiting in options.waiting:
        for size in options.sizes:
            figures = microseconds_a_step(size, waiting, options.repeats)
            least, median = min(figures), statistics.median(figures)
            rows.append({"running": size, "waiting": waiting, "min_us": least, "median_us": median})
            print(f"{size:>8} {waiting:>8} {least:>12.1f} {median:>10.1f} {least / size:>8.3f}")
    if options.out:
        options.out.write_text(json.dumps({"python": sys.version, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
