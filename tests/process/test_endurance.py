"""A million steps of the whole engine: memory stands still and no step costs more than the first ones did."""

from __future__ import annotations

import pytest
from endurance import Sample, cpu_ms_a_step, samples, slope, yards_a_step

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(0)]

STEPS, EVERY = 1_000_000, 5_000
WARM_UP = 200_000
"""Steps until everything bounded is full: the ids of 10,000 ended requests, texts, history, rings."""
MB_AN_HOUR = 1.0
NOISE = 1.15
"""What two tenths of the run may differ by on a busy machine, measured by the yardstick."""


def test_a_million_steps_leave_memory_flat_and_the_last_cost_what_the_first_did() -> None:
    taken: list[Sample] = []
    for sample in samples(STEPS, EVERY):
        print(
            f"step {sample.step} hours {sample.hours:.4f} worker {sample.worker_mb:.2f} MB "
            f"client {sample.client_mb:.2f} MB cpu {sample.cpu_s:.1f} s yard {sample.yard_ms:.2f} ms",
            flush=True,
        )
        taken.append(sample)
    warm = [sample for sample in taken if sample.step >= WARM_UP]
    worker = slope([(sample.hours, sample.worker_mb) for sample in warm])
    client = slope([(sample.hours, sample.client_mb) for sample in warm])
    tenth = len(taken) // 10
    first, last = warm[:tenth], warm[-tenth:]
    print(f"worker {worker:.3f} MB/h, client {client:.3f} MB/h")
    print(f"CPU ms a step {cpu_ms_a_step(first):.3f} then {cpu_ms_a_step(last):.3f}")
    print(f"in yards {yards_a_step(first):.4f} then {yards_a_step(last):.4f}")
    assert worker < MB_AN_HOUR
    assert client < MB_AN_HOUR
    assert yards_a_step(last) < yards_a_step(first) * NOISE
