"""Decodes over pages in place, against attention as it is defined."""

from __future__ import annotations

import random

import pytest
import torch

from model_runner.attention import AttentionPlan, AttentionShape
from model_runner.attention_choice import reference
from model_runner.inputs import Segment

CPU = torch.device("cpu")
PAGES, HEAD_DIM = 97, 16


def decodes(block_size: int, *, shared: bool, seed: int) -> list[Segment]:
    """Eleven decodes of 1 to 6 pages each; rows 4 and 7 belong to chunks."""
    rng = random.Random(seed)
    free = rng.sample(range(1, PAGES), PAGES - 1)
    common = tuple(free.pop() for _ in range(2)) if shared else ()
    segments, first = [], 0
    for index in range(13):
        own = tuple(free.pop() for _ in range(rng.randint(1, 6)))
        pages = common + own
        context = (len(pages) - 1) * block_size + rng.randint(1, block_size)
        count = 2 if index in (4, 7) and context > 1 else 1
        segments.append(Segment(first, count, pages, context))
        first += count
    return segments


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (2, 3), (4, 2), (3, 1)])
@pytest.mark.parametrize("block_size", [1, 4, 32])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_a_decode_is_attention_over_its_own_pages_whatever_lies_in_others(
    dtype, tolerance, block_size: int, kv_heads: int, group: int, shared: bool
) -> None:
    segments = decodes(block_size, shared=shared, seed=block_size)
    tokens = segments[-1].first + segments[-1].count
    generator = torch.Generator().manual_seed(group)
    pool = torch.randn(2, PAGES, kv_heads, block_size, HEAD_DIM, generator=generator).to(dtype)
    used = {page for segment in segments for page in segment.pages}
    pool[:, [page for page in range(PAGES) if page not in used]] = torch.nan
    keys, values = pool.transpose(2, 3).unbind()
    queries = torch.randn(tokens + 3, kv_heads * group, HEAD_DIM, generator=generator).to(dtype)
    shape = AttentionShape(PAGES, block_size, kv_heads, group, CPU, dtype)
    found = AttentionPlan(segments, shape).run(queries, keys, values)
    exact = reference(queries[:tokens].float(), keys.float(), values.float(), segments)
    torch.testing.assert_close(found[:tokens].float(), exact, rtol=tolerance, atol=tolerance)
    assert not found[tokens:].any()
