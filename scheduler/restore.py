"""A scheduler with the state that a snapshot shows, so that somebody can look what would come next.

The original is not touched, and nothing of it is shared. What a snapshot does not say is guessed, and each guess is
counted, so that whoever shows a forecast can say what it rests on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from scheduler.columns import RunningRow, WaitingRow
from scheduler.lifecycle import Lifecycle
from scheduler.ordering import ORDERS
from scheduler.policy import SchedulerPolicy
from scheduler.request import Request, SamplingParams
from scheduler.scheduler import Scheduler
from scheduler.sequence import Sequence, State
from scheduler.snapshot import StepSnapshot, Totals

GUESSES: Final[Mapping[str, str]] = {
    "unseen_waiting": "waiting requests beyond the rows of the snapshot are given average lengths",
    "prefix_cache": "free blocks whose content the prefix cache knew are empty here",
    "passes": "how often waiting requests were passed begins at 0",
    "evictions": "how often a request was evicted without progress begins at 0",
    "swapped_tokens": "requests in host memory are taken to have computed all their tokens but the last",
}
"""What a snapshot does not say, and what stands here instead. Block ids of free blocks may come in another order too,
which decides nothing while blocks are given out page by page."""


@dataclass(frozen=True, slots=True)
class Restored:
    """guesses: key of ``GUESSES`` -> requests or blocks it concerns; only those above 0."""

    scheduler: Scheduler
    guesses: Mapping[str, int]


def restore(
    snapshot: StepSnapshot,
    *,
    max_model_len: int,
    clock: Callable[[], float],
    eos_token_ids: Iterable[int] = (),
    filler_token: int = 0,
) -> Restored:
    """A scheduler that stands where the snapshot does: rows, queue, blocks, counters and policy.

    Token values are not in a snapshot: all known ones become ``filler_token``, which must not be among
    ``eos_token_ids``. Ends are by max_tokens unless whoever drives it samples an end token. Raises ValueError when the
    policy is not known here, as one of somebody's own may be.
    """
    stop_ids = frozenset(eos_token_ids)
    scheduler = Scheduler(
        snapshot.policy,
        num_blocks=snapshot.num_blocks,
        block_size=snapshot.block_size,
        max_model_len=max_model_len,
        eos_token_ids=stop_ids,
        clock=clock,
        snapshot_waiting_limit=0,
        refuse_conflicts=False,
        num_host_blocks=snapshot.num_host_blocks,
    )
    life = scheduler._life
    _fill_running(life, snapshot, stop_ids, filler_token)
    rows = [*snapshot.waiting, *_unseen(snapshot)]
    _fill_waiting(life, rows, snapshot, stop_ids, filler_token)
    for item in fields(Totals):
        setattr(life.books, item.name, getattr(snapshot.totals, item.name))
    scheduler._step_id = snapshot.step_id
    life.log.step_id = snapshot.step_id + 1
    return Restored(scheduler, {name: count for name, count in _guesses(snapshot).items() if count})


def _guesses(snapshot: StepSnapshot) -> dict[str, int]:
    waiting = snapshot.waiting
    evicted = sum(1 for count in (*snapshot.running.num_preemptions, *waiting.num_preemptions) if count)
    return {
        "unseen_waiting": snapshot.num_waiting - len(waiting),
        "prefix_cache": len(snapshot.cached_block_ids),
        "passes": snapshot.num_waiting if snapshot.policy.head_of_line == "skip" else 0,
        "evictions": evicted,
        "swapped_tokens": sum(1 for count in waiting.swapped_blocks if count),
    }


def _sequence(row: RunningRow | WaitingRow, rank: int, stop_ids: frozenset[int], filler: int) -> Sequence:
    request = Request(
        row.request_id,
        (filler,) * row.num_prompt_tokens,
        SamplingParams(max_tokens=row.max_tokens, ignore_eos=not stop_ids),
        row.priority,
        row.arrival_time,
    )
    seq = Sequence(request, max_tokens=row.max_tokens, arrival_time=row.arrival_time, rank=rank, stop_ids=stop_ids)
    seq.token_ids += [filler] * row.num_output_tokens
    seq.num_output_tokens = row.num_output_tokens
    seq.num_tokens += row.num_output_tokens
    seq.num_preemptions = row.num_preemptions
    return seq


def _fill_running(life: Lifecycle, snapshot: StepSnapshot, stop_ids: frozenset[int], filler: int) -> None:
    rows = list(snapshot.running)
    shared = set(snapshot.shared_block_ids)
    for row in rows:
        life._last_rank += 1
        seq = _sequence(row, life._last_rank, stop_ids, filler)
        life.live[seq.request_id] = seq
        life.running.append(seq)
        _run(seq, row, snapshot)
        _own(life, seq, row, shared)
        life.num_decoding += seq.decoding
        life.num_held += seq.held
        if seq.allocation != "paged" or len(seq.block_table) > -(-seq.num_computed_tokens // snapshot.block_size):
            life.note_reserving(seq)
    life._num_slots = max((row.slot for row in rows), default=-1) + 1
    life._free_slots = sorted(set(range(life._num_slots)) - {row.slot for row in rows})
    heapq.heapify(life._free_slots)
    _place_in_static_batch(life.running, snapshot.policy)


def _run(seq: Sequence, row: RunningRow, snapshot: StepSnapshot) -> None:
    seq.state = State.RUNNING
    seq.slot = row.slot
    seq.num_computed_tokens = row.num_computed_tokens
    seq.policy_version = snapshot.policy.version
    seq.first_scheduled_time = row.first_scheduled_time
    seq.first_token_time = row.first_token_time
    seq.last_token_time = None if row.first_token_time is None else snapshot.time
    seq.num_cached_tokens = row.num_cached_tokens
    seq.held, seq.end_reason = row.held, "length" if row.held else ""
    complete = row.num_output_tokens > 0 and seq.num_computed_tokens == seq.num_tokens - 1
    seq.decoding = complete and (row.request_id in snapshot.new_tokens or row.kind in ("decode", "idle", "padding"))
    if row.num_preemptions and not seq.decoding:
        seq.high_water = seq.num_tokens - 1


def _own(life: Lifecycle, seq: Sequence, row: RunningRow, shared: set[int]) -> None:
    """The row's blocks, and the allocator it must have been let in with."""
    pool, blocks = life.pool, row.block_ids
    alone = tuple([block for block in blocks if block not in shared])
    pool.take(seq.request_id, alone)
    pool.share(seq.request_id, tuple([block for block in blocks if block in shared]))
    seq.block_table = blocks
    seq.capacity = len(blocks) * pool.block_size
    whole = blocks == tuple(range(blocks[0], blocks[0] + len(blocks))) if blocks else False
    spare = len(blocks) > -(-seq.num_computed_tokens // pool.block_size)
    seq.allocation = "exact" if whole and spare and seq.capacity >= seq.max_total_tokens else "paged"


def _place_in_static_batch(running: list[Sequence], policy: SchedulerPolicy) -> None:
    """Rows of a static batch stand on prompts padded to the longest; those that show no position, with the rest."""
    if policy.batching != "static" or not running:
        return
    length = max(seq.num_prompt_tokens for seq in running)
    shown = {
        seq.request_id: length - seq.num_prompt_tokens + seq.num_computed_tokens
        for seq in running
        if seq.num_computed_tokens and not seq.held
    }
    furthest = max(shown.values(), default=0)
    for seq in running:
        seq.static_length, seq.static_position = length, shown.get(seq.request_id, furthest)


def _unseen(snapshot: StepSnapshot) -> list[WaitingRow]:
    """Rows in place of the waiting requests that the snapshot only counts, behind all that it shows."""
    shown = snapshot.waiting
    count = snapshot.num_waiting - len(shown)
    if count <= 0:
        return []
    tokens = snapshot.num_waiting_tokens - sum(shown.num_prompt_tokens) - sum(shown.num_output_tokens)
    known = (*shown.max_tokens, *snapshot.running.max_tokens)
    prompt, output = max(1, tokens // count), max(1, sum(known) // len(known) if known else 1)
    newest = max([*shown.arrival_time, *snapshot.running.arrival_time], default=snapshot.time)
    return [
        WaitingRow(f"unseen-{n + 1}", "waiting", 0, prompt, 0, output, newest, 0, 0, "", 0, 0, "") for n in range(count)
    ]


def _fill_waiting(
    life: Lifecycle, rows: list[WaitingRow], snapshot: StepSnapshot, stop_ids: frozenset[int], filler: int
) -> None:
    """Queue the rows in their order. Those evicted to the front have ranks below 0, as they had."""
    in_front = next((n for n, row in enumerate(rows) if row.status != "preempted"), len(rows))
    life._front_rank = -in_front
    behind = list(range(in_front, len(rows)))
    if snapshot.policy.admission_order != "fcfs":
        behind.sort(key=lambda n: rows[n].arrival_time)
    ranks = {n: n - in_front for n in range(in_front)}
    ranks |= {n: life._last_rank + 1 + place for place, n in enumerate(behind)}
    life._last_rank += len(behind)
    order = ORDERS[snapshot.policy.admission_order]
    before: tuple[Any, float] | None = None
    for n, row in enumerate(rows):
        seq = _sequence(row, ranks[n], stop_ids, filler)
        if row.status == "preempted":
            _evicted(life, seq, row, snapshot)
        key: Any = order.key(seq)
        if before is not None and snapshot.policy.admission_order == "priority" and key < before[0]:
            seq.order_time = math.nextafter(before[1], math.inf)  # it was evicted to the back, later than it arrived
            key = order.key(seq)
        before = (key, seq.order_time)
        life.live[seq.request_id] = seq
        life.waiting.put(seq)


def _evicted(life: Lifecycle, seq: Sequence, row: WaitingRow, snapshot: StepSnapshot) -> None:
    seq.state = State.PREEMPTED
    seq.preempted_at = snapshot.time
    seq.first_scheduled_time = seq.arrival_time
    if seq.num_output_tokens:
        seq.first_token_time = seq.last_token_time = snapshot.time
    if row.swapped_blocks:
        seq.host_block_ids = life.host.pool.allocate(seq.request_id, row.swapped_blocks)
        seq.swapped_blocks = row.swapped_blocks
        seq.num_computed_tokens = min(seq.num_tokens - 1, row.swapped_blocks * snapshot.block_size)
    seq.high_water = seq.num_computed_tokens + row.recompute_tokens
