"""One life as the charts draw it: stages, tokens and blame over seconds since the arrival. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from dashboard.arrow import F32, I8, I16, TEXT, rows
from dashboard.i18n import N_
from scheduler.blame_life import Gap, Life, Stage
from scheduler.blame_parts import CAUSES, Part

GROUPS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "own": (N_("own tokens"), ("own_prefill", "own_decode")),
    "prefill": (N_("prefill of others"), ("others_prefill", "others_recompute")),
    "decode": (N_("decodes of others"), ("others_decode",)),
    "evicted": (N_("evicted, recompute"), ("preempted", "own_recompute", "swap")),
    "memory": (N_("no KV block"), ("memory",)),
    "queue": (N_("queue"), ("queue_step", "queue_behind", "queue_slot", "paused")),
    "engine": (N_("engine, padding"), ("overhead", "padding", "batch_end", "idle")),
    "absent": (N_("no engine, unseen"), ("away", "unseen")),
}
"""Rows of the blame lane from the top: title and the causes that are drawn in it. Each cause is in one row."""
ROW_OF: Final = {cause: i for i, (_, causes) in enumerate(GROUPS.values()) for cause in causes}
STAGES: Final = ("waiting", "prefill", "decode", "recompute", "preempted", "memory", "none", "padding", "batch_end",
                 "away", "unseen", "idle", "overhead")  # fmt: skip
"""Codes of the stages of the life line."""
STAGE_CODE: Final = {name: code for code, name in enumerate(STAGES)}
POINTS: Final = ("queued", "admitted", "preempted", "resumed", "finished", "aborted", "restart")
POINT_CODE: Final = {name: code for code, name in enumerate(POINTS)}
WORD_ORDER: Final = ("finished", "aborted", "queued", "admitted", "restart", "preempted", "resumed")
"""Whose word is written where there is not room for all."""
UPPER: Final = ("queued", "preempted")
"""Whose word stands in the upper row, while there is room."""
WORD_ROOM: Final = 0.1
"""Share of the axis that is kept for a word: 52 px of 520, the axis in a window of 700."""
NO_WORD: Final = -1
BINS: Final = 360
"""Columns of the blame lane: within each the parts are shown as shares of its time."""
MAX_TICKS: Final = 400
"""More tokens than that in the window are drawn one for several."""
LAST_TOKENS: Final = 8
WHOLE, WORST, NEWEST = "whole", "worst", "newest"
WINDOWS: Final = {WHOLE: N_("whole life"), WORST: N_("longest gap"), NEWEST: N_("last tokens")}
"""What of a life the charts show."""


def worst_gap(life: Life) -> Gap | None:
    """The longest time between two tokens that are both kept; None before the second."""
    between = [gap for gap in life.gaps() if gap.number > 1]
    return max(between, key=lambda gap: gap.length, default=None)


def window_of(life: Life, which: str) -> tuple[int, int]:
    """[from, to) in nanoseconds, to > from."""
    low, high, worst = life.known_from, life.until, worst_gap(life)
    if which == WORST and worst is not None:
        low, high = worst.start, worst.end
        margin = max(1, (high - low) // 10)
        low, high = max(life.known_from, low - margin), min(life.until, high + margin)
    elif which == NEWEST and len(life.tokens) > LAST_TOKENS:
        low = life.tokens[-LAST_TOKENS - 1].at
    return low, max(high, low + 1)


def _seconds(life: Life, at: int) -> float:
    return (at - life.arrival) / 1e9


def ticks(low: float, high: float, count: int = 8) -> list[tuple[float, str]]:
    """Round positions in [low, high] seconds, and what to write there."""
    span = max(high - low, 1e-9)
    size = 10.0 ** math.floor(math.log10(span / count))
    size *= next(f for f in (1, 2, 5, 10) if span / (size * f) <= count)
    first = math.ceil(low / size - 1e-9)
    places = [i * size for i in range(first, math.floor(high / size + 1e-9) + 1)]
    if size < 0.1:
        digits = max(0, -math.floor(math.log10(size * 1000) + 1e-9))
        return [(x, f"{1000 * x:,.{digits}f} ms") for x in places]
    return [(x, f"{x:,.1f} s" if size < 1 else f"{x:,.0f} s") for x in places]


def frame_table(life: Life, window: tuple[int, int]) -> bytes:
    """lo, hi: ends of the axis in seconds since the arrival."""
    return rows({"lo": F32, "hi": F32}, [tuple(_seconds(life, at) for at in window)])


def ticks_table(life: Life, window: tuple[int, int]) -> bytes:
    """x in seconds, t its label."""
    return rows({"x": F32, "t": TEXT}, ticks(_seconds(life, window[0]), _seconds(life, window[1])))


def merged(stages: Sequence[Stage]) -> list[Stage]:
    """Neighbours that look alike as one: a run of decodes, a wait whose reason changed."""
    out: list[Stage] = []
    for stage in stages:
        last = out[-1] if out else None
        alike = last is not None and last.kind == stage.kind and last.end == stage.start
        if last is not None and alike and stage.kind not in ("prefill", "recompute"):
            out[-1] = Stage(last.start, stage.end, last.kind, last.step_id, last.tokens + stage.tokens)
        else:
            out.append(stage)
    return out


def stages_table(life: Life, window: tuple[int, int]) -> bytes:
    """x, e: from, to in seconds; k: code of STAGES; n: tokens; s: step, 0 = none."""
    low, high = window
    shown = [s for s in merged(life.stages) if s.start < high and s.end > low]
    return rows(
        {"x": F32, "e": F32, "k": I8, "n": I16, "s": TEXT},
        [
            (
                _seconds(life, max(low, s.start)),
                _seconds(life, min(high, s.end)),
                STAGE_CODE[s.kind],
                min(s.tokens, 32767),
                f"{s.step_id:,}" if s.step_id else "–",
            )
            for s in shown
        ],
    )


def tokens_table(life: Life, window: tuple[int, int]) -> bytes:
    """x: when a token came, in seconds."""
    low, high = window
    shown = [token.at for token in life.tokens if low <= token.at <= high]
    every = -(-len(shown) // MAX_TICKS) or 1
    return rows({"x": F32}, [(_seconds(life, at),) for at in shown[::every]])


def words_beside(points: Sequence[tuple[float, str]]) -> list[tuple[int, int]]:
    """Where the word of each point stands, so that no two overlap: row, and 1 = left of its sign, 0 = right of it.

    points: place as a share of the axis, kind. The row is NO_WORD where neither row has room; the end of a life comes
    first, then what happens once, then what may happen often.
    """
    found = [(NO_WORD, 0)] * len(points)
    taken: list[tuple[int, float]] = []
    for i in sorted(range(len(points)), key=lambda i: (WORD_ORDER.index(points[i][1]), points[i][0])):
        at, kind = points[i]
        is_left = at > 1 - WORD_ROOM
        low = at - WORD_ROOM if is_left else at
        usual = 0 if kind in UPPER else 1
        for row in (usual, 1 - usual):
            if all(r != row or abs(low - other) >= WORD_ROOM for r, other in taken):
                taken.append((row, low))
                found[i] = (row, int(is_left))
                break
    return found


def points_table(life: Life, window: tuple[int, int]) -> bytes:
    """x: when in seconds; p: code of POINTS; r, h: row and side of its word (see ``words_beside``)."""
    low, high = window
    shown = [m for m in life.moments if m.kind in POINT_CODE and low <= m.at <= high]
    places = words_beside([((m.at - low) / (high - low), m.kind) for m in shown])
    return rows(
        {"x": F32, "p": I8, "r": I8, "h": I8},
        [(_seconds(life, m.at), POINT_CODE[m.kind], *place) for m, place in zip(shown, places, strict=True)],
    )


def _edges(window: tuple[int, int]) -> list[int]:
    low, high = window
    bins = min(BINS, high - low)
    return [low + (high - low) * i // bins for i in range(bins + 1)]


def shares(parts: Sequence[Part], window: tuple[int, int]) -> list[dict[str, int]]:
    """Nanoseconds by cause in each column of the window. What lies outside of it is left out."""
    edges, out, at = _edges(window), [], 0
    for low, high in pairwise(edges):
        column: dict[str, int] = {}
        while at < len(parts) and parts[at].end <= low:
            at += 1
        i = at
        while i < len(parts) and parts[i].start < high:
            part = parts[i]
            inside = min(part.end, high) - max(part.start, low)
            column[part.cause] = column.get(part.cause, 0) + inside
            i += 1
        out.append(column)
    return out


def blame_table(life: Life, window: tuple[int, int]) -> bytes:
    """x, e in seconds; y: row (see GROUPS); c: index in CAUSES of most of it; h: share of the column's time, 0..1.

    Neighbouring columns that are alike are one row of the table.
    """
    edges = _edges(window)
    out: list[list[float | int]] = []
    open_rows: dict[int, tuple[int, list[float | int]]] = {}
    for i, column in enumerate(shares(life.parts, window)):
        by_row: dict[int, list[tuple[int, str]]] = {}
        for cause, length in column.items():
            by_row.setdefault(ROW_OF[cause], []).append((length, cause))
        for row, spent in by_row.items():
            share = round(sum(length for length, _ in spent) / (edges[i + 1] - edges[i]), 2)
            if not share:
                continue
            code = CAUSES.index(max(spent)[1])
            end = _seconds(life, edges[i + 1])
            until, last = open_rows.get(row, (-1, [0, 0, 0, 0, 0]))
            if until == i and last[3:] == [code, share]:
                last[1] = end
            else:
                last = [_seconds(life, edges[i]), end, row, code, share]
                out.append(last)
            open_rows[row] = (i + 1, last)
    return rows({"x": F32, "e": F32, "y": I8, "c": I8, "h": F32}, out)


def life_data(life: Life, which: str) -> dict[str, bytes]:
    """All data sets of the chart of a life."""
    window = window_of(life, which)
    return {
        "frame": frame_table(life, window),
        "ticks": ticks_table(life, window),
        "stages": stages_table(life, window),
        "tokens": tokens_table(life, window),
        "points": points_table(life, window),
        "blame": blame_table(life, window),
    }
