"""Columns to Arrow IPC bytes, the form in which a tick's data reach the charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Columns = Mapping[str, tuple[pa.DataType, Sequence[Any]]]
"""Column name to (Arrow type, values); all of one length. ``None`` is a null."""

I8, I16, I32, F32, TEXT = pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.string()


def encode(columns: Columns) -> bytes:
    """One Arrow IPC stream with a single batch."""
    table = pa.table({name: pa.array(values, type=kind) for name, (kind, values) in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes) -> dict[str, list[Any]]:
    """The columns of a stream made by ``encode``."""
    with pa.ipc.open_stream(data) as reader:
        columns: dict[str, list[Any]] = reader.read_all().to_pydict()
    return columns


def rows(types: Mapping[str, pa.DataType], records: Sequence[Sequence[Any]]) -> bytes:
    """``encode`` for records given row by row; right also when there are none."""
    columns = list(zip(*records, strict=True)) if records else [() for _ in types]
    return encode({name: (kind, values) for (name, kind), values in zip(types.items(), columns, strict=True)})
