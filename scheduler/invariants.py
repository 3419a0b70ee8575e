"""The books, checked: cheap enough for every step of a test (goal R1), and for a dump when something broke."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

from scheduler.allocation import ALLOCATORS
from scheduler.block_pool import InvariantError, KVBlockPool
from scheduler.prefix_cache import block_digest
from scheduler.scheduler import Scheduler
from scheduler.sequence import Sequence, State
from scheduler.snapshot import StepSnapshot
from scheduler.step import ScheduleStep


def check(scheduler: Scheduler) -> None:
    """Raise InvariantError when the scheduler's state contradicts itself.

    Blocks are free or owned once, and owned by running requests only, each just large enough for its table; every
    live request is in exactly one list; counts and times are in order; the request totals add up (goal R2).
    """
    running, waiting, live = scheduler.sequences()
    pool, host = scheduler.pool, scheduler.host_pool
    _check_lists(running, waiting, live)
    for seq in live.values():
        _check_sequence(seq, pool.block_size)
    for seq in running:
        _check_place(seq, pool.num_blocks)
        _check_registered(pool, seq)
    _check_owners(pool, [(seq.request_id, seq.block_table) for seq in running])
    _check_owners(host, [(seq.request_id, seq.host_block_ids) for seq in waiting if seq.host_block_ids])
    slots = [seq.slot for seq in running]
    _require(len(set(slots)) == len(slots), "two running requests share a slot: {}", slots)
    totals = scheduler.totals
    ended = totals.finished + totals.aborted + totals.rejected
    _require(
        totals.submitted == ended + len(running) + len(waiting),
        "{} submitted, {} ended, {} running, {} waiting",
        totals.submitted,
        ended,
        len(running),
        len(waiting),
    )


def check_step(scheduler: Scheduler, step: ScheduleStep, *, running_before: int) -> None:
    """Raise InvariantError when a step, right after ``schedule``, breaks a limit of the policy in force.

    running_before: running requests before planning; above a lowered ``max_num_seqs`` the number may only fall.
    """
    policy = scheduler.policy
    planned = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
    _require(planned <= policy.max_num_batched_tokens, "{} tokens planned: more than {}", planned, policy)
    counts = (*step.num_scheduled_tokens.values(), *step.num_padding_tokens.values())
    _require(all(count > 0 for count in counts), "a count that is not above 0: {}", step)
    running, waiting, live = scheduler.sequences()
    allowed = max(policy.max_num_seqs, running_before)
    _require(len(running) <= allowed, "{} running, {} allowed", len(running), allowed)
    for request_id, count in step.num_scheduled_tokens.items():
        seq = live.get(request_id)
        if seq is None or seq.state is not State.RUNNING:
            raise InvariantError(f"{request_id} is planned but does not run")
        _check_planned(step, seq, count)
    for request_id in step.preempted:
        gone = request_id not in live or live[request_id].state is State.PREEMPTED
        _require(gone and request_id not in step.num_scheduled_tokens, "{} is evicted and still planned", request_id)
    _check_moves(step, scheduler.pool.block_size)
    _require(len(set(step.preempted)) == len(step.preempted), "a request is evicted twice in a step")
    _require(not set(step.new) & set(step.resumed), "a request is new and resumed")
    _require(len(waiting) + len(running) == len(live), "a request is in no list")


def check_snapshot(snapshot: StepSnapshot) -> None:
    """Raise InvariantError when a snapshot contradicts itself (goals R2, R15)."""
    totals, rows = snapshot.totals, snapshot.running
    ended = totals.finished + totals.aborted + totals.rejected
    _require(
        totals.submitted == ended + snapshot.num_waiting + len(rows),
        "step {}: {} submitted, {} ended, {} waiting, {} running",
        snapshot.step_id,
        totals.submitted,
        ended,
        snapshot.num_waiting,
        len(rows),
    )
    used, free, total = snapshot.num_used_blocks, snapshot.num_free_blocks, snapshot.num_blocks
    _require(used + free == total, "{} blocks used, {} free, {} in the pool", used, free, total)
    _require(0.0 <= snapshot.kv_cache_usage <= 1.0, "kv_cache_usage is {}", snapshot.kv_cache_usage)
    in_tables = set(chain.from_iterable(rows.block_ids))
    _require(in_tables.isdisjoint(snapshot.cached_block_ids), "a free block is in a table")
    _require(len(in_tables) == used, "{} blocks in rows, {} in use", len(in_tables), used)
    _require(
        sum(snapshot.waiting.swapped_blocks) <= snapshot.num_used_host_blocks <= snapshot.num_host_blocks,
        "host blocks of rows and in use differ",
    )
    _require(0 <= snapshot.filled_tokens <= snapshot.allocated_tokens, "more tokens filled than allocated")
    _check_memory(snapshot, in_tables)
    _require(set(rows.request_id).isdisjoint(snapshot.waiting.request_id), "a request runs and waits")


def check_empty(scheduler: Scheduler) -> None:
    """Raise InvariantError unless everything has ended and nothing is kept (goal R4)."""
    check(scheduler)
    running, waiting, live = scheduler.sequences()
    _require(not running and not waiting and not live, "requests are left")
    for pool in (scheduler.pool, scheduler.host_pool):
        _require(pool.num_free_blocks == pool.num_blocks, "blocks are left")


def _check_lists(running: list[Sequence], waiting: list[Sequence], live: dict[str, Sequence]) -> None:
    listed = {seq.request_id: seq for seq in chain(running, waiting)}
    _require(len(listed) == len(running) + len(waiting), "a request is twice in the lists")
    _require(listed == live, "lists and map of live requests differ")
    for seq in running:
        _require(seq.state is State.RUNNING, "{} is in the running list as {}", seq.request_id, seq.state)
        _require(not seq.host_block_ids, "{} runs and has host blocks {}", seq.request_id, seq.host_block_ids)
    for seq in waiting:
        name, swapped = seq.request_id, bool(seq.host_block_ids)
        _require(seq.state in (State.WAITING, State.PREEMPTED), "{} waits as {}", name, seq.state)
        _require(not seq.block_table and not seq.allocation, "{} waits and owns blocks by {}", name, seq.allocation)
        _require(swapped == (seq.num_computed_tokens > 0), "{} waits, its computed tokens are nowhere", name)


def _check_owners(pool: KVBlockPool, tables: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Who has a block in its table holds it, and nobody else does.

    Pairs of request and block, none of them twice: those in tables are among those of the pool, and as many.
    """
    pool.check()
    num_pairs = 0
    for name, table in tables:
        num_pairs += len(table)
        _require(len(set(table)) == len(table), "{} has a block twice: {}", name, table)
        _require(pool.is_held_by(name, table), "{} has blocks {}, of which others are the owners", name, table)
    held = pool.num_used_blocks + sum([len(holders) - 1 for holders in pool.shared.values()])
    _require(num_pairs == held, "{} blocks in tables, {} in use", num_pairs, held)


