"""Tables of the present: queue and running set. Pure: a snapshot and the marks in, Arrow bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dashboard.arrow import F32, I8, I16, I32, TEXT, rows
from dashboard.history import KIND_CODE
from dashboard.identity import NO_MARK, letter
from dashboard.words import MEMORY_REASONS
from scheduler import DEFER_REASONS, StepSnapshot

QUEUE_ROWS: Final = 8
RUNNING_ROWS: Final = 16


def queue_table(step: StepSnapshot, marks: Mapping[str, int], starred: frozenset[str] = frozenset()) -> bytes:
    """The head of the queue: i rank, n tokens to compute, m mark of an evicted request, s 1 = evicted, w seconds
    waited, q reason (index into DEFER_REASONS, -1 = none), t name, r request.

    d needed and f free blocks (d = -1: memory is not why it waits), b who blocks it, p 1 = would fit under paged, h its
    blocks in the host pool.
    """
    types = {"i": I8, "n": I32, "m": I8, "s": I8, "w": F32, "q": I8, "t": TEXT, "r": TEXT}
    types.update({"d": I32, "f": I32, "b": TEXT, "p": I8, "h": I32})
    records = []
    for i, row in enumerate(step.waiting):
        if i >= QUEUE_ROWS:
            break
        reason = DEFER_REASONS.index(row.reason) if row.reason in DEFER_REASONS else -1
        mark = marks.get(row.request_id, NO_MARK)
        name = f"{'★ ' if row.request_id in starred else ''}{letter(mark) + ' ' if mark >= 0 else ''}{row.request_id}"
        tokens = row.num_prompt_tokens + row.num_output_tokens
        waited = max(0.0, step.time - row.arrival_time)
        who = (i, tokens, mark, int(row.status == "preempted"), waited, reason, name, row.request_id)
        needed = row.needed_blocks if row.reason in MEMORY_REASONS else -1
        why = (needed, row.free_blocks, row.blocked_by, int(row.fits_paged), row.swapped_blocks)
        records.append((*who, *why))
    return rows(types, records)


def running_order(step: StepSnapshot) -> tuple[str, ...]:
    """The running requests in the order of their lanes."""
    return tuple(r for _, r in sorted(zip(step.running.slot, step.running.request_id, strict=True)))


def running_table(step: StepSnapshot, marks: Mapping[str, int], starred: frozenset[str] = frozenset()) -> bytes:
    """The running set in lane order: i row, m mark, l letter, p prompt tokens, c computed, o output, g goal (prompt +
    max_tokens), z blocks, k kind of this step, h held (static), t name, r request, s tokens from the prefix cache."""
    records = []
    table = sorted(step.running, key=lambda row: row.slot)[:RUNNING_ROWS]
    for i, row in enumerate(table):
        mark = marks.get(row.request_id, NO_MARK)
        goal = max(1, row.num_prompt_tokens + row.max_tokens)
        name = f"{'★ ' if row.request_id in starred else ''}{row.request_id}"
        kind = KIND_CODE.get(row.kind, KIND_CODE["idle"])
        counts = (row.num_prompt_tokens, min(row.num_computed_tokens, goal), row.num_output_tokens, goal)
        now = (len(row.block_ids), kind, int(row.held), name, row.request_id, row.num_cached_tokens)
        records.append((i, mark, letter(mark), *counts, *now))
    types = {"i": I8, "m": I8, "l": TEXT, "p": I32, "c": I32, "o": I32, "g": I32, "z": I16, "k": I8, "h": I8}
    return rows({**types, "t": TEXT, "r": TEXT, "s": I32}, records)
