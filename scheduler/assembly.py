"""From a finished draft to the step the runner executes, and back from its result to tokens."""

from __future__ import annotations

from scheduler.chunking import cut_reason
from scheduler.lifecycle import Lifecycle
from scheduler.plan import Draft
from scheduler.sequence import Sequence, State
from scheduler.sharing import register_full_blocks
from scheduler.step import ScheduleStep, StepResult


class Rows:
    """The per-request mappings of a step while they are filled, all in schedule order."""

    __slots__ = ("kinds", "sampling", "starts", "tables", "token_ids")

    def __init__(self) -> None:
        self.token_ids: dict[str, tuple[int, ...]] = {}
        self.starts: dict[str, int] = {}
        self.tables: dict[str, tuple[int, ...]] = {}
        self.kinds: dict[str, str] = {}
        self.sampling: list[str] = []


def assemble(
    draft: Draft, life: Lifecycle, step_id: int, now: float, new: list[Sequence], resumed: list[Sequence]
) -> ScheduleStep:
    """Count the planned tokens as computed, right after planning, and describe them for the runner."""
    ids = [seq.request_id for seq in life.running] if life.num_decoding == len(draft.tokens) else []
    all_decode = bool(ids) and ids == list(draft.tokens) and draft.view.policy.batching == "continuous"
    rows = _decodes(life, ids) if all_decode else _rows(draft, life, now)
    swapped_out, swapped_in = life.host.drain()
    if draft.view.policy.enable_prefix_caching:
        register_full_blocks([life.live[request_id] for request_id in draft.tokens], life.pool)
    return ScheduleStep(
        step_id=step_id,
        policy_version=draft.view.policy.version,
        time=now,
        num_scheduled_tokens=draft.tokens,
        num_padding_tokens=draft.padding,
        kinds=rows.kinds,
        token_ids=rows.token_ids,
        positions_start=rows.starts,
        block_tables=rows.tables,
        sampling_ids=tuple(rows.sampling),
        new=tuple([seq.request_id for seq in new]),
        resumed=tuple([seq.request_id for seq in resumed]),
        preempted=tuple(draft.evicted),
        swapped_out=swapped_out,
        swapped_in=swapped_in,
        finished=life.ended.drain_for_step(),
        new_requests=tuple([seq.request for seq in new]),
    )


def _decodes(life: Lifecycle, ids: list[str]) -> Rows:
    """The rows of a step in which every running request decodes, in their order: whole columns at a time."""
    rows, running = Rows(), life.running
    rows.token_ids = dict(zip(ids, [(seq.token_ids[-1],) for seq in running], strict=True))
    rows.starts = dict(zip(ids, [seq.num_computed_tokens for seq in running], strict=True))
    rows.tables = dict(zip(ids, [seq.block_table for seq in running], strict=True))
    rows.kinds = dict.fromkeys(ids, "decode")
    rows.sampling = ids
    for seq in running:
        seq.num_computed_tokens += 1
    life.books.decode_tokens += len(ids)
    return rows


def _rows(draft: Draft, life: Lifecycle, now: float) -> Rows:
    rows, live = Rows(), life.live
    token_ids, starts, tables, kinds = rows.token_ids, rows.starts, rows.tables, rows.kinds
    sampled = rows.sampling.append
    num_decodes = 0
    for request_id, count in draft.tokens.items():
        seq = live[request_id]
        tables[request_id] = seq.block_table
        starts[request_id] = start = seq.num_computed_tokens
        if seq.decoding:
            token_ids[request_id] = (seq.token_ids[-1],)
            kinds[request_id] = "decode"
            seq.num_computed_tokens = start + 1
            sampled(request_id)
            num_decodes += 1
            if seq.static_length:
                seq.static_position += 1
        else:
            _chunk(draft, life, now, seq, count, rows)
    life.books.decode_tokens += num_decodes
    for request_id, count in draft.padding.items():
        _pad(life, live[request_id], count, rows)
    return rows


def _chunk(draft: Draft, life: Lifecycle, now: float, seq: Sequence, count: int, rows: Rows) -> None:
    """One row that is no plain decode: a prompt, a piece of one, or tokens computed before an eviction."""
    start = seq.num_computed_tokens
    end = start + count
    life.resumes.recomputed(seq, start, end)
    rows.token_ids[seq.request_id] = tuple(seq.token_ids[start:end])
    rows.kinds[seq.request_id] = life.books.count_computed(seq, start, count)
    seq.num_computed_tokens = end
    if end == seq.num_tokens:
        rows.sampling.append(seq.request_id)
    elif not seq.static_length:
        life.log.add(
            "chunked",
            seq.request_id,
            now,
            cut_reason(draft.view, count),
            num_scheduled_tokens=count,
            num_tokens_left=seq.num_tokens - end,
        )
    if seq.static_length:
        seq.static_position += count


