"""From the client's history to what one tick shows: made once per snapshot, for all open pages."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dashboard import block_squares, lanes, state_tables
from dashboard.block_squares import Block, MapGeometry
from dashboard.epochs import EpochBook
from dashboard.evictions import Costs, Eviction, EvictionBook
from dashboard.figures import FigureBook, Figures
from dashboard.history import StepFacts, assign_slots, step_facts
from dashboard.identity import NO_MARK, MarkBook
from dashboard.lanes import Run
from dashboard.lives import LifeBook
from dashboard.policy_marks import marks_table
from model_runner.messages import EngineSnapshot
from model_runner.views import Mark
from scheduler import Totals

if TYPE_CHECKING:
    from model_runner.client import RunnerClient

KEPT_FACTS: Final = 360
BREAK: Final = 3
"""Empty iterations drawn between the steps of two runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture, ready for every page. data: chart name -> dataset name -> Arrow bytes.

    facts: oldest first. steps_per_frame: steps since the picture before this one (1 = each was shown).
    """

    snapshot: EngineSnapshot
    marks: Mapping[str, int]
    facts: Sequence[StepFacts]
    x0: int
    x1: int
    runs: Sequence[Run]
    blocks: Sequence[Block]
    geometry: MapGeometry
    figures: Figures
    evictions: Sequence[Eviction]
    costs: Costs
    data: Mapping[str, Mapping[str, bytes]]
    steps_per_frame: int
    starred: frozenset[str]


class Hub:
    """Follows one client. ``frame`` may be called from any thread; it draws nothing and calls no Streamlit."""

    def __init__(self, client: RunnerClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._facts: deque[StepFacts] = deque(maxlen=KEPT_FACTS)
        self._book = MarkBook()
        self._slots: dict[str, int] = {}
        self._figures = FigureBook()
        self._evictions = EvictionBook()
        self.lives = LifeBook()
        self.epochs = EpochBook(client.request)
        self._seen: tuple[str, int] = ("", -1)
        self._totals: Totals | None = None
        self._frame: Frame | None = None
        self._key: tuple[object, ...] = ()
        self._names: dict[str, int] = {}

    def frame(self) -> Frame | None:
        """The newest picture; None before the first snapshot."""
        with self._lock:
            latest = self._client.latest
            if latest is None:
                return None
            marks = self._client.marks
            key = (latest.run_id, latest.seq, len(marks), marks[-1] if marks else None)
            if self._frame is None or key != self._key:
                taken = self._follow()
                self._names = self._book.snapshot()
                self._frame = self._build(latest, marks, taken)
                self._key = key
            return self._frame

    def _follow(self) -> int:
        """Take every step of the client's history that was not seen yet; how many there were."""
        taken = 0
        for snapshot in self._new_steps():
            self._take(snapshot)
            taken += 1
        return taken

    def _new_steps(self) -> Sequence[EngineSnapshot]:
        count = 64
        while True:
            steps = self._client.history(last=count)
            fresh = [i for i, s in enumerate(steps) if (s.run_id, s.step.step_id) == self._seen]
            if fresh:
                return steps[fresh[-1] + 1 :]
            if len(steps) < count:
                return steps
            count *= 4

    def _take(self, snapshot: EngineSnapshot) -> None:
        step = snapshot.step
        if snapshot.run_id != self._seen[0]:
            self._slots = {}
            self._totals = None
        elif step.step_id != self._seen[1] + 1:
            self._totals = None
        mentioned = (*step.running.request_id, *step.num_scheduled_tokens, *step.num_padding_tokens)
        waiting = [r for r, s in zip(step.waiting.request_id, step.waiting.status, strict=True) if s == "preempted"]
        self._book.update(mentioned, (*mentioned, *waiting, *step.preempted))
        names = self._book.snapshot()
        slots = assign_slots(step, self._slots)
        self._facts.append(step_facts(snapshot, self._next_x(snapshot), slots, names, self._totals))
        self._totals = step.totals
        self._slots = {r: slots[r] for r in step.running.request_id}
        self._figures.add(snapshot)
        self._evictions.add(snapshot, names)
        self.lives.add(snapshot)
        self.epochs.add(snapshot)
        self._seen = (snapshot.run_id, step.step_id)

    def _next_x(self, snapshot: EngineSnapshot) -> int:
        if not self._facts:
            return snapshot.step.step_id
        last = self._facts[-1]
        if last.run_id != snapshot.run_id:
            return last.x + 1 + BREAK
        return last.x + max(1, snapshot.step.step_id - last.step_id)

    def _build(self, latest: EngineSnapshot, client_marks: Sequence[Mark], taken: int) -> Frame:
        facts = tuple(self._facts)
        step = latest.step
        last_x = facts[-1].x if facts else step.step_id
        x0, x1 = lanes.window(last_x, facts[0].x if facts else last_x)
        runs = lanes.lane_runs(facts, x0)
        shown = [f for f in facts if f.x >= x0]
        num_slots = max([f.num_slots for f in shown[-lanes.PAGE :]] or [step.policy.max_num_seqs])
        num_lanes = lanes.num_lanes(runs, num_slots)
        runs = [r for r in runs if r.y1 < num_lanes]
        starred = frozenset(v.request_id for v in self._client.requests() if v.origin == "user")
        geometry = block_squares.map_geometry(step.num_blocks)
        blocks = block_squares.aggregate(block_squares.block_cells(step, self._names), geometry.blocks_per_cell)
        data = {
            "time": {
                "frame": lanes.frame_table(facts, x0, x1, num_lanes, last_x + 1),
                "runs": lanes.runs_table(runs),
                "points": lanes.points_table(facts, x0),
                "labels": lanes.labels_table(runs, x0, starred, num_lanes),
                "series": lanes.series_table(facts, x0),
                "ticks": lanes.ticks_table(facts, x0, x1),
                "marks": marks_table(client_marks, facts, x0, x1),
            },
            "queue": {"queue": state_tables.queue_table(step, self._names, starred)},
            "running": {"running": state_tables.running_table(step, self._names, starred)},
            "map": {"blocks": block_squares.blocks_table(blocks)},
        }
        return Frame(
            snapshot=latest,
            marks=self._names,
            facts=facts,
            x0=x0,
            x1=x1,
            runs=runs,
            blocks=blocks,
            geometry=geometry,
            figures=self._figures.figures(latest),
            evictions=self._evictions.list(),
            costs=self._evictions.costs,
            data=data,
            steps_per_frame=max(1, taken) if self._frame else 1,
            starred=starred,
        )


@lru_cache(maxsize=8)
def with_selection(frame: Frame, request_id: str) -> Mapping[str, Mapping[str, bytes]]:
    """The frame's data with the tables that single out one request ("" = none); everything else is shared.

    A chart dims the others only while it shows the request: one that has left must not leave the picture dark.
    """
    chosen = [r for r in frame.runs if r.request_id == request_id]
    squares = block_squares.chosen_blocks(frame.blocks, request_id, frame.marks.get(request_id, NO_MARK))
    return {
        "time": {**frame.data["time"], "chosen": lanes.runs_table(chosen), "veil": lanes.veil_table(bool(chosen))},
        "queue": {**frame.data["queue"], "chosen": _row_of(request_id, frame.snapshot.step.waiting.request_id)},
        "running": {
            **frame.data["running"],
            "chosen": _row_of(request_id, state_tables.running_order(frame.snapshot.step)),
        },
        "map": {
            **frame.data["map"],
            "chosen": block_squares.blocks_table(squares),
            "veil": lanes.veil_table(bool(squares)),
        },
    }


def _row_of(request_id: str, shown: Sequence[str]) -> bytes:
    return lanes.choice_table(shown.index(request_id) if request_id in shown else None)
