"""The waiting queue against a sorted list, and its cost at the head."""

from __future__ import annotations

import random
import sys

import pytest

from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy, StepResult
from scheduler.on_demand import DecodeStep
from scheduler.ordering import ORDERS
from scheduler.queue import WaitingQueue
from scheduler.sequence import Sequence


def sequence(number: int, priority: int = 0, prompt: int = 1, rank: int | None = None) -> Sequence:
    request = Request(f"r{number}", (1,) * prompt, priority=priority)
    return Sequence(
        request, max_tokens=1, arrival_time=0.0, rank=number if rank is None else rank, stop_ids=frozenset()
    )


@pytest.mark.parametrize("order", ORDERS.names())
def test_the_queue_is_always_the_sorted_list_of_what_is_in_it(order: str) -> None:
    rng = random.Random(3)
    key = ORDERS[order].key
    queue, model = WaitingQueue(ORDERS[order]), []
    for number in range(1, 3_000):
        action = rng.random()
        if action < 0.55 or not model:
            front = rng.random() < 0.2
            seq = sequence(number, rng.randint(0, 3), rng.randint(1, 5), -number if front else number)
            queue.put(seq)
            model.append(seq)
        else:
            seq = min(model, key=key) if action < 0.85 else rng.choice(model)
            queue.take(seq)
            model.remove(seq)
        expected = sorted(model, key=key)
        assert list(queue) == expected
        assert queue.head() is (expected[0] if expected else None)
        assert queue.first(3) == expected[:3]
        assert len(queue) == len(model)
        assert queue.num_tokens == sum(seq.num_tokens for seq in model)


def test_taking_what_is_not_there_is_an_error() -> None:
    queue = WaitingQueue(ORDERS["fcfs"])
    with pytest.raises(ValueError, match="r1"):
        queue.take(sequence(1))


def test_a_new_order_sorts_what_is_there() -> None:
    queue = WaitingQueue(ORDERS["fcfs"])
    for number, priority in enumerate((3, 1, 2)):
        queue.put(sequence(number, priority))
    queue.take(queue.first(1)[0])
    queue.put(sequence(9, 0))
    queue.reorder(ORDERS["priority"])
    assert [seq.priority for seq in queue] == [0, 1, 2]


def calls_of_steps(num_waiting: int, prompt: int, num_blocks: int, max_num_seqs: int, reason: str) -> int:
    """Function calls of steps with so many requests behind four that decode: a cost without a clock.

    The first steps take the general path, the others are a decode run.
    """
    scheduler = Scheduler(
        SchedulerPolicy(max_num_seqs=max_num_seqs),
        num_blocks=num_blocks,
        block_size=16,
        max_model_len=512,
        snapshot_waiting_limit=20,
    )
    for number in range(4 + num_waiting):
        scheduler.add(Request(f"r{number}", (1,) * prompt, SamplingParams(max_tokens=400)))
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for index in range(24):
        sys.setprofile(count if index >= 3 else None)
        planned = scheduler.schedule()
        snapshot = scheduler.update(StepResult(planned.step_id, dict.fromkeys(planned.sampling_ids, 1)))
        sys.setprofile(None)
    assert isinstance(planned, DecodeStep)
    assert snapshot.num_waiting == num_waiting
    assert snapshot.waiting.reason[0] == reason
    return calls


@pytest.mark.parametrize(
    ("num_waiting", "state"), [(100_000, (2, 512, 4, "max_num_seqs")), (20_000, (100, 34, 8, "kv_capacity"))]
)
def test_a_long_queue_adds_nothing_to_a_step(num_waiting: int, state: tuple[int, int, int, str]) -> None:
    assert calls_of_steps(30, *state) == calls_of_steps(num_waiting, *state) < 5_000
