"""The small files of every format, and the one way the tests read them."""

from __future__ import annotations

from pathlib import Path

from experiments.trace import Trace
from experiments.traces import read_trace

DATA = Path(__file__).parent / "data"
FILES = sorted(path.name for path in DATA.iterdir() if path.suffix != ".md")
STEP_S = 0.5


def words(text: str) -> int:
    """A tokenizer that anybody can check by eye."""
    return len(text.split())


def read(file: Path | bytes) -> Trace:
    """With all that any format needs."""
    return read_trace(file, count_tokens=words, seconds_per_step=STEP_S)
