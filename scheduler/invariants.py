"""The books, checked: cheap enough for every step of a test (goal R1), and for a dump when something broke."""

from __future__ import annotations

from scheduler.allocation import ALLOCATORS
from scheduler.block_pool import InvariantError
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
    scheduler.pool.check()
    running, waiting, live = scheduler.sequences()
    _check_lists(running, waiting, live)
    users: dict[int, list[str]] = {}
    for seq in live.values():
        _check_sequence(seq, scheduler.pool.block_size)
        _check_place(seq, scheduler.pool.num_blocks)
        for block in seq.block_table:
            users.setdefault(block, []).append(seq.request_id)
        _check_registered(scheduler, seq)
    for block, names in users.items():
        holders = scheduler.pool.holders(block)
        _require(sorted(names) == sorted(holders), f"block {block} is in the tables of {names}, held by {holders}")
    _require(
        len(users) == scheduler.pool.num_used_blocks,
        f"{len(users)} blocks in tables, {scheduler.pool.num_used_blocks} in use",
    )
    _check_host(scheduler, live)
    slots = [seq.slot for seq in running]
    _require(len(set(slots)) == len(slots), f"two running requests share a slot: {slots}")
    totals = scheduler.totals
    ended = totals.finished + totals.aborted + totals.rejected
    _require(
        totals.submitted == ended + len(running) + len(waiting),
        f"{totals.submitted} submitted, {ended} ended, {len(running)} running, {len(waiting)} waiting",
    )


def check_step(scheduler: Scheduler, step: ScheduleStep, *, running_before: int) -> None:
    """Raise InvariantError when a step, right after ``schedule``, breaks a limit of the policy in force.

    running_before: running requests before planning; above a lowered ``max_num_seqs`` the number may only fall.
    """
    policy = scheduler.policy
    planned = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
    _require(
        planned <= policy.max_num_batched_tokens, f"{planned} tokens planned, {policy.max_num_batched_tokens} allowed"
    )
    running, waiting, live = scheduler.sequences()
    allowed = max(policy.max_num_seqs, running_before)
    _require(len(running) <= allowed, f"{len(running)} running, {allowed} allowed")
    by_id = {seq.request_id: seq for seq in running}
    for request_id, count in step.num_scheduled_tokens.items():
        seq = by_id.get(request_id)
        _require(seq is not None, f"{request_id} is planned but does not run")
        assert seq is not None
        _require(count >= 1, f"{request_id} is planned with {count} tokens")
        _require(len(step.token_ids[request_id]) == count, f"{request_id} has {count} tokens but other token ids")
        _require(
            step.positions_start[request_id] + count == seq.num_computed_tokens, f"{request_id} has a gap in positions"
        )
        _require(step.block_tables[request_id] == seq.block_table, f"{request_id} is planned with another block table")
        samples = seq.num_computed_tokens == seq.num_tokens
        _require(samples == (request_id in step.sampling_ids), f"{request_id} samples at the wrong time")
    for request_id in step.preempted:
        gone = request_id not in live or live[request_id].state is State.PREEMPTED
        _require(gone and request_id not in step.num_scheduled_tokens, f"{request_id} is evicted and still planned")
    _check_moves(step, scheduler.pool.block_size)
    _require(len(set(step.preempted)) == len(step.preempted), "a request is evicted twice in a step")
    _require(not set(step.new) & set(step.resumed), "a request is new and resumed")
    _require(len(waiting) + len(running) == len(live), "a request is in no list")


