"""``python -m experiments export RUN_OR_FOLDER --format perfetto,csv --out DIR``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from experiments.exports.errors import ExportError
from experiments.exports.writing import FORMATS, export, stem_of
from experiments.record import Run, decode_run

HELP = "write runs for other tools: Perfetto, vLLM's bench JSON, CSV, Parquet, the workload"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to export, as what, and where to."""
    parser.add_argument("source", type=Path, help="a run's JSON file, or a folder of an experiment")
    parser.add_argument(
        "--format", default=",".join(FORMATS), help=f"some of {','.join(FORMATS)}, with commas; all where not given"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")


def main(options: argparse.Namespace) -> int:
    """Writes the files and prints their paths; 2 = nothing could be read or a format is unknown."""
    formats = [name.strip() for name in options.format.split(",") if name.strip()]
    try:
        runs = [(path, _read(path)) for path in _files(options.source)]
        _distinct(runs)
        for _, run in runs:
            for path in export(run, options.out, formats):
                print(path)
    except ExportError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    inner = source / "runs"
    found = sorted((inner if inner.is_dir() else source).glob("*.json"))
    if not found:
        raise ExportError(f"{source}: no run there, expected a run's JSON file or a folder with runs/*.json")
    return found


def _read(path: Path) -> Run:
    try:
        return decode_run(path.read_bytes())
    except msgspec.MsgspecError as error:
        raise ExportError(f"{path}: is no run: {error}") from error


def _distinct(runs: list[tuple[Path, Run]]) -> None:
    seen: dict[str, Path] = {}
    for path, run in runs:
        first = seen.setdefault(stem_of(run), path)
        if first != path:
            raise ExportError(f"{path}: has label and repeat of {first}, so their exports would have one name")
