"""What ``torch.nn.attention.varlen.varlen_attn`` promises, in plain torch, from its documentation: no GPU has it here.

Differs from the runner's own reference on purpose: it knows index tensors, not segments, and masks a square of scores.
It checks what the kernels demand of their arguments.
"""

from __future__ import annotations

import itertools

import torch


def varlen_attn(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> torch.Tensor:
    for indices in (cu_seq_q, cu_seq_k, seqused_k, block_table):
        assert indices is None or (indices.dtype == torch.int32 and indices.stride(-1) == 1)
    heads, kv_heads = query.shape[1], key.shape[-2]
    assert enable_gqa or heads == kv_heads
    assert query.dtype == key.dtype == value.dtype
    assert query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    starts = cu_seq_q.tolist()
    assert starts[0] == 0
    assert starts[-1] == query.shape[0]
    counts = [end - start for start, end in itertools.pairwise(starts)]
    assert max(counts) <= max_q
    out = torch.empty_like(query)
    for request, (start, count) in enumerate(zip(starts, counts, strict=False)):
        if block_table is not None:
            assert cu_seq_k is None
            assert num_splits == 1
            assert block_table.shape[0] == len(counts)
            used = int(seqused_k[request])
            pages = -(-used // key.shape[1])
            table = block_table[request, :pages].long()
            k, v = key[table].flatten(0, 1)[:used], value[table].flatten(0, 1)[:used]
        else:
            first, last = int(cu_seq_k[request]), int(cu_seq_k[request + 1])
            k, v = key[first:last], value[first:last]
        assert 0 < k.shape[0] <= max_k
        out[start : start + count] = _attend(query[start : start + count], k, v, scale, window_size)
    return out


def _attend(q, k, v, scale, window_size):
    group = q.shape[1] // k.shape[1]
    k, v = (one.float().repeat_interleave(group, 1).transpose(0, 1) for one in (k, v))
    scores = q.float().transpose(0, 1) @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if window_size == (-1, 0):
        rows, columns = torch.arange(q.shape[0]).unsqueeze(1), torch.arange(k.shape[1])
        scores.masked_fill_(columns > rows + k.shape[1] - q.shape[0], -torch.inf)
    else:
        assert window_size == (-1, -1)
    return (scores.softmax(-1) @ v).transpose(0, 1).to(q.dtype)


def varlen_attn_without_pages(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None, scale=None
):
    """The signature of older versions of torch: no window, no pages, grouped heads taken as they are."""
    window = (-1, 0) if is_causal else (-1, -1)
    return varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale=scale, window_size=window, enable_gqa=True
    )
