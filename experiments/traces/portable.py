"""Random numbers that are the same on every machine.

Python's ``random()`` gives the same sequence everywhere for an int seed, but what is built on it (``expovariate``,
``gammavariate``, ...) calls the system's log, exp and cos, whose last bit differs between C libraries. Here log and exp
are made of +, -, *, / and sqrt only, which IEEE 754 fixes to the last bit, so equal seeds give equal bytes.
"""

from __future__ import annotations

import math
import random
from typing import Final

_LN2: Final = 0.6931471805599453
_SQRT_HALF: Final = 0.7071067811865476


def log(x: float) -> float:
    """Natural logarithm of x > 0, within a few units of the last place: ln m = 2 artanh((m - 1) / (m + 1))."""
    mantissa, exponent = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square, term = ratio * ratio, 0.0
    for odd in range(23, 0, -2):
        term = term * square + 1.0 / odd
    return exponent * _LN2 + 2.0 * ratio * term


def exp(x: float) -> float:
    """e to the x for |x| < 700, within a few units of the last place: 2^k times the Taylor series of the rest."""
    power = math.floor(x / _LN2 + 0.5)
    rest, total = x - power * _LN2, 1.0
    for n in range(17, 0, -1):
        total = 1.0 + rest / n * total
    return math.ldexp(total, power)


class Stream:
    """One stream of random numbers. seed: 0 .. 2^64 - 1; lane: which of the independent streams of that seed."""

    def __init__(self, seed: int, lane: int) -> None:
        self._random = random.Random((lane << 64) | seed).random

    def uniform(self) -> float:
        """Above 0 and below 1."""
        while not (value := self._random()):
            pass
        return value

    def exponential(self) -> float:
        """Mean 1, by inversion."""
        return -log(self.uniform())

    def normal(self) -> float:
        """Mean 0, deviation 1: Marsaglia's polar method (SIAM Review 6, 1964), one value a pair."""
        while True:
            x, y = 2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0
            square = x * x + y * y
            if 0.0 < square < 1.0:
                return x * math.sqrt(-2.0 * log(square) / square)

    def gamma(self, shape: float) -> float:
        """Scale 1: Marsaglia and Tsang (ACM TOMS 26, 2000); a shape below 1 by their power of a uniform."""
        if shape == 1.0:
            return self.exponential()
        if shape < 1.0:
            return self.gamma(shape + 1.0) * exp(max(log(self.uniform()) / shape, -690.0))
        d = shape - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        while True:
            x = self.normal()
            v = 1.0 + c * x
            if v <= 0.0:
                continue
            v = v * v * v
            if log(self.uniform()) < 0.5 * x * x + d * (1.0 - v + log(v)):
                return d * v
