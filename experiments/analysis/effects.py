"""From the figures of the sixteen arms to effects, interactions and shares of the gain, all in exact fractions.

A game: its players are the four factors, the value of a set of them is a metric of the arm that has just those on.
Arms that do not exist as ones of their own have the value of their stand-in (``factorial.largest_valid``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import factorial
from typing import Final

from experiments.analysis.factorial import FACTORS, LABELS, largest_valid

KEYS: Final = tuple(factor.key for factor in FACTORS)


def complete(values: Mapping[str, float | Fraction]) -> dict[str, Fraction]:
    """A value for each of the 16 labels, those of stand-ins put in. Raises ValueError naming the labels that lack one.

    values: by label; those of arms that are none of their own are not read.
    """
    missing = sorted({largest_valid(label) for label in LABELS} - set(values))
    if missing:
        raise ValueError(f"no value for the arms {', '.join(missing)}; every valid arm needs one")
    return {label: Fraction(values[largest_valid(label)]) for label in LABELS}


def _with(label: str, index: int, bit: str) -> str:
    return label[:index] + bit + label[index + 1 :]


def shapley(values: Mapping[str, float | Fraction]) -> dict[str, Fraction]:
    """Each factor's share of the gain from "0000" to "1111"; they add up to it exactly.

    The mean of what a factor adds over the 24 orders in which the four can be switched on (Shapley, "A value for
    n-person games", 1953). A factor that adds nothing to any set gets nothing; equal factors get equal shares.
    """
    of, count = complete(values), len(KEYS)
    shares: dict[str, Fraction] = {}
    for index, key in enumerate(KEYS):
        total = Fraction(0)
        for label in LABELS:
            if label[index] == "0":
                size = label.count("1")
                weight = Fraction(factorial(size) * factorial(count - size - 1), factorial(count))
                total += weight * (of[_with(label, index, "1")] - of[label])
        shares[key] = total
    return shares


def gain(values: Mapping[str, float | Fraction]) -> Fraction:
    """Value of "1111" less that of "0000"."""
    return Fraction(values["1111"]) - Fraction(values["0000"])


def effects(values: Mapping[str, float | Fraction]) -> dict[tuple[str, ...], Fraction]:
    """Main effects, of one factor, and interactions, of two to four: mean of the runs with the sign + less the others.

    The sign of a run is the product of those of its factors, + for on (Box, Hunter and Hunter, "Statistics for
    Experimenters", 2005, chapter 5). So a main effect is the mean change when a factor is switched on, over all
    settings of the others, and an interaction of two is half of how much one changes the effect of the other. In order
    of size of the set, then of ``FACTORS``.
    """
    of = complete(values)
    found: dict[tuple[str, ...], Fraction] = {}
    for size in range(1, len(KEYS) + 1):
        for members in combinations(range(len(KEYS)), size):
            signs = {label: (-1) ** sum(label[index] == "0" for index in members) for label in LABELS}
            found[tuple(KEYS[index] for index in members)] = sum(
                (sign * of[label] for label, sign in signs.items()), Fraction(0)
            ) / (len(LABELS) // 2)
    return found


@dataclass(frozen=True, slots=True)
class Edge:
    """What one factor changes where all others stay as they are: from the arm ``off`` to the arm ``on``."""

    factor: str
    off: str
    on: str
    change: Fraction


def edges(values: Mapping[str, float | Fraction]) -> tuple[Edge, ...]:
    """The 20 single steps between arms that exist: what each factor adds to each set."""
    of = complete(values)
    return tuple(
        Edge(key, label, on, of[on] - of[label])
        for index, key in enumerate(KEYS)
        for label in LABELS
        if label[index] == "0" and largest_valid(label) == label and largest_valid(on := _with(label, index, "1")) == on
    )


def printed(shares: Mapping[str, Fraction], digits: int) -> dict[str, Decimal]:
    """Shares rounded to ``digits`` decimals that add up exactly to their sum rounded so.

    Each is rounded down, then the largest remainders are rounded up (Hare's quota rule), so that no printed share is
    off by a whole unit of the last digit.
    """
    unit = Fraction(1, 10**digits)
    total = round(sum(shares.values(), Fraction(0)) / unit)
    floors = {key: (share / unit).__floor__() for key, share in shares.items()}
    order = sorted(shares, key=lambda key: floors[key] - shares[key] / unit)
    for key in order[: total - sum(floors.values())]:
        floors[key] += 1
    return {key: Decimal(count).scaleb(-digits) for key, count in floors.items()}
