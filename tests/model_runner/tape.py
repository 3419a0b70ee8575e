"""Records operators on the CPU as a CUDA graph records kernels: what is replayed knows no Python, only tensors.

An operator that gives the host a value (``item``, ``nonzero``) cannot be in a CUDA graph and is refused here too.
"""

from __future__ import annotations

from functools import wraps

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.model_runner import flash

HOST_READS = {"_local_scalar_dense", "nonzero", "is_nonzero", "_unique2", "masked_select"}


@torch.library.custom_op("batchscope_tests::decode", mutates_args=())
def _decode(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    max_k: int,
) -> torch.Tensor:
    rest = {"enable_gqa": True, "num_splits": 1, "seqused_k": seqused_k, "block_table": block_table}
    return flash.varlen_attn(query, key, value, cu_seq_q, None, 1, max_k, **rest)


@wraps(flash.varlen_attn)
def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **rest):
    """``flash.varlen_attn``; a decode is one operator, as the real one is: what it reads within is its own business."""
    if max_q > 1:
        return flash.varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **rest)
    return _decode(query, key, value, cu_seq_q, rest["seqused_k"], rest["block_table"], max_k)


class Tape(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.split("::")[1] in HOST_READS:
            raise RuntimeError(f"operation not permitted when stream is capturing: {func}")
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        for func, args, kwargs, result in self.calls:
            for old, new in zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def record(work):
    """In place of ``CudaGraphs``."""
    tape = Tape()
    with tape:
        work()
    return tape.replay
