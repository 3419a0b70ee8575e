"""A workload that somebody uploads: read, told, and kept only when all of it is right."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dashboard.experiments.workshop import environment
from experiments.trace import Trace
from experiments.traces import TraceError, read_trace

MAX_MB: Final = 50
"""Of an uploaded file; larger ones are read by ``python -m experiments trace``."""
MAX_ROWS: Final = 20_000
"""Requests that the page takes from a file: its first ones."""
TOKENIZER_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was read. sha256: of the bytes as they came."""

    file_name: str
    size: int
    sha256: str
    trace: Trace


def read_upload(name: str, data: bytes, seconds_per_step: float, model: str) -> Upload:
    """The first ``MAX_ROWS`` requests of the file. seconds_per_step: for files whose arrivals are steps.

    model: its tokenizer counts the tokens of files that hold texts. Raises TraceError naming line and field.
    """
    label = Path(name).stem[:60] or "upload"
    try:
        trace = read_trace(data, label, limit=MAX_ROWS, seconds_per_step=seconds_per_step)
    except TraceError as error:
        if error.field != "count_tokens":
            raise
        trace = _with_tokenizer(label, data, model)
    return Upload(name[:120], len(data), hashlib.sha256(data).hexdigest(), trace)


def _with_tokenizer(label: str, data: bytes, model: str) -> Trace:
    """In a process of its own: a page loads no tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "upload", Path(folder) / "trace.json"
        source.write_bytes(data)
        command = [sys.executable, "-m", "experiments", "trace", "read", str(source), "--model", model]
        command += ["--name", label, "--limit", str(MAX_ROWS), "--out", str(made)]
        try:
            done = subprocess.run(command, env=environment(), capture_output=True, timeout=TOKENIZER_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise TraceError(label, f"its texts took longer than {TOKENIZER_S:g} s to count") from error
        if done.returncode:
            told = done.stderr.decode("utf-8", "replace").replace(str(source), label).strip().splitlines()
            raise TraceError(label, told[-1][:400] if told else "could not be read")
        return read_trace(made)
