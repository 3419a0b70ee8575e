"""Decode steps of fixed shape, with a tape in place of a CUDA graph and FlashAttention's promises in plain torch."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch

from model_runner.attention_choice import AttentionChoice
from model_runner.config import RunnerConfig
from model_runner.decode_batch import BATCH_SIZES, DecodeBatches, DecodeInputs, batch_sizes
from model_runner.device import choose_device
from model_runner.errors import RunnerConfigError, StepError
from model_runner.inputs import Segment, StepRows
from model_runner.kv_cache import KVCache
from model_runner.model import LlamaModel
from model_runner.runner import ModelRunner
from model_runner.toy import load_toy, toy_config
from model_runner.varlen import PagedVarlen, VarlenKernel
from scheduler import Request, SchedulerPolicy, ScheduleStep
from tests.model_runner import tape
from tests.model_runner.driving import ForcedEvictions, alone, drive, mixed_requests, toy_runner

CPU = torch.device("cpu")
BLOCK_SIZE = 4
OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee documentation")


def fixed_runner(record=tape.record) -> ModelRunner:
    """A runner as on CUDA: the cache in FlashAttention's order, decode steps of fixed shape."""
    config = RunnerConfig(
        model="toy", device="cpu", dtype="float32", threads=1, block_size=BLOCK_SIZE, num_blocks=256, max_model_len=256
    )
    kernel = VarlenKernel(tape.varlen_attn)
    choice = AttentionChoice("varlen_paged", "", False, partial(PagedVarlen.of, kernel), kernel)
    runner = ModelRunner(load_toy(0), config, choose_device(config), lambda *_: None, attention=choice)
    runner.record_decodes(record)
    return runner


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    return fixed_runner()


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    return mixed_requests(count=10)


@pytest.fixture(scope="module")
def expected(requests: list[Request]) -> dict[str, list[int]]:
    """By the path whose logits are compared with transformers, each request by itself."""
    return alone(toy_runner(), requests)


