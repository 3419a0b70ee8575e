"""Tables of the iteration axis: lanes, budget, time lines. Pure: step facts in, Arrow bytes out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dashboard.arrow import F32, I8, I16, I32, TEXT, rows
from dashboard.history import KIND_CODE, Cell, StepFacts
from dashboard.identity import letter

COLUMNS: Final = 120
"""Iterations in view."""
PAGE: Final = 20
"""The view moves by this many iterations at once: the eye keeps its place in between."""
BASE: Final = 0.9
"""Where blocks stand in a lane of height 1, measured downwards."""
THIN: Final = 0.28
IDLE: Final = 0.14
TALL: Final = frozenset({KIND_CODE["prefill"], KIND_CODE["recompute"]})
LABEL_SHIFT: Final = 12
"""A label stands behind the first chunks of a request where they take at most so many iterations."""
LANE_STEPS: Final = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of lanes, few so that the picture seldom changes its scale."""
LABEL_LANES: Final = 13
"""So many lanes leave room for a label in each."""
MARGIN: Final = 8
"""Columns left of the data, for labels."""
RATE_STEPS: Final = 8
"""Steps over which the tokens-per-second line is averaged."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring equal cells of one lane: x <= iteration < x2; y0, y1 in lanes from the top."""

    x: int
    x2: int
    y0: float
    y1: float
    kind: int
    mark: int
    tokens: int
    request_id: str


