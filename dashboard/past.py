"""The steps a page can go back to, each with what its picture needs beyond its snapshot; and the ways between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from dashboard.evictions import Costs, Eviction
from dashboard.figures import Figures
from dashboard.history import StepFacts
from model_runner.history import HISTORY_STEPS
from model_runner.messages import EngineSnapshot
from model_runner.views import Mark

KEPT_CELLS: Final = 300_000
"""Lane cells of all kept steps together, about 30 MB: a wide static batch has hundreds a step."""
PACE_FIELDS: Final = frozenset({"paused", "single_step", "step_delay_ms"})
"""Fields that change how fast the engine goes and nothing it decides."""

EventKind = Literal["preemption", "policy", "restart"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of one run of the worker. run_id "" = the present run."""

    run_id: str
    step_id: int


@dataclass(frozen=True, slots=True)
class Kept:
    """One step and what was true after it.

    n: rises by one with every step, through restarts. names: mark of each request then. gap_s, gap_of: the longest time
    between two tokens of one request that ended in this step, in seconds of engine time (a pause is no gap), and whose
    it is; 0.0 and "" where nobody got a second token.
    """

    n: int
    snapshot: EngineSnapshot
    facts: StepFacts
    names: Mapping[str, int]
    figures: Figures
    evictions: tuple[Eviction, ...]
    costs: Costs
    gap_s: float = 0.0
    gap_of: str = ""

    @property
    def moment(self) -> Moment:
        """Where it is."""
        return Moment(self.facts.run_id, self.facts.step_id)


class Past:
    """A ring of steps. One writer: the hub."""

    def __init__(self, max_steps: int = HISTORY_STEPS, max_cells: int = KEPT_CELLS) -> None:
        self._max_steps = max_steps
        self._max_cells = max_cells
        self._steps: deque[Kept] = deque()
        self._at: dict[Moment, int] = {}
        self._cells = 0

    def add(self, kept: Kept) -> None:
        """Take the next step; the oldest go."""
        self._steps.append(kept)
        self._at[kept.moment] = kept.n
        self._cells += len(kept.facts.cells)
        while len(self._steps) > self._max_steps or (self._cells > self._max_cells and len(self._steps) > 1):
            self._drop()

    def trim(self, count: int) -> None:
        """Keep no more than the newest ``count``: what the client has let go is not held here."""
        while len(self._steps) > max(1, count):
            self._drop()

    def _drop(self) -> None:
        gone = self._steps.popleft()
        self._cells -= len(gone.facts.cells)
        if self._at.get(gone.moment) == gone.n:
            del self._at[gone.moment]

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def newest(self) -> Kept | None:
        """None before the first step."""
        return self._steps[-1] if self._steps else None

    def last(self, count: int, until: int | None = None) -> list[Kept]:
        """The ``count`` newest steps, oldest first; with ``until`` those up to the step of that n."""
        end = len(self._steps) if until is None else until - self._steps[0].n + 1
        return [self._steps[i] for i in range(max(0, end - count), end)]

    def find(self, moment: Moment) -> Kept | None:
        """The step, if it is kept."""
        n = self._at.get(moment)
        return None if n is None else self._steps[n - self._steps[0].n]

    def all(self) -> tuple[Kept, ...]:
        """Oldest first."""
        return tuple(self._steps)


class GapBook:
    """The time between two tokens of each request, on the engine's clock."""

    def __init__(self) -> None:
        self._run_id = ""
        self._last: dict[str, float] = {}

    def add(self, snapshot: EngineSnapshot) -> tuple[float, str]:
        """The longest gap that ended in this step and whose it is; (0.0, "") without one."""
        if snapshot.run_id != self._run_id:
            self._run_id, self._last = snapshot.run_id, {}
        now, worst = snapshot.engine_time, (0.0, "")
        for request_id in snapshot.step.new_tokens:
            if request_id in self._last:
                worst = max(worst, (now - self._last[request_id], request_id))
            self._last[request_id] = now
        for request_id in snapshot.step.finished:
            self._last.pop(request_id, None)
        return worst


def place_of(kept: Sequence[Kept], moment: Moment) -> int | None:
    """Index of the step, or of the first of its run that came later; None when its run is not kept so far."""
    steps = [i for i, k in enumerate(kept) if k.facts.run_id == moment.run_id]
    if not steps:
        return None
    at = bisect_left(steps, moment.step_id, key=lambda i: kept[i].facts.step_id)
    return steps[at] if at < len(steps) else None


def decides(mark: Mark) -> bool:
    """Whether a mark is a change of policy other than of its pace."""
    fields = {part.partition(" ")[0] for part in mark.text.split("; ")}
    return mark.kind == "policy" and bool(fields - PACE_FIELDS)


def events(kept: Sequence[Kept], marks: Iterable[Mark]) -> list[tuple[int, EventKind]]:
    """(index, kind) of preemptions, changes of policy and restarts in the kept history, in order.

    A change of policy that no step has seen yet stands at the newest step.
    """
    found: set[tuple[int, EventKind]] = {(i, "preemption") for i, k in enumerate(kept) if k.facts.preemptions}
    found |= {(i + 1, "restart") for i, (a, b) in enumerate(pairwise(kept)) if a.facts.run_id != b.facts.run_id}
    if kept:
        spans = _runs(kept)
        for mark in marks:
            if mark.run_id in spans and decides(mark):
                first, last = spans[mark.run_id]
                if mark.step_id >= kept[first].facts.step_id:
                    found.add((_step_at(kept, first, last, mark.step_id), "policy"))
    return sorted(found)


def _runs(kept: Sequence[Kept]) -> dict[str, tuple[int, int]]:
    """Index of the first and of the last step of each run."""
    spans: dict[str, tuple[int, int]] = {}
    for i, k in enumerate(kept):
        spans[k.facts.run_id] = (spans.get(k.facts.run_id, (i, i))[0], i)
    return spans


def _step_at(kept: Sequence[Kept], first: int, last: int, step_id: int) -> int:
    at = bisect_left(range(first, last + 1), step_id, key=lambda i: kept[i].facts.step_id) + first
    return min(at, last)


def worst_gap(kept: Sequence[Kept]) -> int | None:
    """Index of the step that ended the longest time between two tokens of one request; None without any."""
    if not any(k.gap_s > 0 for k in kept):
        return None
    return max(range(len(kept)), key=lambda i: kept[i].gap_s)
