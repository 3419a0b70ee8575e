"""Exports of a run as files in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from experiments.exports.bench import bench_result
from experiments.exports.errors import ExportError
from experiments.exports.frames import csv_bytes, parquet_bytes, tables
from experiments.exports.perfetto import perfetto_json
from experiments.exports.workload import workload_bytes
from experiments.record import Run


def _perfetto(run: Run) -> dict[str, bytes]:
    return {"perfetto.json": perfetto_json(run)}


def _bench(run: Run) -> dict[str, bytes]:
    return {"vllm-bench.json": json.dumps(bench_result(run), allow_nan=False).encode()}


def _csv(run: Run) -> dict[str, bytes]:
    return {f"{name}.csv": csv_bytes(table) for name, table in tables(run).items()}


def _parquet(run: Run) -> dict[str, bytes]:
    return {f"{name}.parquet": parquet_bytes(table) for name, table in tables(run).items()}


def _workload(run: Run) -> dict[str, bytes]:
    return {"workload.json": workload_bytes(run)}


FORMATS: Final[Mapping[str, Callable[[Run], dict[str, bytes]]]] = MappingProxyType(
    {"perfetto": _perfetto, "vllm-bench": _bench, "csv": _csv, "parquet": _parquet, "workload": _workload}
)
"""Format -> files by the end of their names."""


def stem_of(run: Run) -> str:
    """``label-repeat`` with what a file name should not hold as "_"."""
    return f"{re.sub(r'[^0-9A-Za-z._+-]', '_', run.label).lstrip('.') or 'run'}-{run.repeat}"


def export(run: Run, folder: Path, formats: Sequence[str] = tuple(FORMATS)) -> tuple[Path, ...]:
    """Write ``STEM.perfetto.json``, ``STEM.requests.csv`` and so on, each by rename; the paths written.

    Raises ExportError for an unknown format, before anything is written; OSError where the folder cannot be.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise ExportError(f"format is {''.join(unknown[:1])!r}, expected some of {', '.join(FORMATS)}")
    made = {name: data for one in formats for name, data in FORMATS[one](run).items()}
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, data in made.items():
        path = folder / f"{stem_of(run)}.{name}"
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(data)
        part.replace(path)
        written.append(path)
    return tuple(written)