@pytest.fixture
def batches(runner: ModelRunner, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(requests, batch size) of every decode of fixed shape that ran."""
    seen = []
    fill = DecodeInputs.fill

    def noted(self, rows, batch):
        seen.append((len(rows.segments), batch))
        fill(self, rows, batch)

    monkeypatch.setattr(DecodeInputs, "fill", noted)
    return seen


@pytest.mark.parametrize(
    "changes",
    [
        {"max_num_batched_tokens": 64},
        {"max_num_seqs": 3, "max_num_batched_tokens": 7},
        {"batching": "static", "max_num_seqs": 5},
        {"enable_prefix_caching": True},
        {"allocation": "buddy"},
    ],
)
def test_tokens_are_those_of_each_request_alone(runner, requests, expected, batches, changes) -> None:
    driven = drive(runner, SchedulerPolicy(**changes), requests, poison=True)
    assert driven.tokens == expected
    assert batches


@pytest.mark.parametrize("mode", ["swap", "recompute"])
def test_evicted_requests_give_the_same_tokens(runner, requests, expected, mode) -> None:
    policy = SchedulerPolicy(preemption_mode=mode, max_num_batched_tokens=16)
    driven = drive(runner, policy, requests, evictions=ForcedEvictions(3), poison=True)
    assert driven.tokens == expected
    assert driven.num_preemptions > 5


def test_a_batch_is_the_next_size_above_the_number_of_requests(runner, requests, batches) -> None:
    drive(runner, SchedulerPolicy(max_num_seqs=10, max_num_batched_tokens=512), requests)
    assert {count for count, _ in batches} > {3, 5}
    for count, batch in batches:
        assert batch == min(size for size in BATCH_SIZES if size >= count)


@pytest.mark.parametrize(
    ("num_blocks", "largest"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 12), (100, 128), (256, 256), (9999, 256)]
)
def test_sizes_end_where_no_more_requests_have_a_block(num_blocks: int, largest: int) -> None:
    assert batch_sizes(num_blocks)[-1] == largest


def decode_rows(segments: list[Segment]) -> StepRows:
    last = [segment.context - 1 for segment in segments]
    slots = [s.pages[at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE for s, at in zip(segments, last, strict=True)]
    count = len(segments)
    return StepRows(list(range(10, 10 + count)), last, slots, segments, list(range(count)))


def test_inputs_keep_their_place_and_padding_is_legal_in_any_order_of_steps() -> None:
    inputs = DecodeInputs(8, 6, BLOCK_SIZE, CPU)
    tensors = (inputs.token_ids, inputs.positions, inputs.slots, inputs.seqused_k, inputs.block_table, inputs.cu_seq_q)
    addresses = [tensor.data_ptr() for tensor in tensors]
    rng = random.Random(0)
    for _ in range(200):
        count = rng.randint(0, 8)
        pages = [tuple(rng.sample(range(1, 60), rng.randint(1, 6))) for _ in range(count)]
        segments = [Segment(i, 1, table, rng.randint(1, len(table) * BLOCK_SIZE)) for i, table in enumerate(pages)]
        rows = decode_rows(segments)
        assert inputs.fits(rows)
        batch = rng.randint(max(1, count), 8)
        inputs.fill(rows, batch)
        assert inputs.token_ids[:batch].tolist() == rows.token_ids + [0] * (batch - count)
        assert inputs.positions[:batch].tolist() == rows.positions + [0] * (batch - count)
        assert inputs.slots[:batch].tolist() == rows.slots + [0] * (batch - count)
        assert inputs.seqused_k[:batch].tolist() == [s.context for s in segments] + [1] * (batch - count)
        for row in range(batch):
            used = -(-segments[row].context // BLOCK_SIZE) if row < count else 1
            assert tuple(inputs.block_table[row, :used].tolist()) == (pages[row][:used] if row < count else (0,))
        assert inputs.cu_seq_q[: batch + 1].tolist() == list(range(batch + 1))
    assert [tensor.data_ptr() for tensor in tensors] == addresses


def test_only_block_tables_that_changed_are_copied() -> None:
    inputs = DecodeInputs(4, 6, BLOCK_SIZE, CPU)
    inputs.fill(decode_rows([Segment(i, 1, (i + 1, i + 11), 5) for i in range(3)]), 4)
    inputs.block_table.fill_(-1)  # what is not copied stays
    inputs.fill(decode_rows([Segment(0, 1, (1, 11), 6), Segment(1, 1, (2, 12, 20), 9), Segment(2, 1, (3, 13), 6)]), 4)
    assert inputs.block_table[:, :3].tolist() == [[-1] * 3, [2, 12, 20], [-1] * 3, [-1] * 3]


@pytest.mark.parametrize(
    ("segments", "fits"),
    [
        ([Segment(0, 1, (1,), 4)], True),
        ([Segment(0, 2, (1,), 4)], False),
        ([Segment(0, 1, tuple(range(1, 8)), 25)], False),
        ([Segment(0, 1, tuple(range(1, 9)), 24)], True),
        ([Segment(i, 1, (i + 1,), 1) for i in range(3)], False),
    ],
)
def test_chunks_and_what_is_too_large_go_the_general_way(segments: list[Segment], fits: bool) -> None:
    assert DecodeInputs(2, 6, BLOCK_SIZE, CPU).fits(StepRows(segments=segments)) is fits


def test_recording_touches_the_scratch_page_only() -> None:
    loaded = load_toy(0)
    kernel = VarlenKernel(tape.varlen_attn)
    model = LlamaModel(loaded.config, loaded.weights, CPU, torch.float32, 64, lambda *_: None)
    cache = KVCache(toy_config(), 8, BLOCK_SIZE, CPU, torch.float32, heads_first=False)
    for page in range(1, 9):
        cache.block(page).fill_(float(page))
    DecodeBatches(model, cache, kernel, (1, 2, 4), 64).record(lambda work: (work(), work)[1])
    assert all(bool((cache.block(page) == page).all()) for page in range(1, 9))
    assert cache.block(0).isfinite().all()


def test_a_fixed_write_follows_its_slots_and_needs_a_cache_of_whole_rows() -> None:
    cache = KVCache(toy_config(), 4, BLOCK_SIZE, CPU, torch.float32, heads_first=False)
    slots = torch.tensor([5, 6])
    where = cache.plan_fixed_write(slots)
    slots.copy_(torch.tensor([9, 18]))
    keys, values = torch.randn(2, 2, 2, 16).unbind()
    cache.write(1, where, keys, values)
    for token, (page, offset) in enumerate([(2, 1), (4, 2)]):
        assert torch.equal(cache.keys(1)[page, offset], keys[token])
        assert torch.equal(cache.values(1)[page, offset], values[token])
    assert int(cache.keys(1).count_nonzero()) == keys.numel()
    cache.clear(torch.tensor([2]))
    assert not cache.keys(1)[2].any()
    assert cache.keys(1)[4].any()
    with pytest.raises(ValueError, match="a slot is one row"):
        KVCache(toy_config(), 4, BLOCK_SIZE, CPU, torch.float32).plan_fixed_write(slots)


def test_work_is_recorded_once_for_each_size_the_largest_first() -> None:
    recorded = []

    def record(work):
        recorded.append(work)
        return work

    runner = fixed_runner(record)
    drive(runner, SchedulerPolicy(), mixed_requests(count=3))
    assert len(recorded) == len(BATCH_SIZES) == len(runner.info.decode_batches)


def test_what_cannot_be_recorded_is_launched_piece_by_piece_and_said(requests, expected, batches) -> None:
    def refuse(work):
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors might be")

    runner = fixed_runner(refuse)
    assert "could not be recorded: operation not permitted when stream is capturing" in runner.info.attention_note
    assert runner.info.decode_batches == ()
    batches.clear()
    assert drive(runner, SchedulerPolicy(), requests).tokens == expected
    assert not batches


def test_a_recording_that_would_wait_for_the_device_is_refused() -> None:
    ones = torch.ones(3)
    with pytest.raises(RuntimeError, match="capturing"):
        tape.record(lambda: ones.sum().item())
    replay = tape.record(lambda: ones.add_(ones.new_tensor([1.0, 2.0, 3.0])))
    replay()
    assert ones.tolist() == [3.0, 5.0, 7.0]


def test_memory_used_up_while_recording_is_an_error_of_the_start() -> None:
    def refuse(work):
        raise OUT_OF_MEMORY

    with pytest.raises(torch.OutOfMemoryError):
        fixed_runner(refuse)


@pytest.mark.parametrize(
    "error", [OUT_OF_MEMORY, MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_memory_used_up_at_the_start_names_the_fields_that_would_help(monkeypatch, error) -> None:
    def refuse(*arguments, **named):
        raise error

    monkeypatch.setattr("model_runner.runner.LlamaModel", refuse)
    with pytest.raises(RunnerConfigError, match=r"model is 'toy'.*num_blocks = 8; .*fewer blocks") as raised:
        ModelRunner.load(RunnerConfig(model="toy", device="cpu", num_blocks=8))
    assert "\n" not in str(raised.value)


def test_memory_used_up_in_a_step_says_how_large_it_was(monkeypatch) -> None:
    runner = toy_runner()

    def refuse(*arguments):
        raise OUT_OF_MEMORY

    monkeypatch.setattr(runner._model, "forward", refuse)
    step = ScheduleStep(1, 1, 0.0, num_padding_tokens={"a": 7}, kinds={"a": "padding"})
    with pytest.raises(StepError, match=r"out of memory on cpu in a step of 7 tokens; .*max_num_batched_tokens"):
        runner.execute(step)
    monkeypatch.setattr(runner._model, "forward", lambda *_: (_ for _ in ()).throw(RuntimeError("another")))
    with pytest.raises(RuntimeError, match="another"):
        runner.execute(step)
