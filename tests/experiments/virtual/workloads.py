"""Small traces and pools for tests of the virtual clock."""

from __future__ import annotations

import random

from experiments.runs.driver import PoolShape
from experiments.trace import Trace, TraceOrigin, TraceRequest

POOL = PoolShape(num_blocks=40, block_size=8, max_model_len=256, num_host_blocks=20)


def poisson_trace(
    seed: int, count: int, rate: float, longest_prompt: int = 60, longest_output: int = 24, spread: int = 1
) -> Trace:
    """Poisson arrivals with uniform lengths; priorities 0 .. spread - 1."""
    rng = random.Random(seed)
    at, requests = 0.0, []
    for index in range(count):
        at += rng.expovariate(rate)
        prompt, output = rng.randint(1, longest_prompt), rng.randint(1, longest_output)
        requests.append(TraceRequest(f"r{index}", at, prompt, output, rng.randrange(spread)))
    return Trace(f"poisson-{seed}", tuple(requests), TraceOrigin("test", "uniform lengths"))