def check_snapshot(snapshot: StepSnapshot) -> None:
    """Raise InvariantError when a snapshot contradicts itself (goals R2, R15)."""
    totals = snapshot.totals
    ended = totals.finished + totals.aborted + totals.rejected
    _require(
        totals.submitted == ended + snapshot.num_waiting + len(snapshot.running),
        f"step {snapshot.step_id}: {totals.submitted} submitted, {ended} ended, {snapshot.num_waiting} waiting, "
        f"{len(snapshot.running)} running",
    )
    _require(snapshot.num_used_blocks + snapshot.num_free_blocks == snapshot.num_blocks, "blocks used + free != all")
    _require(0.0 <= snapshot.kv_cache_usage <= 1.0, f"kv_cache_usage is {snapshot.kv_cache_usage}")
    used = {block for table in snapshot.running.block_ids for block in table}
    in_tables = len(used)
    _require(used.isdisjoint(snapshot.cached_block_ids), "a free block is in a table")
    _require(in_tables == snapshot.num_used_blocks, f"{in_tables} blocks in rows, {snapshot.num_used_blocks} in use")
    _require(
        sum(snapshot.waiting.swapped_blocks) <= snapshot.num_used_host_blocks <= snapshot.num_host_blocks,
        "host blocks of rows and in use differ",
    )
    _require(0 <= snapshot.filled_tokens <= snapshot.allocated_tokens, "more tokens filled than allocated")
    _check_memory(snapshot)
    _require(set(snapshot.running.request_id).isdisjoint(snapshot.waiting.request_id), "a request runs and waits")


def check_empty(scheduler: Scheduler) -> None:
    """Raise InvariantError unless everything has ended and nothing is kept (goal R4)."""
    check(scheduler)
    running, waiting, live = scheduler.sequences()
    _require(not running and not waiting and not live, "requests are left")
    for pool in (scheduler.pool, scheduler.host_pool):
        _require(pool.num_free_blocks == pool.num_blocks, "blocks are left")


def _check_lists(running: list[Sequence], waiting: list[Sequence], live: dict[str, Sequence]) -> None:
    ids = [seq.request_id for seq in running] + [seq.request_id for seq in waiting]
    _require(len(set(ids)) == len(ids), "a request is twice in the lists")
    _require(set(ids) == set(live), "lists and map of live requests differ")
    for seq in running:
        _require(seq.state is State.RUNNING, f"{seq.request_id} is in the running list as {seq.state.value}")
    for seq in waiting:
        _require(seq.state in (State.WAITING, State.PREEMPTED), f"{seq.request_id} waits as {seq.state.value}")
        _require(not seq.block_table, f"{seq.request_id} waits and owns blocks")
        _require(
            bool(seq.num_computed_tokens) == bool(seq.host_block_ids),
            f"{seq.request_id} waits with {seq.num_computed_tokens} computed tokens in {seq.host_block_ids}",
        )


def _check_registered(scheduler: Scheduler, seq: Sequence) -> None:
    """What the prefix cache knows of a request's blocks is what is in them."""
    pool = scheduler.pool
    full = seq.num_computed_tokens // pool.block_size
    _require(seq.num_registered <= full, f"{seq.request_id} offers {seq.num_registered} blocks, {full} are full")
    if not pool.cache:
        return
    size, own = pool.block_size, b""
    for index, block in enumerate(seq.block_table):
        own = block_digest(own, seq.token_ids[index * size : (index + 1) * size])
        known = pool.cache.digest(block)
        _require(known in (None, own), f"block {block} of {seq.request_id} is known for other tokens")


def _check_host(scheduler: Scheduler, live: dict[str, Sequence]) -> None:
    pool = scheduler.host_pool
    pool.check()
    used = 0
    for seq in live.values():
        used += len(seq.host_block_ids)
        for block in seq.host_block_ids:
            _require(pool.owner(block) == seq.request_id, f"host block {block} of {seq.request_id} has another owner")
    _require(used == pool.num_used_blocks, f"{used} host blocks in tables, {pool.num_used_blocks} in use")