def window(last_x: int, first_x: int = 0) -> tuple[int, int]:
    """The iterations in view, [x0, x1): whole pages, the newest iteration and the next one included: a change of
    policy made while the engine is held takes effect there, and its rule must be seen."""
    end = ((last_x + 1) // PAGE + 1) * PAGE
    start = max(end - COLUMNS, (first_x // PAGE) * PAGE)
    return start, start + COLUMNS


def _height(kind: int, tokens: int, largest: int) -> float:
    if kind in TALL or tokens > 1:
        return THIN + (BASE - 0.1 - THIN) * math.sqrt(min(1.0, tokens / max(1, largest)))
    return THIN


def _blocks(cell: Cell, largest: int) -> Iterable[tuple[float, float, int, int]]:
    """(y0, y1, kind, tokens) of what a cell shows: its real tokens, and its padding on top."""
    base = cell.slot + BASE
    if cell.kind in (KIND_CODE["idle"], KIND_CODE["empty"]):
        yield base - IDLE, base, cell.kind, 0
        return
    total = cell.tokens + cell.padding
    height = _height(cell.kind, total, largest)
    split = height * cell.tokens / total if total else height
    if cell.tokens:
        yield base - split, base, cell.kind, cell.tokens
    if cell.padding:
        yield base - height, base - split, KIND_CODE["padding"], cell.padding


def num_lanes(runs: Sequence[Run], num_slots: int) -> int:
    """Lanes to draw: those used in view, rounded up to one of LANE_STEPS, and no more than there are slots."""
    used = max((int(r.y1) + 1 for r in runs if r.kind != KIND_CODE["empty"]), default=1)
    return max(used, min(num_slots, next((n for n in LANE_STEPS if n >= used), used)))


def lane_runs(facts: Sequence[StepFacts], x0: int) -> list[Run]:
    """Run-length form of the lanes from x0 on; single-token decodes of neighbouring iterations melt into one run."""
    shown = [f for f in facts if f.x >= x0]
    largest = max((c.tokens + c.padding for f in shown for c in f.cells), default=1)
    runs: list[Run] = []
    open_runs: dict[tuple[int, int, int, str, float, float], int] = {}
    for f in shown:
        for cell in f.cells:
            for y0, y1, kind, tokens in _blocks(cell, largest):
                key = (cell.slot, kind, tokens, cell.request_id, y0, y1)
                at = open_runs.get(key)
                if at is not None and runs[at].x2 == f.x and tokens <= 1:
                    run = runs[at]
                    runs[at] = Run(run.x, f.x + 1, y0, y1, kind, run.mark, tokens, run.request_id)
                else:
                    open_runs[key] = len(runs)
                    runs.append(Run(f.x, f.x + 1, y0, y1, kind, cell.mark, tokens, cell.request_id))
    return runs


RUN_TYPES: Final = {"x": I32, "e": I32, "a": F32, "b": F32, "k": I8, "m": I8, "n": I16, "r": TEXT}


def runs_table(runs: Sequence[Run]) -> bytes:
    """x, e: [start, end) iteration; a, b: upper and lower edge in lanes; k kind, m mark, n tokens, r request."""
    return rows(
        RUN_TYPES,
        [(r.x, r.x2, r.y0, r.y1, r.kind, r.mark, min(r.tokens, 32767), r.request_id) for r in runs],
    )


def points_table(facts: Sequence[StepFacts], x0: int) -> bytes:
    """Admissions, resumptions, evictions, ends: x (middle of the iteration), y in lanes, p what, m mark, r request."""
    return rows(
        {"x": F32, "y": F32, "p": I8, "m": I8, "r": TEXT},
        [
            (f.x + 0.5, p.slot + BASE - THIN / 2, p.what, p.mark, p.request_id)
            for f in facts
            if f.x >= x0
            for p in f.points
        ],
    )


@dataclass(slots=True)
class _Stay:
    """One uninterrupted stay of a request in a lane."""

    slot: int
    x: int
    x2: int
    mark: int
    request_id: str
    label_x: int = -1


def _stays(runs: Sequence[Run]) -> list[_Stay]:
    stays: list[_Stay] = []
    last: dict[int, _Stay] = {}
    for run in sorted((r for r in runs if r.request_id), key=lambda r: r.x):
        slot = int(run.y1)
        stay = last.get(slot)
        if stay is None or stay.request_id != run.request_id:
            stay = last[slot] = _Stay(slot, run.x, run.x2, run.mark, run.request_id)
            stays.append(stay)
        stay.x2 = max(stay.x2, run.x2)
        if run.kind not in TALL and stay.label_x < 0 and run.x - stay.x <= LABEL_SHIFT:
            stay.label_x = run.x
    return stays


def labels_table(runs: Sequence[Run], x0: int, starred: frozenset[str] = frozenset(), lanes: int = 8) -> bytes:
    """Letter and id where a request enters a lane (or the view), behind its first chunks: x, y, m mark, t text.

    The id is left out where the stay is too short for it. ``starred`` ids get a star.
    With many lanes only every second, third, ... lane has labels, and those with a star.
    """
    out = []
    every = -(-lanes // LABEL_LANES)
    for stay in _stays(runs):
        if stay.slot % every and stay.request_id not in starred:
            continue
        short = ("★" if stay.request_id in starred else "") + letter(stay.mark)
        x = max(stay.x, x0) if stay.label_x < 0 else stay.label_x
        wide = stay.x2 - x >= 4 + 2 * len(stay.request_id)
        text = f"{short} {stay.request_id}" if wide else short
        out.append((x, stay.slot + 0.04, stay.mark, text))
    return rows({"x": I32, "y": F32, "m": I8, "t": TEXT}, out)


SERIES_TYPES: Final = {
    "x": I32,
    "d": I16,
    "f": I16,
    "c": I16,
    "g": I16,
    "u": I32,
    "run": I32,
    "wait": I32,
    "kv": F32,
    "lim": F32,
    "tps": F32,
    "pre": I16,
    "i": I32,
    "r": I32,
    "o": I32,
    "s": I32,
}


def _rate(facts: Sequence[StepFacts], at: int) -> float | None:
    first = max(0, at - RATE_STEPS)
    while facts[first].run_id != facts[at].run_id:
        first += 1
    seconds = facts[at].engine_time - facts[first].engine_time
    return sum(f.output_tokens for f in facts[first + 1 : at + 1]) / seconds if seconds > 0 else None


def series_table(facts: Sequence[StepFacts], x0: int) -> bytes:
    """Numbers of each step; a row of nulls where steps are missing, so that no line bridges a hole.

    d decode, f prefill, c recompute, g padding tokens; u budget; run, wait requests; kv and lim: used and usable share
    of the pool, 0..1; tps output tokens a second of engine time; pre evictions. Token slots: i internal, r reserved,
    o external waste (free blocks that cannot be given out), s the whole pool.
    """
    records: list[tuple[object, ...]] = []
    for i, f in enumerate(facts):
        if f.x < x0:
            continue
        if records and i and f.x != facts[i - 1].x + 1:
            records.append((facts[i - 1].x + 1, *[None] * (len(SERIES_TYPES) - 1)))
        t = f.tokens
        pool = max(1, f.num_blocks)
        records.append(
            (
                f.x,
                *(t[kind] for kind in ("decode", "prefill", "recompute", "padding")),
                f.budget,
                f.running,
                f.waiting,
                f.used_blocks / pool,
                min(f.block_limit, pool) / pool,
                _rate(facts, i),
                f.preemptions,
                f.internal,
                f.reserved,
                f.external,
                pool * f.block_size,
            )
        )
    return rows(SERIES_TYPES, records)


TOPS: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def round_top(value: float) -> float:
    """The next of 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten: a top that stays while its data move a little."""
    if value <= 1:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(top * power for top in TOPS if top * power >= value * (1 - 1e-12))


def frame_table(facts: Sequence[StepFacts], x0: int, x1: int, lanes: int) -> bytes:
    """The corners of the picture, so that the axes follow the data and the specification never changes.

    x, e: iterations in view; left: where the axis begins, MARGIN columns earlier, for labels; n lanes. Tops of the
    vertical axes, 1 at least: mu budget, ml requests, mt output tokens a second. Nothing here changes with every step:
    what does makes a browser work out all axes, rules and titles anew.
    """
    shown = [i for i, f in enumerate(facts) if f.x >= x0]
    most_tokens = max((max(facts[i].budget, sum(facts[i].tokens.values())) for i in shown), default=1)
    most_requests = max((max(facts[i].running, facts[i].waiting) for i in shown), default=1)
    rate = max((_rate(facts, i) or 0.0 for i in shown), default=1.0)
    types = {"left": I32, "x": I32, "e": I32, "n": I16, "mu": I32, "ml": I32, "mt": F32}
    tops = (max(1, most_tokens), math.ceil(round_top(most_requests)), round_top(rate))
    return rows(types, [(x0 - MARGIN, x0, x1, lanes, *tops)])


def now_table(now: int) -> bytes:
    """now: the place after the newest iteration."""
    return rows({"now": I32}, [(now,)])


def ticks_table(facts: Sequence[StepFacts], x0: int, x1: int) -> bytes:
    """Labels of the iteration axis, in each run's own step numbers: x, t text."""
    if not facts:
        return rows({"x": I32, "t": TEXT}, [])
    out = []
    for x in range(math.ceil(x0 / PAGE) * PAGE, x1, PAGE):
        known = max((f for f in facts if f.x <= x), key=lambda f: f.x, default=facts[0])
        step = known.step_id + x - known.x
        if step >= 0:
            out.append((x, f"{step:,}"))
    return rows({"x": I32, "t": TEXT}, out)


def veil_table(on: bool) -> bytes:
    """One row where everything but the chosen request is to be dimmed, none otherwise."""
    return rows({"v": I8}, [(1,)] if on else [])


def choice_table(row: int | None) -> bytes:
    """i: the row of the chosen request; no row for None."""
    return rows({"i": I16}, [] if row is None else [(row,)])
