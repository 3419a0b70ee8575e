"""Tables of the strip over the kept history. Pure: kept steps in, Arrow bytes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dashboard.arrow import F32, I8, I16, I32, rows
from dashboard.past import Kept, events
from model_runner.history import HISTORY_STEPS
from model_runner.views import Mark

if TYPE_CHECKING:
    from dashboard.frame import Frame

BIN: Final = 8
"""Steps that one column of the strip stands for."""
SPANS: Final = (250, 500, 1000, HISTORY_STEPS)
"""Steps from end to end, few so that the strip and the slider below it seldom change their scale."""
MAX_RULES: Final = 64
"""Changes of policy and restarts drawn, the newest."""
EVENT_CODES: Final = {"policy": 0, "restart": 1}


def span(count: int) -> int:
    """Steps from end to end when so many are kept."""
    return next((s for s in SPANS if s >= count), SPANS[-1])


def strip_tables(kept: Sequence[Kept], marks: Iterable[Mark]) -> Mapping[str, bytes]:
    """Data sets over the places n of the kept steps (see ``Kept``).

    ends: one row, lo and hi: ends of the axis, w: most requests waiting. bins: n first place, e end, k largest share of
    the pool in use in percent, w most waiting, p preemptions, g longest gap between two tokens of a request in ms,
    s step of n. rules: n, c code of EVENT_CODES.
    """
    if not kept:
        return {"ends": rows(_ENDS, [(0, SPANS[0], 1)]), "bins": rows(_BINS, []), "rules": rows(_RULES, [])}
    end = kept[-1].n + 1
    most = max(1, *(k.facts.waiting for k in kept))
    told = [(kept[i].n, EVENT_CODES[kind]) for i, kind in events(kept, marks) if kind in EVENT_CODES]
    return {
        "ends": rows(_ENDS, [(end - span(len(kept)), end, most)]),
        "bins": rows(_BINS, [_bin(part) for part in _parts(kept)]),
        "rules": rows(_RULES, told[-MAX_RULES:]),
    }


_ENDS: Final = {"lo": I32, "hi": I32, "w": I32}
_BINS: Final = {"n": I32, "e": I32, "k": I8, "w": I16, "p": I8, "g": I16, "s": I32}
_RULES: Final = {"n": I32, "c": I8}


def _parts(kept: Sequence[Kept]) -> Iterable[Sequence[Kept]]:
    """Runs of neighbours whose places have the same bin, so that bins stay as they are while the newest fills."""
    start = 0
    while start < len(kept):
        end = start + BIN - kept[start].n % BIN
        yield kept[start:end]
        start = end


def _bin(part: Sequence[Kept]) -> tuple[int, ...]:
    facts = [k.facts for k in part]
    return (
        part[0].n,
        part[-1].n + 1,
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