def _check_moves(step: ScheduleStep, block_size: int) -> None:
    for move in step.swapped_out:
        _require(move.request_id in step.preempted, f"{move.request_id} is moved out and not evicted")
        _require(len(move.device_block_ids) == len(move.host_block_ids) > 0, f"{move.request_id} moves unequal blocks")
    for move in step.swapped_in:
        name, count = move.request_id, len(move.host_block_ids)
        _require(name in step.resumed, f"{name} is moved in and not resumed")
        _require(move.device_block_ids == step.block_tables[name][:count], f"{name} is moved in to other blocks")
        _require(count == -(-step.positions_start[name] // block_size), f"{name} is moved in with {count} blocks")


def _check_sequence(seq: Sequence, block_size: int) -> None:
    name = seq.request_id
    _require(
        0 <= seq.num_computed_tokens <= seq.num_tokens, f"{name} computed {seq.num_computed_tokens} of {seq.num_tokens}"
    )
    _require(
        seq.num_tokens == len(seq.token_ids), f"{name} has {len(seq.token_ids)} token ids, counts {seq.num_tokens}"
    )
    _require(seq.num_tokens == seq.num_prompt_tokens + seq.num_output_tokens, f"{name} has tokens of no kind")
    _require(seq.num_output_tokens <= seq.max_tokens, f"{name} has {seq.num_output_tokens} of {seq.max_tokens} tokens")
    room = len(seq.host_block_ids) * block_size if seq.host_block_ids else seq.capacity
    _require(seq.num_computed_tokens <= room, f"{name} computed more than its blocks hold")
    _require(not (seq.host_block_ids and seq.block_table), f"{name} has blocks in both pools")
    _require(seq.capacity == len(seq.block_table) * block_size, f"{name} has a wrong capacity")
    times = (seq.first_scheduled_time, seq.first_token_time, seq.last_token_time)
    known = [moment for moment in times if moment is not None]
    _require(known == sorted(known), f"{name} has times out of order: {times}")


def _check_place(seq: Sequence, num_blocks: int) -> None:
    """A contiguous allocator gave one run of consecutive ids, aligned as it says, for all tokens there may be."""
    name, table, running = seq.request_id, seq.block_table, seq.state is State.RUNNING
    if running and seq.allocation and not ALLOCATORS[seq.allocation].contiguous:
        return
    _require(running == bool(seq.allocation), f"{name} is {seq.state.value}, its allocator {seq.allocation!r}")
    if not running:
        return
    _require(table == tuple(range(table[0], table[0] + len(table))), f"{name} has blocks {table}, not one run")
    _require(table[-1] <= num_blocks, f"{name} has blocks {table}, the pool ends at {num_blocks}")
    step = ALLOCATORS[seq.allocation].alignment(len(table))
    _require((table[0] - 1) % step == 0, f"{name} begins at block {table[0]}, which is not aligned to {step}")
    _require(seq.capacity >= seq.max_total_tokens, f"{name} may need {seq.max_total_tokens} tokens of {seq.capacity}")


def _check_memory(snapshot: StepSnapshot) -> None:
    """The token slots add up, row by row, and what counts as unusable is free."""
    memory, size, rows = snapshot.memory, snapshot.block_size, snapshot.running
    tables = list(zip(rows.num_computed_tokens, rows.block_ids, strict=True))
    fills: dict[int, int] = {}
    for computed, blocks in tables:
        for index, block in enumerate(blocks):
            fills[block] = max(fills.get(block, 0), min(size, max(0, computed - index * size)))
    filled, empty = sum(fills.values()), sum(tokens == 0 for tokens in fills.values())
    _require(memory.filled == snapshot.filled_tokens == filled, f"{memory.filled} tokens filled, {filled} in blocks")
    _require(
        memory.filled + memory.reserved + memory.internal == snapshot.allocated_tokens, f"{memory} does not add up"
    )
    internal = sum(size - tokens for tokens in fills.values() if tokens)
    _require(memory.internal == internal, f"{memory.internal} internal, {internal} in last blocks")
    _require(memory.reserved == empty * size, f"{memory.reserved} reserved, {empty} blocks without a token")
    unusable = set(memory.unusable_block_ids)
    _require(memory.external == len(unusable) * size, f"{memory.external} external, {len(unusable)} blocks unusable")
    _require(len(unusable) == len(memory.unusable_block_ids) <= snapshot.num_free_blocks, "more unusable than free")
    _require(all(unusable.isdisjoint(blocks) for _, blocks in tables), "a block is owned and unusable")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(message)
