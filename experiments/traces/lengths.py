"""Lengths of prompts and outputs: distributions in tokens, each with a short text form for files and commands."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

from experiments.traces.limits import MAX_TOKENS
from experiments.traces.portable import Stream, exp
from experiments.traces.published import LEVELS, LOGNORMAL, QUANTILES
from experiments.traces.textform import TextForm


@dataclass(frozen=True, slots=True)
class Fixed(TextForm):
    """Always ``tokens``."""

    kind: ClassVar[str] = "fixed"
    tokens: int

    def problem(self) -> str:
        """ "" or what is wrong."""
        return _in_range("tokens", self.tokens)

    def draw(self, stream: Stream) -> int:
        """One length in tokens, >= 1."""
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform(TextForm):
    """Each whole number from ``low`` to ``high`` equally often."""

    kind: ClassVar[str] = "uniform"
    low: int
    high: int

    def problem(self) -> str:
        """ "" or what is wrong."""
        return _in_range("low", self.low) or _in_range("high", self.high, self.low)

    def draw(self, stream: Stream) -> int:
        """One length in tokens, >= 1."""
        return self.low + int(stream.uniform() * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class Lognormal(TextForm):
    """exp(ln median + sigma z), z normal, rounded, then held between ``low`` and ``high`` (which moves mass there).

    mu of the usual form is ln median; the mean before rounding and holding is median exp(sigma^2 / 2).
    """

    kind: ClassVar[str] = "lognormal"
    median: float
    sigma: float
    low: int = 1
    high: int = MAX_TOKENS

    def problem(self) -> str:
        """ "" or what is wrong."""
        if not 1 <= self.median <= MAX_TOKENS:
            return f"median is {self.median}, expected 1 to {MAX_TOKENS}"
        if not 0 <= self.sigma <= 5:
            return f"sigma is {self.sigma}, expected 0 to 5"
        return _in_range("low", self.low) or _in_range("high", self.high, self.low)

    def draw(self, stream: Stream) -> int:
        """One length in tokens, >= 1."""
        return _held(self.median * exp(self.sigma * stream.normal()), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Bimodal(TextForm):
    """``short`` with probability 1 - ``share``, else ``long``; each times 1 + ``spread`` u, u uniform in -1 .. 1."""

    kind: ClassVar[str] = "bimodal"
    short: int
    long: int
    share: float = 0.5
    spread: float = 0.0

    def problem(self) -> str:
        """ "" or what is wrong."""
        if not 0 <= self.share <= 1:
            return f"share is {self.share}, expected 0 to 1 (of the long ones)"
        if not 0 <= self.spread < 1:
            return f"spread is {self.spread}, expected 0 to below 1"
        return _in_range("short", self.short) or _in_range("long", self.long, self.short)

    def draw(self, stream: Stream) -> int:
        """One length in tokens, >= 1."""
        middle = self.long if stream.uniform() < self.share else self.short
        return _held(middle * (1.0 + self.spread * (2.0 * stream.uniform() - 1.0)), 1, MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class CappedExponential(TextForm):
    """Anyscale's: exponential of ``mean``, rounded; values above ``cap`` are drawn again, 0 becomes 1.

    From ``gen_random_response_lens`` of anyscale/llm-continuous-batching-benchmarks. Drawing again makes the true mean
    smaller than ``mean``: mean - cap / (exp(cap / mean) - 1) before rounding.
    """

    kind: ClassVar[str] = "capped-exponential"
    mean: float
    cap: int

    def problem(self) -> str:
        """ "" or what is wrong."""
        if not 1 <= self.mean <= MAX_TOKENS:
            return f"mean is {self.mean}, expected 1 to {MAX_TOKENS}"
        return _in_range("cap", self.cap, math.ceil(self.mean / 100))

    def draw(self, stream: Stream) -> int:
        """One length in tokens, >= 1."""
        while (value := _round(self.mean * stream.exponential())) > self.cap:
            pass
        return max(value, 1)


@dataclass(frozen=True, slots=True)
class Quantiles(TextForm):
    """From the table of a published trace: the inverse of its distribution, straight between the levels."""

    kind: ClassVar[str] = "quantiles"
    table: str

    def problem(self) -> str:
        """ "" or what is wrong."""
        return "" if self.table in QUANTILES else f"table is {self.table!r}, expected one of {', '.join(QUANTILES)}"

    def draw(self, stream: Stream) -> int:
        """One length in tokens, >= 1."""
        share, table = stream.uniform(), QUANTILES[self.table]
        above = bisect_left(LEVELS, share)
        low, high = LEVELS[above - 1], LEVELS[above]
        return _round(table[above - 1] + (table[above] - table[above - 1]) * (share - low) / (high - low))

    def fitted(self) -> str:
        """The figures to print wherever this is used: where from, median, 99 %, and the lognormal fit beside."""
        table = QUANTILES[self.table]
        text = f"{len(LEVELS)} quantiles of the whole trace, p50 {table[12]}, p90 {table[20]}, p99 {table[23]} tokens"
        if self.table in LOGNORMAL:
            mu, sigma = LOGNORMAL[self.table]
            text += f"; a lognormal would be mu {mu:.2f}, sigma {sigma:.2f}"
        return text


Lengths = Fixed | Uniform | Lognormal | Bimodal | CappedExponential | Quantiles
LENGTHS: tuple[type[Lengths], ...] = (Fixed, Uniform, Lognormal, Bimodal, CappedExponential, Quantiles)


def _in_range(name: str, value: int, least: int = 1) -> str:
    good = type(value) is int and max(least, 1) <= value <= MAX_TOKENS
    return "" if good else f"{name} is {value}, expected a whole number from {max(least, 1)} to {MAX_TOKENS}"


def _round(value: float) -> int:
    return int(value + 0.5)


def _held(value: float, low: int, high: int) -> int:
    return min(max(_round(value), low), high)
