"""``python -m model_runner prepare``: convert the default model ahead of the first start. Downloads nothing."""

from __future__ import annotations

import argparse
import sys

from model_runner.config import RunnerConfig
from model_runner.errors import ModelNotFoundError, RunnerError
from model_runner.model_cache import SMOLLM2, load_packaged
from model_runner.opening import choose_for_model


def main(argv: list[str]) -> int:
    """0 = ready, or not installed (the dashboard then runs the toy model); 1 = something is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m model_runner prepare", description=__doc__)
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    arguments = parser.parse_args(argv)
    try:
        choice = choose_for_model(RunnerConfig(dtype=arguments.dtype), _ProgressLine())
        loaded = load_packaged(SMOLLM2, choice.dtype, _ProgressLine())
    except ModelNotFoundError as error:
        print(f"{error}\nUntil then the dashboard runs a toy model.")
        return 0
    except RunnerError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"model ready: {loaded.name}, {choice.dtype_name}" + (f"\n{loaded.note}" if loaded.note else ""))
    return 0


class _ProgressLine:
    """Progress on one line of a terminal, or a line a stage where output is not a terminal."""

    def __init__(self) -> None:
        self._stage = ""

    def __call__(self, stage: str, fraction: float, message: str) -> None:
        if sys.stdout.isatty():
            print(f"\r\x1b[K{stage} {fraction:4.0%} {message[:60]}", end="" if fraction < 1 else "\n", flush=True)
        elif stage != self._stage:
            print(f"{stage}: {message}", flush=True)
        self._stage = stage
