"""A scheduler runs for ever: what it keeps depends on what is in it, not on how long it has run."""

from __future__ import annotations

import gc
import itertools
import sys

import pytest

from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, StepResult
from scheduler.ended import REMEMBERED_IDS
from scheduler.on_demand import DecodeStep


def allocated_after(counts: tuple[int, ...], *, output: int, num_ids: int) -> list[int]:
    """Memory blocks Python has in use after each number of steps of a busy engine: eight run, two wait.

    output: tokens of a request. num_ids: ids in use; they are used again in turn.
    """
    scheduler = Scheduler(SchedulerPolicy(max_num_seqs=8), num_blocks=64 * 8, block_size=16, max_model_len=1024)
    numbers = itertools.count()
    found, in_runs, missing = [], 0, 10
    for step in range(1, counts[-1] + 1):
        for _ in range(missing):
            request = Request(f"r{next(numbers) % num_ids}", (1, 2, 3), SamplingParams(max_tokens=output))
            assert scheduler.add(request).accepted
        planned = scheduler.schedule()
        in_runs += isinstance(planned, DecodeStep)
        snapshot = scheduler.update(StepResult(planned.step_id, dict.fromkeys(planned.sampling_ids, 300)))
        missing = len(snapshot.finished)
        if step in counts:
            gc.collect()
            found.append(sys.getallocatedblocks())
    assert in_runs > counts[-1] // 2
    return found


def test_memory_does_not_grow_with_the_steps() -> None:
    first, last = allocated_after((2_000, 10_000), output=100, num_ids=20)
    assert last - first < 500


@pytest.mark.soak
def test_memory_does_not_grow_over_a_million_steps() -> None:
    output = 200
    remembered_full = (
        REMEMBERED_IDS // 8 + 100
    ) * output  # from here on, the ids of ended requests are all it may keep
    first, last = allocated_after((remembered_full, 1_000_000), output=output, num_ids=10**9)
    assert last - first < 5_000