def _pad(life: Lifecycle, seq: Sequence, count: int, rows: Rows) -> None:
    life.books.padding_tokens += count
    seq.padding_tokens += count
    seq.static_position += count
    if seq.request_id not in rows.kinds:
        rows.starts[seq.request_id] = seq.num_computed_tokens
        rows.tables[seq.request_id] = seq.block_table
        rows.kinds[seq.request_id] = "padding"


def deliver(step: ScheduleStep, result: StepResult, life: Lifecycle, now: float) -> dict[str, int]:
    """Append the sampled tokens, and end (or hold) what is complete. Returns the tokens delivered.

    A token whose request ended meanwhile is dropped; a row without a token is planned again.
    """
    live, sampled = life.live, result.sampled
    delivered: dict[str, int] = {}
    complete: list[tuple[Sequence, str]] = []
    for request_id in step.sampling_ids:
        seq = live.get(request_id)
        token = sampled.get(request_id)
        if seq is None or token is None or seq.num_computed_tokens != seq.num_tokens:
            if seq is not None:
                undo(seq, step, life)
            continue
        delivered[request_id] = token
        seq.token_ids.append(token)
        seq.num_tokens += 1
        seq.num_output_tokens = made = seq.num_output_tokens + 1
        seq.last_token_time = now
        if not seq.decoding:
            _first_of_a_run(seq, life, now)
        if made >= seq.max_tokens:
            complete.append((seq, "length"))
        elif token in seq.stop_ids and made >= seq.min_tokens:
            complete.append((seq, "stop"))
    life.books.output_tokens += len(delivered)
    for seq, reason in complete:
        if seq.static_length:
            life.hold(seq, reason)
        else:
            life.end(seq, "finished", reason, now)
    return delivered


def _first_of_a_run(seq: Sequence, life: Lifecycle, now: float) -> None:
    """The first token since admission: from here on the request decodes, one token a step."""
    seq.decoding = True
    life.num_decoding += 1
    seq.fruitless_evictions = 0
    if seq.first_token_time is None:
        seq.first_token_time = now
        life.members_changed = True


def undo(seq: Sequence, step: ScheduleStep, life: Lifecycle) -> None:
    """Count a row's tokens of a step as not computed, because its result never came. They are recomputed."""
    start = step.positions_start.get(seq.request_id)
    if start is None or seq.state is not State.RUNNING:
        return
    seq.high_water = max(seq.high_water, seq.num_computed_tokens)
    life.num_decoding -= seq.decoding
    seq.decoding = False
    seq.num_computed_tokens = start
    life.note_reserving(seq)
    forget_filled(step, seq.request_id, life)
    seq.num_registered = min(seq.num_registered, start // life.pool.block_size)
    if seq.static_length:
        done = step.num_scheduled_tokens.get(seq.request_id, 0) + step.num_padding_tokens.get(seq.request_id, 0)
        seq.static_position -= done


def forget_filled(step: ScheduleStep, request_id: str, life: Lifecycle) -> tuple[int, ...]:
    """Take the blocks that a row of a lost step should have filled out of the prefix cache; returns them."""
    size, start = life.pool.block_size, step.positions_start[request_id]
    end = start + step.num_scheduled_tokens.get(request_id, 0)
    return _forget(step.block_tables[request_id][start // size : end // size], life)


def _forget(blocks: tuple[int, ...], life: Lifecycle) -> tuple[int, ...]:
    for block in blocks:
        life.pool.cache.forget(block)
    return blocks


def give_up(step: ScheduleStep, life: Lifecycle) -> None:
    """Count a whole step as not computed, because its result never came; nothing that it filled or moved is trusted."""
    lost: set[int] = set()
    for request_id in step.positions_start:
        lost.update(forget_filled(step, request_id, life))
        seq = life.live.get(request_id)
        if seq is not None:
            undo(seq, step, life)
    for move in step.swapped_in:
        lost.update(_forget(move.device_block_ids, life))
    for move in (*step.swapped_out, *step.swapped_in):
        seq = life.live.get(move.request_id)
        if seq is not None:
            life.lose_copy(seq)
    if lost:
        for request_id in step.positions_start:
            seq = life.live.get(request_id)
            if seq is not None:
                _step_back(seq, lost, life)


def _step_back(seq: Sequence, lost: set[int], life: Lifecycle) -> None:
    """Begin before the first block that another row of a lost step should have filled."""
    index = next((index for index, block in enumerate(seq.block_table) if block in lost), len(seq.block_table))
    start = min(seq.num_computed_tokens, index * life.pool.block_size)
    if seq.static_position < seq.static_length:  # among the prompts, place and computed tokens go together
        seq.static_position -= seq.num_computed_tokens - start
    seq.num_computed_tokens = start
    seq.num_registered = min(seq.num_registered, index)
