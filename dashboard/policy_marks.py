"""Rules across the iteration axis: changes of policy and traffic, restarts, gaps. Cause and effect on one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dashboard.arrow import I8, I32, TEXT, rows
from dashboard.history import StepFacts
from model_runner.views import Mark

SWITCHED: Final = {"True": "on", "False": "off"}
MARK_CHARS: Final = 56
NEAR: Final = 3
"""Changes within so many iterations are told as one."""


def merged_changes(texts: Sequence[str]) -> str:
    """Several changes "field old -> new; ..." as one: each field from its first old to its last new value, the field
    changed last first. A switch reads "field on" or "field off"."""
    changes: dict[str, tuple[str, str]] = {}
    other: list[str] = []
    for part in "; ".join(texts).split("; "):
        name, _, values = part.partition(" ")
        old, arrow, new = values.partition(" -> ")
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


def marks_table(marks: Iterable[Mark], facts: Sequence[StepFacts], x0: int, x1: int, limit: int = 24) -> bytes:
    """Policy changes, restarts and gaps in view: x, k ("policy", "traffic", "restart", "gap"), t what changed, l row,
    h 1 = the words stand left of the rule.

    A restart is placed in the hole between the steps of two runs. Changes of one kind within NEAR iterations are told
    as one, so that dragging a slider does not write over itself. l staggers neighbouring words over two rows.
    """
    told: list[_Placed] = []
    for mark in _placed(marks, facts, x0, x1):
        last = told[-1] if told else None
        if last is not None and last.kind == mark.kind and mark.x - last.x <= NEAR:
            told[-1] = _Placed(mark.x, mark.kind, mark.version, (*last.texts, *mark.texts))
        else:
            told.append(mark)
    middle = (x0 + x1) // 2
    return rows(
        {"x": I32, "k": TEXT, "t": TEXT, "l": I8, "h": I8},
        [(m.x, m.kind, m.words(), i % 2, int(m.x > middle)) for i, m in enumerate(told[-limit:])],
    )
