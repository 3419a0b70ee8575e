"""Blocks that move to the host pool and back: their content is the same bit for bit, whoever had the block between."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model_runner.errors import RunnerConfigError, StepError
from model_runner.runner import ModelRunner
from scheduler import BlockMove, Request, SamplingParams, ScheduleStep
from tests.model_runner.driving import toy_runner

EMPTY = ScheduleStep(step_id=1, policy_version=1, time=0.0)
BLOCK_SIZE = 4


def marked_runner(**changes: object) -> ModelRunner:
    """Every number in the cache is another one, bit patterns of NaN and infinity among them."""
    runner = toy_runner(**{"num_blocks": 12, "num_host_blocks": 6, **changes})
    generator = torch.Generator().manual_seed(1)
    for block_id in range(13):
        block = runner.cache.block(block_id)
        bits = torch.int16 if block.dtype == torch.bfloat16 else torch.int32
        info = torch.iinfo(bits)
        block.copy_(torch.randint(info.min, info.max, block.shape, generator=generator, dtype=bits).view(block.dtype))
    return runner


def content(runner: ModelRunner, block_id: int) -> bytes:
    return runner.cache.block(block_id).contiguous().view(torch.uint8).numpy().tobytes()


def move(request_id: str, device: tuple[int, ...], host: tuple[int, ...]) -> BlockMove:
    return BlockMove(request_id, device, host)


def step(number: int, request_id: str, prompt: tuple[int, ...], table: tuple[int, ...], **fields: object):
    start = int(fields.pop("start", 0))
    return ScheduleStep(
        step_id=number,
        policy_version=1,
        time=0.0,
        num_scheduled_tokens={request_id: len(prompt)},
        kinds={request_id: "prefill"},
        token_ids={request_id: prompt},
        positions_start={request_id: start},
        block_tables={request_id: table},
        sampling_ids=(request_id,),
        **fields,
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_blocks_come_back_bit_for_bit_to_other_places(dtype: str) -> None:
    runner = marked_runner(dtype=dtype)
    before = [content(runner, block_id) for block_id in range(13)]
    assert len(set(before)) == 13
    runner.execute(replace(EMPTY, swapped_out=(move("a", (7, 2, 12), (5, 1, 6)), move("b", (3,), (2,)))))
    runner.cache.fill(0.0)
    runner.execute(replace(EMPTY, swapped_in=(move("b", (1,), (2,)), move("a", (2, 9, 4), (5, 1, 6)))))
    after = {block_id: content(runner, block_id) for block_id in range(13)}
    assert [after[2], after[9], after[4], after[1]] == [before[7], before[2], before[12], before[3]]
    zero = bytes(len(before[0]))
    assert all(after[block_id] == zero for block_id in after if block_id not in (1, 2, 4, 9))


def test_moves_out_come_before_moves_in_to_the_same_block() -> None:
    runner = marked_runner()
    first, second = content(runner, 5), content(runner, 8)
    runner.execute(replace(EMPTY, swapped_out=(move("a", (5,), (1,)),)))
    runner.execute(replace(EMPTY, swapped_in=(move("a", (8,), (1,)),), swapped_out=(move("b", (8,), (2,)),)))
    assert content(runner, 8) == first
    runner.execute(replace(EMPTY, swapped_in=(move("b", (3,), (2,)),)))
    assert content(runner, 3) == second


@pytest.mark.parametrize("chunk", [1, 4, 6])
def test_a_victim_goes_on_although_its_blocks_were_overwritten_in_the_step_of_its_eviction(chunk: int) -> None:
    """The victim's blocks 1 and 2 go to another request in the very step that moves them out."""
    victim = Request("v", tuple(range(40, 46)), SamplingParams(max_tokens=4))
    intruder = Request("i", tuple(range(70, 77)), SamplingParams(max_tokens=4))
    lone = toy_runner()
    expected = lone.execute(step(1, "v", victim.prompt_token_ids, (1, 2), new_requests=(victim,))).sampled["v"]
    follow = lone.execute(step(2, "v", (expected,), (1, 2), start=6)).sampled["v"]

    runner = toy_runner(num_host_blocks=2)
    part = victim.prompt_token_ids[:chunk]
    runner.execute(replace(step(1, "v", part, (1, 2), new_requests=(victim,)), sampling_ids=()))
    used = -(-chunk // BLOCK_SIZE)
    runner.execute(
        step(
            2,
            "i",
            intruder.prompt_token_ids,
            (2, 1),
            new_requests=(intruder,),
            preempted=("v",),
            swapped_out=(move("v", (1, 2)[:used], (1, 2)[:used]),),
        )
    )
    back = (move("v", (3, 2)[:used], (1, 2)[:used]),)
    rest = victim.prompt_token_ids[chunk:]
    if rest:
        found = runner.execute(step(3, "v", rest, (3, 2), start=chunk, swapped_in=back, finished=("i",))).sampled["v"]
        assert found == expected
        back = ()
    found = runner.execute(step(4, "v", (expected,), (3, 2), start=6, swapped_in=back)).sampled["v"]
    assert found == follow


def test_a_step_that_only_moves_is_timed_and_one_that_moves_nothing_is_not() -> None:
    runner = marked_runner()
    out = runner.execute(replace(EMPTY, swapped_out=(move("a", (1,), (1,)),))).timings
    back = runner.execute(replace(EMPTY, swapped_in=(move("a", (1,), (1,)),))).timings
    still = runner.execute(EMPTY).timings
    assert out.swap_out_s > 0
    assert back.swap_in_s > 0
    assert out.swap_in_s == back.swap_out_s == still.swap_out_s == still.swap_in_s == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"swapped_out": (move("a", (1, 2), (1,)),)}, "a: swapped_out pairs 2 device with 1 host blocks"),
        ({"swapped_out": (move("a", (0,), (1,)),)}, r"a: swapped_out names device block 0; ids are 1 \.\. 12"),
        ({"swapped_in": (move("a", (13,), (1,)),)}, r"a: swapped_in names device block 13; ids are 1 \.\. 12"),
        ({"swapped_in": (move("a", (1,), (7,)),)}, r"a: swapped_in names host block 7; ids are 1 \.\. 6"),
        ({"swapped_out": (move("a", (1,), (0,)),)}, r"a: swapped_out names host block 0; ids are 1 \.\. 6"),
    ],
)
def test_a_move_that_would_reach_foreign_content_is_refused(fields: dict[str, object], message: str) -> None:
    runner = marked_runner()
    before = [content(runner, block_id) for block_id in range(13)]
    with pytest.raises(StepError, match=message):
        runner.execute(replace(EMPTY, **fields))
    assert [content(runner, block_id) for block_id in range(13)] == before


def test_the_size_of_the_host_pool_is_told_and_taken_only_when_it_is_used() -> None:
    runner = marked_runner(dtype="bfloat16")
    info = runner.info
    # Two layers, keys and values, two heads of 16 numbers of two bytes, for 6 blocks of 4 tokens.
    assert info.host_pool_bytes == 2 * 2 * 2 * 16 * 2 * 6 * 4 == info.num_host_blocks * 4 * info.kv_bytes_per_token
    assert toy_runner(num_host_blocks=0).info.host_pool_bytes == 0
    # What no machine has is no trouble for as long as nothing is swapped.
    greedy = toy_runner(num_host_blocks=2**44)
    greedy.execute(EMPTY)
    with pytest.raises(RunnerConfigError, match=r"num_host_blocks is 17592186044416; a host pool of .* MiB does not"):
        greedy.execute(replace(EMPTY, swapped_out=(move("a", (1,), (1,)),)))


def test_a_negative_host_pool_is_refused() -> None:
    with pytest.raises(RunnerConfigError, match="num_host_blocks is -1; it must be 0 or more"):
        toy_runner(num_host_blocks=-1)
