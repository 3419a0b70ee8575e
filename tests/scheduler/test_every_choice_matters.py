"""No two choices of a policy field are the same thing: for each pair of values a workload on which they decide apart.

Values are taken from the registries, so a new value without a workload that tells it from all others fails here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import pytest

from scheduler import FIELD_RANGES, Request, SchedulerPolicy, problems
from scheduler.policy import SWITCHES
from scheduler.registry import REGISTRIES
from tests.scheduler.helpers import bench, request

PACE = ("step_delay_ms", "paused", "single_step")
"""Fields of the engine's loop, which paces the steps and never decides what is in them: tests/process has them."""

STEPS = 60


@dataclass(frozen=True)
class Workload:
    """Requests that come at the start, and before step ``late_at``; the pool; further policy fields."""

    requests: tuple[Request, ...]
    num_blocks: int
    policy: dict[str, Any]
    late: tuple[Request, ...] = ()
    late_at: int = 2


def decisions(workload: Workload, field: str, value: object) -> list[object]:
    """What is computed, admitted and evicted in each step, and where each request's blocks lie."""
    made = bench(
        workload.requests, num_blocks=workload.num_blocks, max_model_len=48, **workload.policy, **{field: value}
    )
    for index in range(STEPS):
        if index == workload.late_at:
            made.add(*workload.late)
        made.step()
    return [
        (
            list(step.num_scheduled_tokens.items()),
            list(step.num_padding_tokens.items()),
            (step.new, step.resumed, step.preempted, step.swapped_out, step.swapped_in),
            list(step.block_tables.items()),
        )
        for step in made.steps
    ]


def crowd(sizes: str, **options: Any) -> tuple[Request, ...]:
    """ "7+14 5+3": requests r0, r1 ... of so many prompt and output tokens; "7+14/2" has priority 2."""
    made = []
    for index, text in enumerate(sizes.split()):
        size, _, priority = text.partition("/")
        prompt, output = map(int, size.split("+"))
        made.append(request(f"r{index}", prompt, output, priority=int(priority or 0), **options))
    return tuple(made)


def late(sizes: str) -> tuple[Request, ...]:
    return tuple(Request(f"late{r.request_id}", r.prompt_token_ids, r.sampling, r.priority) for r in crowd(sizes))


WORKLOADS = {
    # Whole batches wait for their slowest row; continuous ones take the next request at once.
    "batching": Workload(crowd("4+2 4+9 4+4"), 32, {"max_num_seqs": 2}),
    # The order of arrival, of priority, of prompt and of prompt + output all differ.
    "admission_order": Workload(crowd("9+2/2 3+20/3 6+2/1 4+3/4"), 32, {"max_num_seqs": 1}),
    # The first runs; the second has room for its first chunk, the third's prompt fits beside it, its output does not.
    "admission_rule": Workload(crowd("12+9 20+2 8+6"), 9, {"max_num_batched_tokens": 20}),
    # The large one does not fit beside the first; the small one behind it does.
    "head_of_line": Workload(crowd("8+9 20+2 1+1"), 6, {}),
    # Chunks and decodes compete for blocks: a decode that was looked at first has its token when the chunk's row goes.
    "prefill_mix": Workload(
        crowd("12+6/1 8+4/2 30+10/2 8+3/0"),
        13,
        {"max_num_batched_tokens": 12, "long_prefill_token_threshold": 8, "preemption_victim": "lowest_priority"},
        late("12+8/1"),
    ),
    # The pool fills up while three grow.
    "preemption_mode": Workload(crowd("7+14 7+14 7+14"), 9, {}),
    # Last admitted r3, least urgent r0, most blocks r1, fewest computed tokens r2.
    "preemption_victim": Workload(crowd("9+20/3 17+20/1 3+20/2 6+20/0"), 13, {}),
    # Somebody waits when one is evicted: it comes back before that one, or after.
    "preemption_requeue": Workload(crowd("8+9 8+9"), 7, {"max_num_seqs": 2}, late("4+2 4+2")),
    # 13 blocks, max_model_len 12 of them: room for one, for two (8 + 4), for three (5 + 3 + 5), for all four.
    "allocation": Workload(crowd("7+14 3+8 7+14 3+2"), 13, {}),
}
"""For each field with named values, one workload on which every two of them decide apart."""

