"""How much there was to compute in a step: what every cost model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from experiments.record import StepRow
from scheduler import ScheduleStep, StepSnapshot


class StepWork(NamedTuple):
    """The work of one step, in tokens.

    prefill, decode, recompute, padding: tokens computed, by kind. context: KV positions that attention reads, summed
    over rows (position after the step). rows: requests with real tokens. pairs: query-key pairs of the rows that are
    no plain decode (a chunk of n tokens that ends at position p has n * (2p - n + 1) / 2). moved_blocks: KV blocks
    copied to or from the host pool.
    """

    prefill: int = 0
    decode: int = 0
    recompute: int = 0
    padding: int = 0
    context: int = 0
    rows: int = 0
    pairs: int = 0
    moved_blocks: int = 0

    @property
    def tokens(self) -> int:
        """All tokens of the forward pass."""
        return self.prefill + self.decode + self.recompute + self.padding


def pairs_of(tokens: int, end: int) -> int:
    """Query-key pairs of ``tokens`` causal queries of which the last stands at position ``end``, counted from 1."""
    return tokens * (2 * end - tokens + 1) // 2


def decode_work(rows: int, context: int) -> StepWork:
    """A step in which ``rows`` requests decode one token each and read ``context`` positions together."""
    return StepWork(decode=rows, context=context, rows=rows)


def work_of_step(step: ScheduleStep) -> StepWork:
    """The work of a planned step. A recompute row that ends with a new token counts as recompute whole."""
    tokens, kinds, starts = step.num_scheduled_tokens, step.kinds, step.positions_start
    counts = {"prefill": 0, "recompute": 0}
    pairs = 0
    chunks = [(name, kind) for name, kind in kinds.items() if kind != "decode" and kind != "padding"]
    for name, kind in chunks:
        counts[kind] += tokens[name]
        pairs += pairs_of(tokens[name], starts[name] + tokens[name])
    return StepWork(
        **counts,
        decode=len(tokens) - len(chunks),
        padding=sum(step.num_padding_tokens.values()),
        context=sum([starts[name] for name in tokens]) + sum(tokens.values()),
        rows=len(tokens),
        pairs=pairs,
        moved_blocks=sum(len(move.host_block_ids) for move in (*step.swapped_out, *step.swapped_in)),
    )


def work_of_snapshot(snapshot: StepSnapshot) -> StepWork:
    """The work of the step that a snapshot describes."""
    ends = dict(zip(snapshot.running.request_id, snapshot.running.num_computed_tokens, strict=True))
    for record in snapshot.records:  # the last sampled token was not computed
        ends.setdefault(record.request_id, record.num_prompt_tokens + record.num_output_tokens - 1)
    counts = {"prefill": 0, "decode": 0, "recompute": 0}
    context = pairs = 0
    for request_id, tokens in snapshot.num_scheduled_tokens.items():
        kind = snapshot.kinds.get(request_id, "decode")
        end = max(tokens, ends.get(request_id, tokens))
        counts[kind if kind in counts else "prefill"] += tokens
        context += end
        if kind != "decode":
            pairs += pairs_of(tokens, end)
    return StepWork(
        **counts,
        padding=sum(snapshot.num_padding_tokens.values()),
        context=context,
        rows=len(snapshot.num_scheduled_tokens),
        pairs=pairs,
        moved_blocks=sum(len(move.host_block_ids) for move in (*snapshot.swapped_out, *snapshot.swapped_in)),
    )


def works_of_rows(steps: Sequence[StepRow]) -> list[StepWork]:
    """The work of each step of a run.

    Positions are counted up from the schedule. What ``context_tokens`` says beyond that count was found in the prefix
    cache or came back from the host pool, and is given to the rows that are not decodes. Positions of padding, which
    a step of static batching reads too, are not counted, here and elsewhere in this file.
    """
    ends: dict[str, int] = {}
    found = []
    for row in steps:
        for request_id in row.preempted:
            ends.pop(request_id, None)
        real = [(name, tokens, kind) for name, tokens, kind in row.scheduled if kind != "padding"]
        for name, tokens, _ in real:
            ends[name] = ends.get(name, 0) + tokens
        chunks = [(name, tokens) for name, tokens, kind in real if kind != "decode"]
        context = sum(ends[name] for name, _, _ in real)
        if not row.padding_tokens and row.context_tokens > context:
            for name, _ in chunks:
                ends[name] += (row.context_tokens - context) // len(chunks)
            context = row.context_tokens
        found.append(
            StepWork(
                row.prefill_tokens,
                row.decode_tokens,
                row.recompute_tokens,
                row.padding_tokens,
                context,
                len(real),
                sum(pairs_of(tokens, ends[name]) for name, tokens in chunks),
                row.swapped_out_blocks + row.swapped_in_blocks,
            )
        )
    return found
