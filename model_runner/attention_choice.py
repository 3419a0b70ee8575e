"""Which attention a runner uses: tried on a tiny case at start, compared with the definition, and told to the page."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import torch

from model_runner.attention import AttentionPlan, AttentionShape, MakePlan
from model_runner.errors import first_line
from model_runner.inputs import Segment
from model_runner.varlen import GatheredVarlen, PagedVarlen, VarlenKernel

_log = logging.getLogger(__name__)

AttentionPath = Literal["torch", "varlen_gathered", "varlen_paged"]

PROBED_PAGE_SIZES = (16, 32, 64, 128, 256)
"""Tried when the page size in force does not work, to say which one would."""

_TOLERANCE = 0.02
"""Largest error of an output around 1, in a number type of 8 bits: a wrong key or mask is off by tenths."""


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """path: "varlen_paged" reads pages where they lie; "varlen_gathered" copies what a step needs first; "torch" is
    plain torch, everywhere right. note: why it is this one, for people. heads_first: the order of the cache it wants.
    plan: makes what attends in one step. kernel: for decode batches of fixed shape; None = there are none.
    """

    path: AttentionPath
    note: str
    heads_first: bool
    plan: MakePlan
    kernel: VarlenKernel | None = None


def plain(note: str) -> AttentionChoice:
    """Attention in plain torch, and why."""
    return AttentionChoice("torch", note, True, AttentionPlan)


def choose_attention(
    shape: AttentionShape, head_dim: int, find: Callable[[], Iterator[Callable[..., Any]]] | None = None
) -> AttentionChoice:
    """The best path that works here. shape.num_pages is not used. find: ``varlen_attn``, for tests."""
    if find is None:
        if shape.device.type != "cuda":
            return plain("the fastest measured on a CPU")
        find = varlen_functions
    if shape.dtype == torch.float32:
        return plain("FlashAttention does not compute in float32")
    reasons: list[str] = []
    try:
        for function in find():
            found = _try_paths(function, shape, head_dim, reasons)
            if found is not None:
                return found
    except (ImportError, AttributeError, RuntimeError, ValueError) as error:
        reasons.append(f"varlen_attn cannot be used here: {first_line(error)}")
    return plain("; ".join(reasons))


def varlen_functions() -> Iterator[Callable[..., Any]]:
    """``varlen_attn``, first on FlashAttention 3 where that is installed for this GPU, then as torch brings it.

    FlashAttention 3 (package ``flash_attn_interface``, compute capability 9) takes pages of any size, the version 2
    inside torch multiples of 256. Which one is active is a state of the process.
    """
    function = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    attention = importlib.import_module("torch.nn.attention")
    if torch.cuda.get_device_capability()[0] == 9 and find_spec("flash_attn_interface"):
        try:
            attention.activate_flash_attention_impl("FA3")
        except (AttributeError, ImportError, RuntimeError, ValueError) as error:
            _log.warning("flash_attn_interface is installed but cannot be used: %s", first_line(error))
        else:
            yield function
            attention.restore_flash_attention_impl()
    yield function


def _try_paths(
    function: Callable[..., Any], shape: AttentionShape, head_dim: int, reasons: list[str]
) -> AttentionChoice | None:
    """Pages in place, else pages copied; what did not work is added to ``reasons``."""
    kernels = [VarlenKernel(function), VarlenKernel(function, key_offsets=True)]
    if kernels[0].takes_pages:
        for kernel in kernels:
            problem = try_plan(partial(PagedVarlen.of, kernel), shape, head_dim)
            if not problem:
                note = "; ".join([*reasons, f"varlen_attn over pages of {shape.block_size}, one split"])
                return AttentionChoice("varlen_paged", note, False, partial(PagedVarlen.of, kernel), kernel)
            reasons.append(f"varlen_attn over pages of {shape.block_size}: {problem}")
        del reasons[-1]  # the second way to call it is an attempt, not a reason
        reasons.append(_advice(kernels, shape, head_dim))
    else:
        reasons.append(f"varlen_attn of torch {torch.__version__} takes no block_table with num_splits")
    plan = partial(GatheredVarlen.of, kernels[0])
    problem = try_plan(plan, shape, head_dim)
    if not problem:
        return AttentionChoice("varlen_gathered", "; ".join(reasons), False, plan)
    reasons.append(f"varlen_attn over copied pages: {problem}")
    return None


def _advice(kernels: Sequence[VarlenKernel], shape: AttentionShape, head_dim: int) -> str:
    working = [
        size
        for size in PROBED_PAGE_SIZES
        if any(not try_plan(partial(PagedVarlen.of, k), _with_pages_of(shape, size), head_dim) for k in kernels)
    ]
    return f"block_size {' or '.join(map(str, working))} would work" if working else "no other block_size works"


def _with_pages_of(shape: AttentionShape, block_size: int) -> AttentionShape:
    return AttentionShape(shape.num_pages, block_size, shape.kv_heads, shape.group, shape.device, shape.dtype)


@torch.inference_mode()
def try_plan(plan: MakePlan, shape: AttentionShape, head_dim: int) -> str:
    """Run a mixed batch and a decode over scattered pages; "" = right, else what was wrong."""
    size = shape.block_size
    mixed = (
        Segment(0, 3, (5, 2), size + 2),  # a chunk behind earlier context, in pages out of order
        Segment(3, 2, (7,), 2),  # a chunk from the beginning
        Segment(5, 1, (3, 6, 1), 2 * size + 1),
    )
    decode = (Segment(0, 1, (4, 1, 6), 3 * size), Segment(1, 1, (0,), 1), Segment(2, 1, (2, 5), size + 1))
    generator = torch.Generator().manual_seed(0)
    pool = torch.randn(2, 8, size, shape.kv_heads, head_dim, generator=generator).to(shape.dtype)
    for segments in (mixed, decode):
        tokens = sum(segment.count for segment in segments)
        queries = torch.randn(tokens, shape.kv_heads * shape.group, head_dim, generator=generator).to(shape.dtype)
        keys, values = pool.to(shape.device).unbind()
        try:
            found = plan(segments, shape).run(queries.to(shape.device), keys, values).float().cpu()
        except (RuntimeError, ValueError, TypeError) as error:
            return first_line(error)
        exact = reference(queries.float(), pool[0].float(), pool[1].float(), segments)
        distance = (found - exact).abs().max().item()
        if not distance <= _TOLERANCE:  # also when it is not a number
            return f"wrong by {distance:.3g} on a tiny case"
    return ""


def reference(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, segments: Sequence[Segment]
) -> torch.Tensor:
    """Attention as it is defined, row by row. Shapes as for ``AttentionPlan.run``; every row is in a segment."""
    group = queries.shape[1] // keys.shape[2]
    out = torch.zeros_like(queries)
    for segment in segments:
        k, v = (pool[list(segment.pages)].flatten(0, 1).repeat_interleave(group, 1) for pool in (keys, values))
        for i in range(segment.count):
            visible, row = segment.context - segment.count + i + 1, segment.first + i
            scores = torch.einsum("hd,khd->hk", queries[row], k[:visible]) * queries.shape[-1] ** -0.5
            out[row] = torch.einsum("hk,khd->hd", scores.softmax(-1), v[:visible])
    return out
