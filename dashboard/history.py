"""What the charts remember of each step: a few numbers and cells, so that minutes of history cost little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from model_runner.messages import EngineSnapshot
from scheduler import RunningTable, StepSnapshot, Totals

KINDS: Final = ("prefill", "decode", "recompute", "padding", "idle", "empty")
"""Codes of lane cells. "idle": running, nothing planned; "empty": free slot of a static batch while requests wait."""
KIND_CODE: Final = {name: code for code, name in enumerate(KINDS)}
POINTS: Final = ("admitted", "resumed", "preempted", "finished", "aborted")
POINT_CODE: Final = {name: code for code, name in enumerate(POINTS)}


@dataclass(frozen=True, slots=True)
class Cell:
    """What one slot did in one step. kind: index into KINDS; tokens: real tokens, padding: padding tokens."""

    slot: int
    kind: int
    mark: int
    tokens: int
    padding: int
    request_id: str


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in the life of a request, drawn on its lane. what: index into POINTS."""

    slot: int
    what: int
    mark: int
    request_id: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One step as the charts draw it.

    x: position on the iteration axis; rises through restarts, where step_id starts again. Tokens are those of this
    step by what they were for. output_tokens: delivered in this step; engine_time in seconds. internal, reserved,
    external: wasted token slots.
    """

    run_id: str
    step_id: int
    x: int
    engine_time: float
    cells: tuple[Cell, ...]
    points: tuple[Point, ...]
    tokens: Mapping[str, int]
    budget: int
    num_slots: int
    running: int
    waiting: int
    used_blocks: int
    block_limit: int
    num_blocks: int
    output_tokens: int
    preemptions: int
    block_size: int = 1
    internal: int = 0
    reserved: int = 0
    external: int = 0


def tokens_by_purpose(step: StepSnapshot, before: Totals | None) -> dict[str, int]:
    """Tokens of this step by what they were for: prefill, decode, recompute, padding.

    before: the counters of the step before it. Without them a request's tokens all count as its kind, which is off by
    the new token a recompute ends with.
    """
    if before is None:
        return _tokens_by_kind(step)
    now = step.totals
    return {
        "prefill": now.prefill_tokens - before.prefill_tokens,
        "decode": now.decode_tokens - before.decode_tokens,
        "recompute": now.recompute_tokens - before.recompute_tokens,
        "padding": now.padding_tokens - before.padding_tokens,
    }


def _tokens_by_kind(step: StepSnapshot) -> dict[str, int]:
    tokens = {"prefill": 0, "decode": 0, "recompute": 0, "padding": sum(step.num_padding_tokens.values())}
    for request_id, count in step.num_scheduled_tokens.items():
        kind = step.kinds.get(request_id, "decode")
        tokens[kind if kind in tokens else "decode"] += count
    return tokens


def assign_slots(step: StepSnapshot, known: dict[str, int]) -> dict[str, int]:
    """The lane of every request this step mentions.

    A request that ended or was evicted in the step is no longer in ``running``; its lane is the one it had before, or
    for one that came and went within the step the lowest lane nobody uses.
    """
    slots = dict(zip(step.running.request_id, step.running.slot, strict=True))
    taken = set(slots.values())
    for request_id in (*step.num_scheduled_tokens, *step.num_padding_tokens, *step.preempted, *step.finished):
        if request_id in slots:
            continue
        lane = known.get(request_id)
        if lane is None and (request_id in step.num_scheduled_tokens or request_id in step.num_padding_tokens):
            lane = next(i for i in range(len(taken) + 1) if i not in taken)
        if lane is not None:
            slots[request_id] = lane
            taken.add(lane)
    return slots


def _cells(step: StepSnapshot, slots: Mapping[str, int], marks: Mapping[str, int]) -> tuple[Cell, ...]:
    cells = []
    planned = dict.fromkeys((*step.num_scheduled_tokens, *step.num_padding_tokens))
    for request_id in planned:
        kind = KIND_CODE.get(step.kinds.get(request_id, "padding"), KIND_CODE["decode"])
        tokens = step.num_scheduled_tokens.get(request_id, 0)
        padding = step.num_padding_tokens.get(request_id, 0)
        cells.append(Cell(slots[request_id], kind, marks.get(request_id, -1), tokens, padding, request_id))
    running: RunningTable = step.running
    for request_id in running.request_id:
        if request_id not in planned:
            cells.append(Cell(slots[request_id], KIND_CODE["idle"], marks.get(request_id, -1), 0, 0, request_id))
    if step.policy.batching == "static" and cells and step.num_waiting:
        taken = {cell.slot for cell in cells}
        free = (s for s in range(step.policy.max_num_seqs) if s not in taken)
        cells.extend(Cell(s, KIND_CODE["empty"], -1, 0, 0, "") for s in free)
    return tuple(cells)


def _points(step: StepSnapshot, slots: Mapping[str, int], marks: Mapping[str, int]) -> tuple[Point, ...]:
    aborted = {e.request_id for e in step.events if e.kind == "aborted"}
    moments = [(r, "admitted") for r in step.new] + [(r, "resumed") for r in step.resumed]
    moments += [(r, "preempted") for r in step.preempted]
    moments += [(r, "aborted" if r in aborted else "finished") for r in step.finished]
    return tuple(Point(slots[r], POINT_CODE[what], marks.get(r, -1), r) for r, what in moments if r in slots)


def step_facts(
    snapshot: EngineSnapshot, x: int, slots: Mapping[str, int], marks: Mapping[str, int], before: Totals | None
) -> StepFacts:
    """The facts of one step. before: the counters of the step before it, None when that was not seen."""
    step = snapshot.step
    cells = _cells(step, slots, marks)
    return StepFacts(
        run_id=snapshot.run_id,
        step_id=step.step_id,
        x=x,
        engine_time=snapshot.engine_time,
        cells=cells,
        points=_points(step, slots, marks),
        tokens=tokens_by_purpose(step, before),
        budget=step.policy.max_num_batched_tokens,
        num_slots=max([step.policy.max_num_seqs, *(c.slot + 1 for c in cells)]),
        running=len(step.running),
        waiting=step.num_waiting,
        used_blocks=step.num_used_blocks,
        block_limit=step.block_limit,
        num_blocks=step.num_blocks,
        output_tokens=len(step.new_tokens),
        preemptions=step.totals.preemptions - before.preemptions if before else len(step.preempted),
        block_size=step.block_size,
        internal=step.memory.internal,
        reserved=step.memory.reserved,
        external=step.memory.external,
    )
