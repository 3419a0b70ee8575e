"""Which attention is used: tried at start with kernels that work, that are wrong, and that refuse."""

from __future__ import annotations

import importlib
from functools import partial, wraps

import pytest
import torch

from model_runner.attention import AttentionPlan, AttentionShape
from model_runner.attention_choice import AttentionChoice, choose_attention, reference, try_plan, varlen_functions
from model_runner.inputs import Segment
from model_runner.varlen import GatheredVarlen, PagedVarlen, VarlenKernel
from tests.model_runner.flash import varlen_attn, varlen_attn_without_pages

HEAD_DIM = 16


def shape(block_size: int = 4, dtype: torch.dtype = torch.bfloat16) -> AttentionShape:
    return AttentionShape(64, block_size, 2, 3, torch.device("cpu"), dtype)


def choose(function: object, block_size: int = 4) -> AttentionChoice:
    return choose_attention(shape(block_size), HEAD_DIM, lambda: iter([function]))


@wraps(varlen_attn)
def pages_of_256(query, key, *rest, block_table=None, **named):
    if block_table is not None and key.shape[1] % 256:
        raise RuntimeError("Paged KV cache block size must be divisible by 256\nand pages of C++ behind it")
    return varlen_attn(query, key, *rest, block_table=block_table, **named)


@wraps(varlen_attn)
def forgets_a_key(query, key, value, cu_seq_q, cu_seq_k, *rest, seqused_k=None, **named):
    if cu_seq_k is not None:
        raise RuntimeError("no offsets of keys")
    return varlen_attn(query, key, value, cu_seq_q, None, *rest, seqused_k=(seqused_k - 1).clamp(min=1), **named)


@wraps(varlen_attn)
def wants_key_offsets(query, key, value, cu_seq_q, cu_seq_k, *rest, **named):
    """An older kernel: takes pages, checks that there are offsets of keys, does not read them."""
    if cu_seq_k is None:
        raise RuntimeError("cu_seqlens_k must be given")
    assert cu_seq_k.shape == cu_seq_q.shape
    return varlen_attn(query, key, value, cu_seq_q, None, *rest, **named)


def test_pages_in_place_are_chosen_where_they_give_the_right_result() -> None:
    found = choose(varlen_attn)
    assert (found.path, found.heads_first) == ("varlen_paged", False)
    assert "pages of 4" in found.note


def test_a_page_size_that_is_refused_leads_to_copied_pages_and_says_which_would_do() -> None:
    found = choose(pages_of_256, block_size=16)
    assert (found.path, found.heads_first, found.kernel) == ("varlen_gathered", False, None)
    assert "pages of 16: Paged KV cache block size must be divisible by 256; block_size 256 would work" in found.note
    assert choose(pages_of_256, block_size=256).path == "varlen_paged"


def test_a_torch_without_block_tables_leads_to_copied_pages() -> None:
    found = choose(varlen_attn_without_pages)
    assert found.path == "varlen_gathered"
    assert "takes no block_table" in found.note


def test_a_kernel_that_gives_wrong_results_is_not_used() -> None:
    found = choose(forgets_a_key)
    assert (found.path, found.heads_first, found.plan) == ("torch", True, AttentionPlan)
    assert "wrong by" in found.note
    assert "no offsets of keys" in found.note


def test_a_kernel_that_wants_offsets_of_keys_over_pages_gets_them() -> None:
    found = choose(wants_key_offsets)
    assert found.path == "varlen_paged"
    assert "must be given" in found.note


@pytest.mark.parametrize("error", [ImportError("no varlen"), AttributeError("varlen_attn"), RuntimeError("no driver")])
def test_where_varlen_attn_is_missing_it_is_plain_torch_and_says_why(error: Exception) -> None:
    def missing():
        raise error

    found = choose_attention(shape(), HEAD_DIM, missing)
    assert found.path == "torch"
    assert str(error) in found.note


@pytest.mark.parametrize(
    ("capability", "installed", "works", "active"),
    [
        ((9, 0), True, True, ["FA3", "FA2"]),
        ((9, 0), True, False, ["FA2"]),
        ((9, 0), False, True, ["FA2"]),
        ((8, 0), True, True, ["FA2"]),
    ],
)
def test_flash_attention_3_is_tried_first_where_it_is_installed_for_the_gpu(
    monkeypatch: pytest.MonkeyPatch, capability, installed: bool, works: bool, active: list[str]
) -> None:
    state = ["FA2"]

    def activate(name: str) -> None:
        if not works:
            raise RuntimeError("Module 'flash_attn_interface' does not expose FA3 kernels")
        state[0] = name

    attention = importlib.import_module("torch.nn.attention")
    monkeypatch.setattr(attention, "activate_flash_attention_impl", activate)
    monkeypatch.setattr(attention, "restore_flash_attention_impl", lambda: state.__setitem__(0, "FA2"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr("model_runner.attention_choice.find_spec", lambda name: object() if installed else None)
    assert [state[0] for _ in varlen_functions()] == active


def test_float32_and_a_cpu_have_plain_torch() -> None:
    assert choose_attention(shape(dtype=torch.float32), HEAD_DIM, lambda: iter([varlen_attn])).path == "torch"
    assert choose_attention(shape(), HEAD_DIM).path == "torch"


def test_the_varlen_attn_of_this_torch_is_called_by_names_it_has() -> None:
    kernel = VarlenKernel(importlib.import_module("torch.nn.attention.varlen").varlen_attn)
    assert kernel.takes_pages
    # No kernel for a CPU: the calls must get as far as the dispatcher, past every check of arguments.
    for plan in (PagedVarlen.of, GatheredVarlen.of):
        assert "_flash_attention_forward" in try_plan(partial(plan, kernel), shape(), HEAD_DIM)


@pytest.mark.parametrize("make", [PagedVarlen.of, GatheredVarlen.of])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_index_tensors_say_who_sees_what(make, block_size: int) -> None:
    generator = torch.Generator().manual_seed(block_size)
    draw = torch.Generator().manual_seed(7)
    segments, first = [], 0
    for _ in range(9):
        count = int(torch.randint(1, 6, (1,), generator=draw))
        context = count + int(torch.randint(0, 20, (1,), generator=draw))
        pages = tuple(torch.randperm(63, generator=draw)[: -(-context // block_size) + 2].add(1).tolist())
        segments.append(Segment(first, count, pages, context))
        first += count
    keys, values = torch.randn(2, 64, block_size, 2, HEAD_DIM, generator=generator).unbind()
    queries = torch.randn(first + 2, 6, HEAD_DIM, generator=generator)
    found = make(VarlenKernel(varlen_attn), segments, shape(block_size)).run(queries, keys, values)
    torch.testing.assert_close(found[:first], reference(queries[:first], keys, values, segments), rtol=1e-5, atol=1e-5)
    assert not found[first:].any()
    plain = AttentionPlan(segments, shape(block_size, torch.float32)).run(queries, keys, values)
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-5)
