"""The squares of the KV block map and the account below its title. Pure: a snapshot and the marks in, rows out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dashboard.arrow import I8, I16, rows
from dashboard.identity import NO_MARK
from scheduler import StepSnapshot

ASPECT: Final = 3.0
"""Width to height of the block map, at 1440 pixels."""
MAX_CELLS: Final = 2048
"""Above this many blocks one square stands for several."""
FULL: Final = 16
"""Fill of a square in sixteenths."""
LOCKED: Final = -2
"""Mark of a free block that kv_block_limit keeps from being used."""
UNUSABLE: Final = -3
"""Mark of a free block that the allocator in force cannot give to the next request."""
CACHED: Final = -4
"""Mark of a free block whose content the prefix cache can still give out."""


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


@dataclass(frozen=True, slots=True)
class Block:
    """One square that is not simply free. fill: sixteenths; 0 in an owned block = reserved, no token in it yet.

    touched: written in this step. owners: the requests that use it, in lane order; several where it is shared.
    """

    cell: int
    mark: int
    fill: int
    touched: bool
    owners: tuple[str, ...] = ()


def _owned(step: StepSnapshot, marks: Mapping[str, int]) -> dict[int, Block]:
    blocks: dict[int, Block] = {}
    size, table = step.block_size, step.running
    columns = (table.request_id, table.num_computed_tokens, table.num_scheduled_tokens, table.block_ids)
    for request_id, computed, scheduled, block_ids in zip(*columns, strict=True):
        first_written = (computed - scheduled) // size
        mark = marks.get(request_id, NO_MARK)
        for i, block_id in enumerate(block_ids):
            filled = min(size, max(0, computed - i * size))
            touched = scheduled > 0 and i >= first_written and filled > 0
            other = blocks.get(block_id - 1)
            if other is None:
                blocks[block_id - 1] = Block(block_id - 1, mark, -(-filled * FULL // size), touched, (request_id,))
            else:
                blocks[block_id - 1] = replace(
                    other, owners=(*other.owners, request_id), touched=touched or other.touched
                )
    return blocks


def block_cells(step: StepSnapshot, marks: Mapping[str, int]) -> list[Block]:
    """Owned, cached, unusable and locked squares, one a block (block ids start at 1, cells at 0).

    ``kv_block_limit`` is a number, not a set of blocks: so many free ones from the end are drawn as locked, plain ones
    before those that hold something or cannot be used anyway.
    """
    blocks = _owned(step, marks)
    special = dict.fromkeys((block_id - 1 for block_id in step.memory.unusable_block_ids), UNUSABLE)
    special.update(dict.fromkeys((block_id - 1 for block_id in step.cached_block_ids), CACHED))
    locked = step.num_blocks - max(step.block_limit, step.num_used_blocks)
    if locked > 0:
        free = [cell for cell in reversed(range(step.num_blocks)) if cell not in blocks]
        plain_first = sorted(free, key=lambda cell: cell in special)
        special.update(dict.fromkeys(plain_first[:locked], LOCKED))
    for cell, mark in special.items():
        if cell not in blocks:
            blocks[cell] = Block(cell, mark, FULL, False)
    return [blocks[cell] for cell in sorted(blocks)]


def aggregate(blocks: list[Block], per_cell: int) -> list[Block]:
    """Several blocks a square: the state of most of them gives the look, the share in use the fill."""
    if per_cell == 1:
        return blocks
    groups: dict[int, list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.cell // per_cell, []).append(block)
    out = []
    for cell, members in sorted(groups.items()):
        (mark, owners), _ = Counter((b.mark, b.owners) for b in members).most_common(1)[0]
        fill = round(sum(b.fill for b in members) / per_cell)
        shown = fill if not any(b.fill for b in members) else max(1, fill)
        out.append(Block(cell, mark, shown, any(b.touched for b in members), owners))
    return out


def chosen_blocks(blocks: Sequence[Block], request_id: str, mark: int) -> list[Block]:
    """The squares of one request, those it shares included, as if they were its own."""
    return [replace(b, mark=mark, owners=(request_id,)) for b in blocks if request_id in b.owners]


def blocks_table(blocks: list[Block]) -> bytes:
    """c cell, m mark (CACHED, UNUSABLE, LOCKED, NO_MARK = owner without a mark, 0..15), f fill in sixteenths, n owners,
    t touched."""
    types = {"c": I16, "m": I8, "f": I8, "t": I8, "n": I8}
    return rows(types, [(b.cell, b.mark, b.fill, int(b.touched), min(127, len(b.owners))) for b in blocks])


def account(step: StepSnapshot) -> dict[str, int]:
    """The sum of the map: blocks = used + free + locked (cached ones are free). Wastes in token slots.

    saved: blocks that would be needed more if nothing were shared.
    """
    locked = max(0, step.num_blocks - max(step.block_limit, step.num_used_blocks))
    uses = sum(map(len, step.running.block_ids))
    return {
        "blocks": step.num_blocks,
        "size": step.block_size,
        "used": step.num_used_blocks,
        "free": step.num_blocks - step.num_used_blocks - locked,
        "locked": locked,
        "limit": min(step.block_limit, step.num_blocks),
        "filled": step.memory.filled,
        "reserved": step.memory.reserved,
        "internal": step.memory.internal,
        "external": step.memory.external,
        "cached": len(step.cached_block_ids),
        "shared": len(step.shared_block_ids),
        "saved": uses - step.num_used_blocks,
    }
