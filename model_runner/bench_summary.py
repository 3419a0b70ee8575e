"""What a measured run was, in figures: rates, times a step, what memory decisions cost, and on which machine."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from model_runner.bench_result import RequestTimes
from model_runner.bench_workload import BenchWorkload
from model_runner.device import usable_cores
from scheduler import ResumeRecord, Totals

MODES = ("recompute", "swap")
PARTS = ("schedule", "build", "execute", "sample", "swap", "update")


@dataclass(slots=True)
class Measurement:
    """What a run took. Times in seconds; steps: (wall, process CPU) of each; outputs: tokens by request_id.

    preemptions: by mode. swap_out_s, swap_in_s: of copying blocks. resumes: what each eviction cost whose victim caught
    up. totals: the scheduler's counters at the end. began: on the clock of ``time.perf_counter``. times: of the
    requests that were taken in.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    steps: list[tuple[float, float]] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    outputs: dict[str, list[int]] = field(default_factory=dict)
    began: float = 0.0
    times: dict[str, RequestTimes] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    preemptions: Counter[str] = field(default_factory=Counter)
    swap_out_s: float = 0.0
    swap_in_s: float = 0.0
    resumes: list[ResumeRecord] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)


def summary(workload: BenchWorkload, found: Measurement, block_bytes: int) -> dict[str, Any]:
    """Figures of a run: rates over the whole run, milliseconds a step as minimum, median and maximum.

    block_bytes: size of one KV block, all layers together.
    """
    tokens = sum(map(len, found.outputs.values()))
    total = sum(found.parts.values())
    return {
        "requests": len(workload.requests),
        "rejected": found.rejected,
        "prompt_tokens": workload.num_prompt_tokens,
        "output_tokens": tokens,
        "wall_s": round(found.wall_s, 3),
        "cpu_s": round(found.cpu_s, 3),
        "output_tokens_per_s": round(tokens / found.wall_s, 1),
        "output_tokens_per_cpu_s": round(tokens / found.cpu_s, 1),
        "steps": len(found.steps),
        "step_ms": _spread([wall for wall, _ in found.steps]),
        "step_cpu_ms": _spread([cpu for _, cpu in found.steps]),
        "share_of_time": {part: round(seconds / total, 4) for part, seconds in found.parts.items()},
        "padding_tokens": found.totals.padding_tokens,
        **_memory_costs(found, block_bytes),
        "peak_rss_mib": _peak_rss_mib(),
    }


def _memory_costs(found: Measurement, block_bytes: int) -> dict[str, Any]:
    """What evictions cost, and what the prefix cache saved.

    resume_work_ms: by mode, computing again or copying. resume_delay_ms: from each eviction until its victim had caught
    up.
    """
    totals, work = found.totals, dict.fromkeys(MODES, 0.0)
    for resume in found.resumes:
        work[resume.mode] += resume.work_s
    return {
        "preemptions": found.preemptions.total(),
        "preemptions_by_mode": {mode: found.preemptions[mode] for mode in MODES},
        "recompute_tokens": totals.recompute_tokens,
        "swapped_out_blocks": totals.swapped_out_blocks,
        "swapped_in_blocks": totals.swapped_in_blocks,
        "swapped_out_bytes": totals.swapped_out_blocks * block_bytes,
        "swapped_in_bytes": totals.swapped_in_blocks * block_bytes,
        "swap_out_ms": round(1000 * found.swap_out_s, 3),
        "swap_in_ms": round(1000 * found.swap_in_s, 3),
        "resume_work_ms": {mode: round(1000 * seconds, 3) for mode, seconds in work.items()},
        "resume_delay_ms": _spread([resume.caught_up_at - resume.evicted_at for resume in found.resumes]),
        "prefix_cache_queries": totals.prefix_cache_queries,
        "prefix_cache_hits": totals.prefix_cache_hits,
    }


def machine_facts() -> dict[str, Any]:
    """What a reader needs to judge the figures: processor, cores, versions, load."""
    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": [round(value, 2) for value in _load()],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _load() -> tuple[float, ...]:
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


def _peak_rss_mib() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    values = [1000 * value for value in seconds] or [0.0]
    return {
        "min": round(min(values), 3),
        "median": round(statistics.median(values), 3),
        "max": round(max(values), 3),
    }
