"""Tables of the strip over the kept history. Pure: kept steps in, Arrow bytes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dashboard.arrow import F32, I8, I16, I32, rows
from dashboard.past import Kept, Past, events
from model_runner.history import HISTORY_STEPS
from model_runner.views import Mark

if TYPE_CHECKING:
    from dashboard.frame import Frame

SPANS: Final = (250, 500, 1000, HISTORY_STEPS)
"""Steps from end to end, few so that the strip and the slider below it seldom change their scale."""
COLUMNS: Final = 250
"""Columns from end to end; each stands for as many steps as fit in."""
REST_S: Final = 1.0
"""A column is a few pixels wide: new tables four times a second would show no more, and cost every page their bytes."""
MAX_RULES: Final = 64
"""Changes of policy and restarts drawn, the newest."""
EVENT_CODES: Final = {"policy": 0, "restart": 1}


def span(count: int) -> int:
    """Steps from end to end when so many are kept."""
    return next((s for s in SPANS if s >= count), SPANS[-1])


_ENDS: Final = {"lo": I32, "hi": I32, "w": I32, "b": I16}
_BINS: Final = {"n": I32, "k": I8, "w": I16, "p": I8, "g": I16, "s": I32}
_RULES: Final = {"n": I32, "c": I8}


class StripBook:
    """Makes the tables, anew at most once in ``REST_S``; of the columns only those that may have changed. One user."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made_at = -REST_S
        self._made: Mapping[str, bytes] = {}
        self._width = 0
        self._full: dict[int, tuple[int, ...]] = {}

    def tables(self, past: Past, marks: Sequence[Mark], frame: Frame, *, fresh: bool = False) -> Mapping[str, bytes]:
        """Data sets over the places n of the kept steps (see ``Kept``); with ``fresh``, of this very moment.

        ends: one row, lo and hi: ends of the axis, w: most requests waiting, b: steps a column stands for. bins: n
        first place, k largest share of the pool in use in percent, w most waiting, p preemptions, g longest gap between
        two tokens of a request in ms, s step of n. rules: n, c code of EVENT_CODES. thumb: that of ``frame``.
        """
        now = self._clock()
        if fresh or now - self._made_at >= REST_S:
            self._made_at, self._made = now, {**self._make(past.all(), marks), "thumb": thumb_table(frame)}
        return self._made

    def _make(self, kept: Sequence[Kept], marks: Sequence[Mark]) -> Mapping[str, bytes]:
        length = span(len(kept))
        width = length // COLUMNS
        if not kept:
            return {"ends": rows(_ENDS, [(0, length, 1, width)]), "bins": rows(_BINS, []), "rules": rows(_RULES, [])}
        end, bins = kept[-1].n + 1, self._bins(kept, width)
        most = max(1, *(waiting for _, _, waiting, *_ in bins))
        told = [(kept[i].n, EVENT_CODES[kind]) for i, kind in events(kept, marks) if kind in EVENT_CODES]
        return {
            "ends": rows(_ENDS, [(end - length, end, most, width)]),
            "bins": rows(_BINS, bins),
            "rules": rows(_RULES, told[-MAX_RULES:]),
        }

    def _bins(self, kept: Sequence[Kept], width: int) -> list[tuple[int, ...]]:
        """Neighbours whose places have the same quotient share a column, so that columns stay while the newest fills.

        A column with all its steps never changes again; the oldest loses steps, and the newest gets more.
        """
        if width != self._width:
            self._width, self._full = width, {}
        first, end = kept[0].n, kept[-1].n + 1
        full: dict[int, tuple[int, ...]] = {}
        bins = []
        for start in range(first - first % width, end, width):
            part = self._full.get(start) if start >= first else None
            if part is None:
                part = _bin(kept[max(0, start - first) : start + width - first])
            if first <= start <= end - width:
                full[start] = part
            bins.append(part)
        self._full = full
        return bins


def _bin(part: Sequence[Kept]) -> tuple[int, ...]:
    facts = [k.facts for k in part]
    return (
        part[0].n,
        round(100 * max(f.used_blocks / max(1, f.num_blocks) for f in facts)),
        min(32767, max(f.waiting for f in facts)),
        min(127, sum(f.preemptions for f in facts)),
        min(32767, round(1000 * max(k.gap_s for k in part))),
        facts[0].step_id,
    )


def thumb_table(frame: Frame) -> bytes:
    """One row: n, the place that is shown; a, b: the places that the lanes show."""
    shown = sum(f.x >= frame.x0 for f in frame.facts)
    return rows({"n": F32, "a": I32, "b": I32}, [(frame.n + 0.5, frame.n + 1 - shown, frame.n + 1)])