def _check_registered(pool: KVBlockPool, seq: Sequence) -> None:
    """What the prefix cache knows of a request's blocks is what is in them."""
    size, own = pool.block_size, b""
    full = seq.num_computed_tokens // size
    _require(seq.num_registered <= full, "{} offers {} blocks, {} are full", seq.request_id, seq.num_registered, full)
    if not pool.cache:
        return
    for index, block in enumerate(seq.block_table):
        own = block_digest(own, seq.token_ids[index * size : (index + 1) * size])
        known = pool.cache.digest(block)
        _require(known in (None, own), "block {} of {} is known for other tokens", block, seq.request_id)


def _check_planned(step: ScheduleStep, seq: Sequence, count: int) -> None:
    """A row of the step is about the tokens just counted as computed, and says what the scheduler knows."""
    name = seq.request_id
    _require(count >= 1, "{} is planned with {} tokens", name, count)
    _require(len(step.token_ids[name]) == count, "{} has {} tokens but other token ids", name, count)
    _require(step.positions_start[name] + count == seq.num_computed_tokens, "{} has a gap in positions", name)
    _require(step.block_tables[name] == seq.block_table, "{} is planned with another block table", name)
    samples = seq.num_computed_tokens == seq.num_tokens
    _require(samples == (name in step.sampling_ids), "{} samples at the wrong time", name)


