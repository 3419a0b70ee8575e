"""One picture of one step, ready for every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dashboard import block_squares, lanes, state_tables
from dashboard.block_squares import Block, MapGeometry
from dashboard.evictions import Costs, Eviction
from dashboard.figures import Figures
from dashboard.history import StepFacts
from dashboard.identity import NO_MARK
from dashboard.lanes import Run
from dashboard.past import Kept
from dashboard.policy_marks import marks_table
from model_runner.messages import EngineSnapshot
from model_runner.views import Mark
from scheduler import StepSnapshot

SHOWN_STEPS: Final = 360
"""Steps that a picture may look back on."""
RECENT_STEPS: Final = 40
"""Steps whose events are listed."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture, ready for every page. data: chart name -> dataset name -> Arrow bytes.

    facts: oldest first. recent: the steps up to the one that is shown, newest first. steps_per_frame: steps since the
    picture before this one (1 = each was shown). n: the place of the newest step among all steps the page has seen, -1
    before the first.
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
    recent: Sequence[StepSnapshot]
    n: int

    @property
    def ran(self) -> StepSnapshot:
        """The step that the picture is about: while the engine is held or idle the last that ran. What comes between
        two steps has queue and blocks of its own, but plans nothing."""
        return self.recent[0] if self.snapshot.heartbeat and self.recent else self.snapshot.step


def build(
    kept: Sequence[Kept],
    snapshot: EngineSnapshot,
    figures: Figures,
    client_marks: Sequence[Mark],
    starred: frozenset[str],
    steps_per_frame: int = 1,
) -> Frame:
    """The picture of ``snapshot``, after the steps ``kept`` (oldest first; empty before the first step)."""
    step, facts = snapshot.step, tuple(k.facts for k in kept)
    names = kept[-1].names if kept else {}
    last_x = facts[-1].x if facts else step.step_id
    x0, x1 = lanes.window(last_x, facts[0].x if facts else last_x)
    runs = lanes.lane_runs(facts, x0)
    shown = [f for f in facts if f.x >= x0]
    num_slots = max([f.num_slots for f in shown[-lanes.PAGE :]] or [step.policy.max_num_seqs])
    num_lanes = lanes.num_lanes(runs, num_slots)
    runs = [r for r in runs if r.y1 < num_lanes]
    geometry = block_squares.map_geometry(step.num_blocks)
    blocks = block_squares.aggregate(block_squares.block_cells(step, names), geometry.blocks_per_cell)
    data = {
        "time": {
            "frame": lanes.frame_table(facts, x0, x1, num_lanes),
            "now": lanes.now_table(last_x + 1),
            "runs": lanes.runs_table(runs),
            "points": lanes.points_table(facts, x0),
            "labels": lanes.labels_table(runs, x0, starred, num_lanes),
            "series": lanes.series_table(facts, x0),
            "ticks": lanes.ticks_table(facts, x0, x1),
            "marks": marks_table(client_marks, facts, x0, x1),
        },
        "queue": {"queue": state_tables.queue_table(step, names, starred)},
        "running": {"running": state_tables.running_table(step, names, starred)},
        "map": {"blocks": block_squares.blocks_table(blocks)},
    }
    return Frame(
        snapshot=snapshot,
        marks=names,
        facts=facts,
        x0=x0,
        x1=x1,
        runs=runs,
        blocks=blocks,
        geometry=geometry,
        figures=figures,
        evictions=kept[-1].evictions if kept else (),
        costs=kept[-1].costs if kept else Costs(),
        data=data,
        steps_per_frame=steps_per_frame,
        starred=starred,
        recent=tuple(k.snapshot.step for k in reversed(kept[-RECENT_STEPS:])),
        n=kept[-1].n if kept else -1,
    )


def marks_until(marks: Sequence[Mark], moment: EngineSnapshot) -> list[Mark]:
    """The marks a step knew: those of its own run up to it, and those of other runs."""
    last = moment.step.step_id
    return [m for m in marks if m.run_id != moment.run_id or m.step_id <= last]


@lru_cache(maxsize=32)
def with_selection(frame: Frame, request_id: str) -> Mapping[str, Mapping[str, bytes]]:
    """The frame's data with the tables that single out one request ("" = none); everything else is shared.

    A chart dims the others only while it shows the request: one that has left must not leave the picture dark.
    """
    chosen = [r for r in frame.runs if request_id and r.request_id == request_id]  # idle slots have no id
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
