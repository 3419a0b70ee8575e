"""Rules across the iteration axis: changes of policy and traffic, restarts, gaps. Cause and effect on one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from dashboard.arrow import I8, I32, TEXT, rows
from dashboard.history import StepFacts
from dashboard.values import grouped
from model_runner.views import Mark

SWITCHED: Final = {"True": "on", "False": "off"}
MARK_CHARS: Final = 56
NEAR: Final = 12
"""Words of changes within so many iterations are gathered."""
WORD_ROWS: Final = 2
COLUMNS_PER_CHAR: Final = 0.95
"""Iterations that a character of a word covers, at 1440 pixels."""
RESTART_ROOM: Final = " " * 8


def merged_changes(texts: Sequence[str]) -> str:
    """Several changes "field old -> new; ..." as one: each field from its first old to its last new value, the field
    changed last first. A switch reads "field on" or "field off"."""
    changes: dict[str, tuple[str, str]] = {}
    other: list[str] = []
    for part in "; ".join(texts).split("; "):
        name, _, values = part.partition(" ")
        old, arrow, new = values.replace("None", "all").partition(" -> ")
        old, new = grouped(old), grouped(new)
        if arrow:
            changes[name] = (changes.pop(name)[0] if name in changes else old, new)
        elif part:
            other.append(part)
    told = [f"{name} {SWITCHED.get(new, f'{old} → {new}')}" for name, (old, new) in changes.items() if old != new]
    told.reverse()
    return "; ".join([*told, *other])


@dataclass(frozen=True, slots=True)
class _Placed:
    x: int
    kind: str
    version: int
    texts: tuple[str, ...]

    def words(self) -> str:
        text = merged_changes(self.texts)
        if not text:
            return ""
        text = f"v{self.version} {text}" if self.kind == "policy" else text
        return text if len(text) <= MARK_CHARS else text[: MARK_CHARS - 1] + "…"


def _placed(marks: Iterable[Mark], facts: Sequence[StepFacts], x0: int, x1: int) -> list[_Placed]:
    offsets = {f.run_id: f.x - f.step_id for f in facts}
    breaks = [b.x - 1 for a, b in pairwise(facts) if a.run_id != b.run_id and x0 <= b.x - 1 < x1]
    placed = [_Placed(x, "restart", 0, ()) for x in breaks]
    for mark in marks:
        if mark.kind != "restart" and mark.run_id in offsets:
            x = mark.step_id + offsets[mark.run_id]
            if x0 <= x < x1:
                placed.append(_Placed(x, mark.kind, mark.version, (mark.text,)))
    return sorted(placed, key=lambda p: p.x)


def _told(marks: Iterable[_Placed]) -> list[_Placed]:
    """The same rules, with the words of neighbours of one kind gathered at the last of them."""
    told: list[_Placed] = []
    for mark in marks:
        at = next((i for i in reversed(range(len(told))) if told[i].kind == mark.kind), -1)
        if at >= 0 and mark.x - told[at].x <= NEAR:
            earlier = told[at]
            told[at] = replace(earlier, texts=())
            mark = replace(mark, texts=(*earlier.texts, *mark.texts))
        told.append(mark)
    return told


def _rows_of(spans: Sequence[tuple[float, float]]) -> list[int]:
    """A row for each word, the newest first in line; -1 where no row has room for it."""
    taken: list[list[tuple[float, float]]] = [[] for _ in range(WORD_ROWS)]
    chosen = [-1] * len(spans)
    for i in reversed(range(len(spans))):
        start, end = spans[i]
        for row, others in enumerate(taken):
            if all(end < a or start > b for a, b in others):
                others.append(spans[i])
                chosen[i] = row
                break
    return chosen


def marks_table(marks: Iterable[Mark], facts: Sequence[StepFacts], x0: int, x1: int, limit: int = 24) -> bytes:
    """Policy changes, restarts and gaps in view: x, k ("policy", "traffic", "restart", "gap"), t what changed, l row of
    the words, h 1 = they stand left of the rule.

    Every change has its rule. Words of one kind within NEAR iterations are gathered, and words without room are left
    out (the list of events has them), so that dragging a slider does not write over itself. A restart is placed in the
    hole between the steps of two runs.
    """
    told = _told(_placed(marks, facts, x0, x1))[-limit:]
    middle = (x0 + x1) // 2
    words = [mark.words() for mark in told]
    widths = [len(text or RESTART_ROOM) * COLUMNS_PER_CHAR for text in words]
    spans = [(m.x - w, m.x) if m.x > middle else (m.x, m.x + w) for m, w in zip(told, widths, strict=True)]
    lines = _rows_of(spans)
    records = []
    for mark, text, line in zip(told, words, lines, strict=True):
        records.append((mark.x, mark.kind, text if line >= 0 else "", max(0, line), int(mark.x > middle)))
    return rows({"x": I32, "k": TEXT, "t": TEXT, "l": I8, "h": I8}, records)
