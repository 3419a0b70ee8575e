"""A dashboard runs all day: what a process keeps must not depend on which batches came along."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model_runner.runner import ModelRunner
from model_runner.size_steps import ANY_SIZE, PAGE_STEPS, ROW_STEPS, SizeSteps
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy
from tests.model_runner.driving import toy_runner

PRODUCTS = ("mkldnn::_linear_pointwise", "aten::mm", "aten::addmm")
BATCHED = ("aten::bmm", "aten::baddbmm")
"""The operators for which oneDNN compiles a kernel for each size; of float32 it computes only the first."""


class ProductSizes(TorchDispatchMode):
    """Records operator and operand shapes of every product that torch is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[object, ...]] = set()
        self.calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().partition(".")[0]
        if name in PRODUCTS or (name in BATCHED and args[0].dtype != torch.float32):
            self.calls += 1
            self.seen.add((name, *(tuple(value.shape) for value in args if isinstance(value, torch.Tensor))))
        return function(*args, **(kwargs or {}))


def random_steps(runner: ModelRunner, policy: SchedulerPolicy, seed: int = 0) -> Iterator[int]:
    """Endless traffic with chunks and batches of every size; yields the number of tokens of each step."""
    rng = random.Random(seed)
    scheduler = Scheduler(
        policy,
        num_blocks=runner.info.num_blocks,
        block_size=runner.info.block_size,
        max_model_len=runner.info.max_model_len,
        eos_token_ids=runner.eos_token_ids,
    )
    arrived = 0
    while True:
        if not scheduler.has_work or (rng.random() < 0.15 and len(scheduler.waiting_ids) < 20):
            arrived += 1
            prompt = tuple(rng.randint(32, 126) for _ in range(rng.choice((rng.randint(1, 40), rng.randint(1, 300)))))
            sampling = SamplingParams(max_tokens=rng.randint(1, 60), temperature=rng.choice((0.0, 0.8)))
            assert scheduler.add(Request(f"r{arrived}", prompt, sampling)).accepted
        step = scheduler.schedule()
        scheduler.update(runner.execute(step))
        yield sum(step.num_scheduled_tokens.values())


@pytest.mark.parametrize(("dtype", "num_blocks"), [("float32", 512), ("bfloat16", 40), ("bfloat16", 512)])
def test_no_step_asks_for_a_product_of_a_size_that_was_not_compiled_at_the_start(dtype: str, num_blocks: int) -> None:
    """Every new size costs 0.6 MB for good. With 40 blocks of 16, pages run short and the pool ends amid a batch."""
    with ProductSizes() as sizes:
        runner = toy_runner(dtype=dtype, block_size=16, num_blocks=num_blocks)
        at_start, calls = set(sizes.seen), sizes.calls
        steps = random_steps(runner, SchedulerPolicy(max_num_seqs=12, max_num_batched_tokens=150))
        tokens = {next(steps) for _ in range(1200)}
    assert len(tokens) > 70, "the traffic must bring batches of many sizes, or it proves little"
    assert sizes.calls > calls + 1000 * 4
    assert sizes.seen - at_start == set()
    assert len(at_start) <= 5 * len(ROW_STEPS.sizes) + 2 * len(PAGE_STEPS.sizes) + 10


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_resident_memory_is_flat_over_many_steps(dtype: str) -> None:
    runner = toy_runner(dtype=dtype, block_size=16, num_blocks=512)
    steps = random_steps(runner, SchedulerPolicy())
    for _ in range(5_000):
        next(steps)
    before = resident_mib()
    for _ in range(50_000):
        next(steps)
    assert resident_mib() - before < 1.0


@pytest.mark.parametrize("steps", [ROW_STEPS, PAGE_STEPS, SizeSteps((3,)), ANY_SIZE])
def test_sizes_cover_every_count_with_little_on_top(steps: SizeSteps) -> None:
    assert steps.split(0) == []
    for count in range(1, 700):
        sizes = steps.split(count)
        assert not steps.sizes or set(sizes) <= set(steps.sizes)
        assert sum(sizes) - sizes[-1] < count <= sum(sizes)


def test_rows_of_small_batches_are_exact_and_larger_ones_cost_little() -> None:
    assert [ROW_STEPS.split(n) for n in range(1, 9)] == [[n] for n in range(1, 9)]
    on_top = [sum(ROW_STEPS.split(n)) / n - 1 for n in range(9, 513)]
    assert max(on_top) < 0.12
    assert sum(on_top) / len(on_top) < 0.02
