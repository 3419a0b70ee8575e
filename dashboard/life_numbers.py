"""The numbers of one life, and its totals rounded so that they still add up. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.blame_life import Life
from scheduler.blame_parts import CAUSES


@dataclass(frozen=True, slots=True)
class LifeNumbers:
    """Nanoseconds; None where there is nothing to tell. Definitions as everywhere on the page:

    queue: arrival to the first admission. ttft: arrival to the first token. itl_p50, itl_max: median and longest of the
    times between neighbouring tokens, over ``num_gaps`` that are kept. tpot: (last token - first token) / (tokens
    between them). end_to_end: arrival to the end, or to the newest step while it lives.
    """

    queue: int | None
    ttft: int | None
    itl_p50: float | None
    itl_max: int | None
    num_gaps: int
    tpot: float | None
    end_to_end: int
    num_tokens: int


def numbers_of(life: Life) -> LifeNumbers:
    """The numbers as of the life's newest step."""
    admitted = next((moment.at for moment in life.moments if moment.kind == "admitted"), None)
    first, last = life.first_token, life.tokens[-1] if life.tokens else None
    gaps = [gap.length for gap in life.gaps()[1:] if gap.number]
    steps = last.number - first.number if first and last else 0
    return LifeNumbers(
        queue=None if admitted is None else admitted - life.arrival,
        ttft=first.at - life.arrival if first and first.number == 1 else None,
        itl_p50=statistics.median(gaps) if gaps else None,
        itl_max=max(gaps) if gaps else None,
        num_gaps=len(gaps),
        tpot=(last.at - first.at) / steps if first and last and steps > 0 else None,
        end_to_end=life.end_to_end,
        num_tokens=last.number if last else 0,
    )


def rounded(totals: Mapping[str, int], unit: int = 1_000) -> dict[str, int]:
    """Nanoseconds by cause in whole units, none off by one unit or more, and their sum as near as units allow.

    The largest remainders are rounded up, so that a column of rounded numbers adds up to the rounded sum.
    """
    known = {cause: totals[cause] for cause in CAUSES if totals.get(cause)}
    floors = {cause: value // unit for cause, value in known.items()}
    missing = round(sum(known.values()) / unit) - sum(floors.values())
    for cause in sorted(known, key=lambda cause: -(known[cause] % unit))[: max(0, missing)]:
        floors[cause] += 1
    return floors