def _check_moves(step: ScheduleStep, block_size: int) -> None:
    for move in step.swapped_out:
        _require(move.request_id in step.preempted, "{} is moved out and not evicted", move.request_id)
        equal = len(move.device_block_ids) == len(move.host_block_ids) > 0
        _require(equal, "{} moves unequal blocks", move.request_id)
    for move in step.swapped_in:
        name, count = move.request_id, len(move.host_block_ids)
        _require(name in step.resumed, "{} is moved in and not resumed", name)
        _require(move.device_block_ids == step.block_tables[name][:count], "{} is moved in to other blocks", name)
        whole = count == -(-step.positions_start[name] // block_size)
        _require(whole, "{} is moved in with {} blocks", name, count)


def _check_sequence(seq: Sequence, block_size: int) -> None:
    name, known, made, computed = seq.request_id, seq.num_tokens, seq.num_output_tokens, seq.num_computed_tokens
    _require(0 <= computed <= known == len(seq.token_ids), "{} computed {} of {} tokens", name, computed, known)
    _require(known == seq.num_prompt_tokens + made, "{} has tokens of no kind", name)
    _require(made <= seq.max_tokens, "{} has {} of {} tokens", name, made, seq.max_tokens)
    room = len(seq.host_block_ids) * block_size or seq.capacity
    _require(computed <= room, "{} computed more than its blocks hold", name)
    _require(seq.capacity == len(seq.block_table) * block_size, "{} has a wrong capacity", name)
    first_scheduled, first, last = seq.first_scheduled_time, seq.first_token_time, seq.last_token_time
    if first_scheduled is None or first is None or last is None:
        in_order = last is None and (first is None or first_scheduled is not None)
    else:
        in_order = first_scheduled <= first <= last
    _require(in_order, "{} has times out of order: {}, {}, {}", name, first_scheduled, first, last)


def _check_place(seq: Sequence, num_blocks: int) -> None:
    """A contiguous allocator gave one run of consecutive ids, aligned as it says, for all tokens there may be."""
    name, table = seq.request_id, seq.block_table
    _require(bool(seq.allocation), "{} runs without an allocator", name)
    allocator = ALLOCATORS[seq.allocation]
    if not allocator.contiguous:
        return
    _require(table == tuple(range(table[0], table[0] + len(table))), "{} has blocks {}, not one run", name, table)
    _require(table[-1] <= num_blocks, "{} has blocks {}, the pool ends at {}", name, table, num_blocks)
    step = allocator.alignment(len(table))
    _require((table[0] - 1) % step == 0, "{} begins at block {}, not aligned to {}", name, table[0], step)
    _require(seq.capacity >= seq.max_total_tokens, "{} may need {} tokens", name, seq.max_total_tokens)


def _check_memory(snapshot: StepSnapshot, in_tables: set[int]) -> None:
    """The token slots add up, block by block, and what counts as unusable is free."""
    memory, size, rows = snapshot.memory, snapshot.block_size, snapshot.running
    fills: dict[int, int] = {}
    for computed, blocks in zip(rows.num_computed_tokens, rows.block_ids, strict=True):
        full, rest = divmod(computed, size)
        row = dict(zip(blocks, chain(repeat(size, full), (rest,), repeat(0)), strict=False))
        for block in fills.keys() & row.keys():
            row[block] = max(row[block], fills[block])
        fills.update(row)
    tokens = list(fills.values())
    filled, empty = sum(tokens), tokens.count(0)
    internal = (len(tokens) - empty) * size - filled
    _require(memory.filled == snapshot.filled_tokens == filled, "{} filled, {} in blocks", memory.filled, filled)
    _require(memory.internal == internal, "{} internal, {} in last blocks", memory.internal, internal)
    _require(memory.reserved == empty * size, "{} reserved, {} blocks without a token", memory.reserved, empty)
    _require(filled + memory.reserved + internal == snapshot.allocated_tokens, "{} does not add up", memory)
    unusable = set(memory.unusable_block_ids)
    _require(memory.external == len(unusable) * size, "{} external, {} blocks", memory.external, len(unusable))
    _require(len(unusable) == len(memory.unusable_block_ids) <= snapshot.num_free_blocks, "more unusable than free")
    _require(unusable.isdisjoint(in_tables), "a block is owned and unusable")


def _require(condition: bool, text: str, *values: object) -> None:
    """Raise unless the condition holds; the text is put together only then, since nearly always it is not needed."""
    if not condition:
        raise InvariantError(text.format(*values))
