"""Tables of the present: queue, running set, KV block map. Pure: a snapshot and the marks in, Arrow bytes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dashboard.arrow import F32, I8, I16, I32, TEXT, rows
from dashboard.history import KIND_CODE
from dashboard.identity import NO_MARK, letter
from scheduler import DEFER_REASONS, StepSnapshot

QUEUE_ROWS: Final = 9
RUNNING_ROWS: Final = 16
ASPECT: Final = 3.0
"""Width to height of the block map, at 1440 pixels."""
MAX_CELLS: Final = 2048
"""Above this many blocks one square stands for several."""
FULL: Final = 16
"""Fill of a square in sixteenths."""
LOCKED: Final = -2
"""Mark of a free block that kv_block_limit keeps from being used."""


@dataclass(frozen=True, slots=True)
class MapGeometry:
    """Squares of the block map. blocks_per_cell > 1 above MAX_CELLS blocks."""

    columns: int
    rows: int
    cells: int
    blocks_per_cell: int


def map_geometry(num_blocks: int, aspect: float = ASPECT) -> MapGeometry:
    """Columns and rows with the largest squares in an area ``aspect`` times wider than high."""
    per_cell = -(-num_blocks // MAX_CELLS)
    cells = max(1, -(-num_blocks // per_cell))
    stride = 4 if cells >= 16 else 1
    near = max(1, round((cells * aspect) ** 0.5 / stride))
    choices = [stride * n for n in range(max(1, near - 2), near + 3)]
    columns = max(choices, key=lambda c: (min(aspect / c, 1 / -(-cells // c)), c % 8 == 0))
    return MapGeometry(columns, -(-cells // columns), cells, per_cell)


def queue_table(step: StepSnapshot, marks: Mapping[str, int], starred: frozenset[str] = frozenset()) -> bytes:
    """The head of the queue: i rank, n tokens to compute, m mark of an evicted request, s 1 = evicted, w seconds
    waited, q reason (index into DEFER_REASONS, -1 = none), t name."""
    records = []
    for i, row in enumerate(step.waiting):
        if i >= QUEUE_ROWS:
            break
        reason = DEFER_REASONS.index(row.reason) if row.reason in DEFER_REASONS else -1
        mark = marks.get(row.request_id, NO_MARK)
        name = f"{'★ ' if row.request_id in starred else ''}{letter(mark) + ' ' if mark >= 0 else ''}{row.request_id}"
        tokens = row.num_prompt_tokens + row.num_output_tokens
        waited = max(0.0, step.time - row.arrival_time)
        records.append((i, tokens, mark, int(row.status == "preempted"), waited, reason, name, row.request_id))
    return rows({"i": I8, "n": I32, "m": I8, "s": I8, "w": F32, "q": I8, "t": TEXT, "r": TEXT}, records)


def running_order(step: StepSnapshot) -> tuple[str, ...]:
    """The running requests in the order of their lanes."""
    return tuple(r for _, r in sorted(zip(step.running.slot, step.running.request_id, strict=True)))


def running_table(step: StepSnapshot, marks: Mapping[str, int], starred: frozenset[str] = frozenset()) -> bytes:
    """The running set in lane order: i row, m mark, l letter, p prompt tokens, c computed, o output, g goal (prompt +
    max_tokens), z blocks, k kind of this step, h held (static), t name."""
    records = []
    table = sorted(step.running, key=lambda row: row.slot)[:RUNNING_ROWS]
    for i, row in enumerate(table):
        mark = marks.get(row.request_id, NO_MARK)
        goal = max(1, row.num_prompt_tokens + row.max_tokens)
        name = f"{'★ ' if row.request_id in starred else ''}{row.request_id}"
        kind = KIND_CODE.get(row.kind, KIND_CODE["idle"])
        counts = (row.num_prompt_tokens, min(row.num_computed_tokens, goal), row.num_output_tokens, goal)
        records.append((i, mark, letter(mark), *counts, len(row.block_ids), kind, int(row.held), name, row.request_id))
    types = {"i": I8, "m": I8, "l": TEXT, "p": I32, "c": I32, "o": I32, "g": I32, "z": I16, "k": I8, "h": I8}
    return rows({**types, "t": TEXT, "r": TEXT}, records)


@dataclass(frozen=True, slots=True)
class Block:
    """One square that is not simply free. fill: sixteenths; touched: written in this step; count: blocks in use."""

    cell: int
    mark: int
    fill: int
    touched: bool
    request_id: str


def block_cells(step: StepSnapshot, marks: Mapping[str, int]) -> list[Block]:
    """Owned and locked squares, one a block (block ids start at 1, cells at 0)."""
    blocks: dict[int, Block] = {}
    size = step.block_size
    for row in step.running:
        first_written = (row.num_computed_tokens - row.num_scheduled_tokens) // size
        for i, block_id in enumerate(row.block_ids):
            filled = min(size, max(0, row.num_computed_tokens - i * size))
            touched = row.num_scheduled_tokens > 0 and i >= first_written and filled > 0
            fill = -(-filled * FULL // size)
            mark = marks.get(row.request_id, NO_MARK)
            blocks[block_id - 1] = Block(block_id - 1, mark, fill, touched, row.request_id)
    locked = step.num_blocks - max(step.block_limit, step.num_used_blocks)
    cell = step.num_blocks - 1
    while locked > 0 and cell >= 0:
        if cell not in blocks:
            blocks[cell] = Block(cell, LOCKED, FULL, False, "")
            locked -= 1
        cell -= 1
    return [blocks[cell] for cell in sorted(blocks)]


def aggregate(blocks: list[Block], per_cell: int) -> list[Block]:
    """Several blocks a square: the owner of most of them gives the hue, the share in use the fill."""
    if per_cell == 1:
        return blocks
    groups: dict[int, list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.cell // per_cell, []).append(block)
    out = []
    for cell, members in sorted(groups.items()):
        (mark, request_id), _ = Counter((b.mark, b.request_id) for b in members).most_common(1)[0]
        fill = max(1, round(sum(b.fill for b in members) / per_cell))
        out.append(Block(cell, mark, fill, any(b.touched for b in members), request_id))
    return out


def blocks_table(blocks: list[Block]) -> bytes:
    """c cell, m mark (LOCKED, NO_MARK = owner without a mark, 0..15), f fill in sixteenths, t touched."""
    return rows({"c": I16, "m": I8, "f": I8, "t": I8}, [(b.cell, b.mark, b.fill, int(b.touched)) for b in blocks])


def account(step: StepSnapshot) -> dict[str, int]:
    """The sum of the map: blocks = used + free + locked; slots of the used blocks that hold no token."""
    locked = max(0, step.num_blocks - max(step.block_limit, step.num_used_blocks))
    return {
        "blocks": step.num_blocks,
        "size": step.block_size,
        "used": step.num_used_blocks,
        "free": step.num_blocks - step.num_used_blocks - locked,
        "locked": locked,
        "limit": min(step.block_limit, step.num_blocks),
        "unfilled": step.allocated_tokens - step.filled_tokens,
    }
