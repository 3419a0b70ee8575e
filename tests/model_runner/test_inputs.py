"""What a step becomes on the device: positions, slots, who attends to what."""

from __future__ import annotations

import math

import pytest
import torch

from model_runner.errors import StepError
from model_runner.inputs import InputBuilder
from scheduler import Request, SamplingParams, SchedulerPolicy, ScheduleStep
from tests.model_runner.driving import drive, mixed_requests, toy_runner


def step(**fields: object) -> ScheduleStep:
    return ScheduleStep(step_id=1, policy_version=1, time=0.0, **fields)


def builder(block_size: int = 4) -> InputBuilder:
    return InputBuilder(block_size, 64, torch.device("cpu"))


def test_slots_follow_the_block_table() -> None:
    built = builder().build(
        step(
            num_scheduled_tokens={"a": 3, "b": 1},
            kinds={"a": "prefill", "b": "decode"},
            token_ids={"a": (5, 6, 7), "b": (8,)},
            positions_start={"a": 3, "b": 4},
            block_tables={"a": (9, 2), "b": (3, 1)},
            sampling_ids=("b",),
        )
    )
    assert built.token_ids.tolist() == [5, 6, 7, 8]
    assert built.positions.tolist() == [3, 4, 5, 4]
    assert built.slots.tolist() == [9 * 4 + 3, 2 * 4 + 0, 2 * 4 + 1, 1 * 4 + 0]
    assert [(s.first, s.count, s.context) for s in built.segments] == [(0, 3, 6), (3, 1, 5)]
    assert built.sample_rows.tolist() == [3]


@pytest.mark.parametrize("block_size", [1, 3, 4])
def test_f26_every_position_is_computed_once_from_zero(block_size: int) -> None:
    runner = toy_runner(block_size=block_size)
    request = Request("r", tuple(range(40, 47)), SamplingParams(max_tokens=6))
    driven = drive(runner, SchedulerPolicy(max_num_batched_tokens=3), [request])
    positions = []
    for one in driven.steps:
        if not one.is_empty:
            positions += builder(block_size).build(one).positions.tolist()
    assert positions == list(range(7 + 6 - 1))


def test_padding_goes_to_the_scratch_page_and_is_never_sampled() -> None:
    built = builder().build(
        step(
            num_scheduled_tokens={"a": 1},
            num_padding_tokens={"a": 5, "held": 1},
            kinds={"a": "prefill", "held": "padding"},
            token_ids={"a": (5,)},
            positions_start={"a": 0, "held": 6},
            block_tables={"a": (2,), "held": (7, 8)},
            sampling_ids=("a",),
        )
    )
    scratch, real = built.slots < 4, built.slots >= 4
    assert int(scratch.sum()) == 6
    assert built.slots[real].tolist() == [8]
    assert built.token_ids[built.sample_rows].tolist() == [5]
    held = built.segments[-1]
    assert (held.pages, held.count, held.context) == ((7, 8), 1, 7)


def test_padding_leaves_real_keys_and_values_alone() -> None:
    runner = toy_runner()
    requests = mixed_requests(count=4)
    drive(runner, SchedulerPolicy(batching="static", max_num_seqs=4), requests)
    runner.cache.fill(math.nan)
    name = "held"
    runner.execute(
        step(
            num_padding_tokens={name: 1, "left": 9},
            kinds={name: "padding", "left": "padding"},
            positions_start={name: 5},
            block_tables={name: (3, 4)},
        )
    )
    for layer in range(2):
        assert runner.cache.keys(layer)[1:].isnan().all()
        assert runner.cache.values(layer)[1:].isnan().all()
        assert not runner.cache.keys(layer)[0].isnan().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_ids": {"a": (5,)}}, "a: token_ids has 1 tokens, num_scheduled_tokens is 3"),
        ({"block_tables": {"a": (2,)}}, "do not fit 1 blocks of 4 tokens"),
        ({"positions_start": {"a": 62}, "block_tables": {"a": tuple(range(1, 20))}}, "64 positions"),
        ({"sampling_ids": ("b",)}, "'b', which has no scheduled token"),
    ],
)
def test_a_step_that_contradicts_itself_is_refused(changes: dict[str, object], message: str) -> None:
    fields = {
        "num_scheduled_tokens": {"a": 3},
        "kinds": {"a": "prefill"},
        "token_ids": {"a": (5, 6, 7)},
        "positions_start": {"a": 3},
        "block_tables": {"a": (9, 2)},
        "sampling_ids": ("a",),
    }
    with pytest.raises(StepError, match=message):
        builder().build(step(**(fields | changes)))