NUMBERS = {
    "max_num_seqs": (1, 3, Workload(crowd("4+4 4+4 4+4"), 32, {})),
    "max_num_batched_tokens": (8, 20, Workload(crowd("12+3 12+3"), 32, {})),
    "kv_watermark": (0.0, 0.4, Workload(crowd("8+4 8+4 8+4"), 8, {})),
    "long_prefill_token_threshold": (0, 4, Workload(crowd("20+3 4+3"), 32, {})),
    "kv_block_limit": (None, 5, Workload(crowd("8+9 8+9"), 16, {})),
}
"""Numeric field -> two values and a workload that tells them apart."""

FLAGS = {
    "admission_paused": Workload(crowd("4+4"), 8, {}),
    "enable_chunked_prefill": Workload(crowd("30+2 30+2"), 32, {"max_num_batched_tokens": 47}),
    # Both prompts begin alike, and the second comes when the first is computed.
    "enable_prefix_caching": Workload(crowd("16+9"), 32, {}, late("17+3")),
}
"""Switch -> a workload on which on and off decide apart."""

PAIRS = [(field, *pair) for field, registry in REGISTRIES.items() for pair in combinations(registry.names(), 2)]


@pytest.mark.parametrize(("field", "one", "other"), PAIRS, ids=lambda value: str(value))
def test_two_values_of_a_field_decide_apart(field: str, one: str, other: str) -> None:
    workload = WORKLOADS[field]
    assert decisions(workload, field, one) != decisions(workload, field, other)


@pytest.mark.parametrize("field", [name for name in FIELD_RANGES if name not in PACE])
def test_a_number_changes_decisions(field: str) -> None:
    low, high, workload = NUMBERS[field]
    assert decisions(workload, field, low) != decisions(workload, field, high)


@pytest.mark.parametrize(
    "field", [name for name in SWITCHES if name not in PACE and not problems(SchedulerPolicy(**{name: True}))]
)
def test_a_switch_changes_decisions(field: str) -> None:
    assert decisions(FLAGS[field], field, False) != decisions(FLAGS[field], field, True)


@pytest.mark.parametrize("field", PACE)
def test_the_pace_changes_no_decision(field: str) -> None:
    workload = WORKLOADS["preemption_victim"]
    default = getattr(SchedulerPolicy(), field)
    assert decisions(workload, field, default) == decisions(workload, field, 5.0 if field == "step_delay_ms" else True)


def test_the_allocators_let_in_as_many_as_they_have_room_for() -> None:
    """By hand, in blocks of 4 tokens: 12; 8 + 4; 5 + 3 + 5; 2 + 1 + 2 + 1 of 13."""
    workload, let_in = WORKLOADS["allocation"], {}
    for name in ("reserve_max", "buddy", "exact", "paged"):
        made = bench(workload.requests, num_blocks=workload.num_blocks, max_model_len=48, allocation=name)
        made.step()
        let_in[name] = len(made.steps[0].new)
    assert let_in == {"reserve_max": 1, "buddy": 2, "exact": 3, "paged": 4}


def test_every_field_of_a_policy_is_told_apart_here() -> None:
    known = {*WORKLOADS, *NUMBERS, *FLAGS, *PACE, "version"}
    assert known == {item.name for item in fields(SchedulerPolicy)}
    assert set(REGISTRIES) == set(WORKLOADS)


def test_a_value_that_decides_as_another_would_be_found() -> None:
    workload = WORKLOADS["preemption_victim"]
    assert decisions(workload, "preemption_victim", "newest") == decisions(workload, "preemption_victim", "newest")
