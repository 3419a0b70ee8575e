"""Number type and threads of a CPU, chosen by timing the largest of the model's own products before it is loaded.

The rule, a pure function of the figures:

- bfloat16 where a decode step takes float32 at least ``BF16_GAIN`` times as long, else float32, which rounds less.
- Of each number type the fewest threads: a higher number is taken where it is ``THREAD_GAIN`` times as fast as the
  one taken before it.
- One core is always left to the page. A start cannot see a page that nobody has opened yet, and products that share
  their cores with one wait for each other: of two threads on two cores, 0.22 ms alone became 21 ms. All cores are
  measured nevertheless, so that who runs without a page sees what they would give; they are used when asked for.

Figures are medians of rounds in which the candidates take turns, so that a moment of quiet or noise decides nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from model_runner.linear import Linear, LinearFactory

BF16_GAIN = 1.2
THREAD_GAIN = 1.15
DECODE_ROWS = 8
BUDGET_S = 1.0
"""Seconds after which no further round begins, packing of weights included."""

_MOST_ROUNDS = 15
_FEWEST_ROUNDS = 2
_COLD_BYTES = 32 * 2**20
"""Weights of one pass in bfloat16: more than a core's caches hold, since a step reads every weight from memory."""


@dataclass(frozen=True, slots=True)
class ProductShapes:
    """The product that is timed, the largest of a layer: gate and up of the MLP, [2 * intermediate, hidden].

    One shape only, because oneDNN keeps 0.6 MB for every one it meets.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int


@dataclass(frozen=True, slots=True)
class StartTiming:
    """Milliseconds of the largest product of a decode step of ``DECODE_ROWS`` requests, in all layers together."""

    dtype: str
    threads: int
    decode_ms: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A number type and number of threads to be timed."""

    dtype: torch.dtype
    threads: int

    @property
    def dtype_name(self) -> str:
        """The name used in ``RunnerConfig.dtype``."""
        return str(self.dtype).removeprefix("torch.")


Measure = Callable[[Sequence[Candidate]], Mapping[Candidate, float]]
"""Decode milliseconds of each candidate."""


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """What was chosen, and every figure that was taken for it."""

    dtype: torch.dtype
    threads: int
    timings: tuple[StartTiming, ...]


def choose_by_measuring(dtypes: Sequence[torch.dtype], threads: int, cores: int, measure: Measure) -> MeasuredChoice:
    """dtypes: those to choose from, one or both. threads: 0 = to be chosen. cores: usable ones, >= 1.

    Nothing is measured where there is nothing to choose.
    """
    numbers = (threads,) if threads else thread_numbers(cores)
    candidates = [Candidate(dtype, number) for dtype in dtypes for number in numbers]
    if len(candidates) == 1:
        return MeasuredChoice(dtypes[0], numbers[0], ())
    found = measure(candidates)
    best = {}
    for dtype in dtypes:
        times = {c.threads: ms for c, ms in found.items() if c.dtype == dtype}
        best[dtype] = Candidate(dtype, threads or fewest_good_threads(times, cores))
    chosen = best[faster_dtype({dtype: found[candidate] for dtype, candidate in best.items()})]
    timings = (StartTiming(c.dtype_name, c.threads, round(ms, 3)) for c, ms in found.items())
    return MeasuredChoice(chosen.dtype, chosen.threads, tuple(timings))


def faster_dtype(decode_ms: Mapping[torch.dtype, float]) -> torch.dtype:
    """bfloat16 only where it gains clearly. decode_ms: of one or both."""
    if len(decode_ms) == 1:
        return next(iter(decode_ms))
    gain = decode_ms[torch.float32] / decode_ms[torch.bfloat16]
    return torch.bfloat16 if gain >= BF16_GAIN else torch.float32


def thread_numbers(cores: int) -> tuple[int, ...]:
    """Numbers worth timing: 1, 2, 4 and so on, all cores but one, all cores."""
    doubled = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    return tuple(sorted({*doubled, max(1, cores - 1), cores}))


def fewest_good_threads(decode_ms: Mapping[int, float], cores: int) -> int:
    """decode_ms: by number of threads, that of 1 included. At most all cores but one."""
    chosen = 1
    for number in sorted(decode_ms):
        if chosen < number < cores and decode_ms[chosen] / decode_ms[number] >= THREAD_GAIN:
            chosen = number
    return chosen


def measure_products(shapes: ProductShapes, candidates: Sequence[Candidate]) -> dict[Candidate, float]:
    """Time the candidates in turn, for ``BUDGET_S`` or a few rounds. Changes torch's number of threads."""
    deadline = time.perf_counter() + BUDGET_S
    layer_bytes = 4 * shapes.hidden_size * shapes.intermediate_size
    layers = max(1, min(shapes.num_hidden_layers, _COLD_BYTES // layer_bytes))
    weights = {dtype: _layers(shapes, layers, dtype) for dtype in dict.fromkeys(c.dtype for c in candidates)}
    times: dict[Candidate, list[float]] = {candidate: [] for candidate in candidates}
    with torch.inference_mode():
        for candidate in candidates:
            _pass_s(candidate, shapes, weights[candidate.dtype])  # compiles, and starts the threads
        for number in range(_MOST_ROUNDS):
            if number >= _FEWEST_ROUNDS and time.perf_counter() > deadline:
                break
            for candidate in candidates:
                times[candidate].append(_pass_s(candidate, shapes, weights[candidate.dtype]))
    scale = 1e3 * shapes.num_hidden_layers / layers
    return {candidate: scale * statistics.median(found) for candidate, found in times.items()}


def _layers(shapes: ProductShapes, count: int, dtype: torch.dtype) -> list[Linear]:
    linear, size = LinearFactory(torch.device("cpu"), dtype), (2 * shapes.intermediate_size, shapes.hidden_size)
    return [linear(torch.full(size, 0.01, dtype=dtype)) for _ in range(count)]


def _pass_s(candidate: Candidate, shapes: ProductShapes, layers: Sequence[Linear]) -> float:
    torch.set_num_threads(candidate.threads)
    x = torch.ones(DECODE_ROWS, shapes.hidden_size, dtype=candidate.dtype)
    started = time.perf_counter()
    for layer in layers:
        layer(x)
    return time.perf_counter() - started
