"""An embedding that shares memory with a tied head gives the rows of the weight, bit by bit."""

from __future__ import annotations

import pytest
import torch

from model_runner.embedding_table import EmbeddingTable, packed_blocks
from model_runner.linear import KMajorLinear, PackedLinear, PlainLinear, packing_works

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def weight_of(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).to(dtype)


@BOTH
@pytest.mark.parametrize(("rows", "columns"), [(640, 96), (128, 32), (100, 96), (128, 40), (1, 1)])
@pytest.mark.parametrize("kind", [PackedLinear, KMajorLinear, PlainLinear, None])
def test_rows_are_those_of_the_weight_whatever_the_head_is(
    rows: int, columns: int, kind: type | None, dtype: torch.dtype
) -> None:
    if kind is PackedLinear and not packing_works(dtype):
        pytest.skip("this machine has no packed product")
    weight = weight_of(rows, columns, dtype)
    table = EmbeddingTable(weight, kind(weight) if kind else None)
    ids = torch.randint(0, rows, (50,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(table.rows(ids), weight[ids])
    assert table.rows(ids[:0]).shape == (0, columns)


@BOTH
def test_memory_is_shared_only_where_the_layout_is_the_known_one(dtype: torch.dtype) -> None:
    if not packing_works(dtype):
        pytest.skip("this machine has no packed product")
    weight, other = weight_of(640, 96, dtype), weight_of(641, 96, dtype)[:640]
    head = PackedLinear(weight)
    own = weight.numel() * weight.element_size()
    assert EmbeddingTable(weight, head).num_bytes == (0 if packed_blocks(head, weight) is not None else own)
    assert packed_blocks(head, other) is None, "rows that differ from the weight mean another layout"
    assert EmbeddingTable(other, head).num_bytes == own
    assert EmbeddingTable(weight, None).num_bytes == own
    assert EmbeddingTable(weight, PlainLinear(weight)).num_bytes == 0
