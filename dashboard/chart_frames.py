"""What the charts show, as tables for files: one function a chart. Pure.

Column names carry their units and stay English in every language: they are what a program reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dashboard.history import KINDS, StepFacts
from scheduler import StepSnapshot
from scheduler.blame_life import Life


def queue_frame(step: StepSnapshot) -> pd.DataFrame:
    """One row a waiting request, the head of the queue first."""
    rows = [
        {
            "place": place,
            "request_id": row.request_id,
            "status": row.status,
            "priority": row.priority,
            "prompt_tokens": row.num_prompt_tokens,
            "output_tokens": row.num_output_tokens,
            "waited_s": round(max(0.0, step.time - row.arrival_time), 6),
            "reason": row.reason,
            "needed_blocks": row.needed_blocks,
            "free_blocks": row.free_blocks,
            "blocked_by": row.blocked_by,
        }
        for place, row in enumerate(step.waiting, 1)
    ]
    return pd.DataFrame(rows) if rows else pd.DataFrame({"place": [], "request_id": []})


def running_frame(step: StepSnapshot) -> pd.DataFrame:
    """One row a running request, in the order of the lanes."""
    rows = [
        {
            "slot": row.slot,
            "request_id": row.request_id,
            "kind": row.kind,
            "scheduled_tokens": row.num_scheduled_tokens,
            "padding_tokens": row.num_padding_tokens,
            "prompt_tokens": row.num_prompt_tokens,
            "computed_tokens": row.num_computed_tokens,
            "output_tokens": row.num_output_tokens,
            "max_output_tokens": row.max_tokens,
            "blocks": len(row.block_ids),
            "preemptions": row.num_preemptions,
        }
        for row in sorted(step.running, key=lambda row: row.slot)
    ]
    return pd.DataFrame(rows) if rows else pd.DataFrame({"slot": [], "request_id": []})


def blocks_frame(step: StepSnapshot) -> pd.DataFrame:
    """One row a block and request that uses it. filled_tokens: of its ``block_size`` token slots."""
    table, size = step.running, step.block_size
    rows = [
        (block_id, request_id, place, max(0, min(size, computed - place * size)), size)
        for request_id, computed, block_ids in zip(
            table.request_id, table.num_computed_tokens, table.block_ids, strict=True
        )
        for place, block_id in enumerate(block_ids)
    ]
    names = ["block_id", "request_id", "place_in_request", "filled_tokens", "block_size_tokens"]
    return pd.DataFrame(sorted(rows), columns=names)


def lanes_frame(facts: Sequence[StepFacts]) -> pd.DataFrame:
    """One row an iteration and lane: what the request in it did."""
    rows = [
        (f.step_id, round(f.engine_time, 6), c.slot, c.request_id, KINDS[c.kind], c.tokens, c.padding, f.run_id)
        for f in facts
        for c in f.cells
    ]
    names = ("iteration", "engine_time_s", "slot", "request_id", "kind", "tokens", "padding_tokens", "run_id")
    return pd.DataFrame(rows, columns=list(names))


def series_frame(facts: Sequence[StepFacts]) -> pd.DataFrame:
    """One row an iteration: the lines of budget, requests and memory."""
    return pd.DataFrame(
        [
            {
                "iteration": f.step_id,
                "engine_time_s": round(f.engine_time, 6),
                **{f"{name}_tokens": count for name, count in f.tokens.items()},
                "budget_tokens": f.budget,
                "delivered_tokens": f.output_tokens,
                "running_requests": f.running,
                "waiting_requests": f.waiting,
                "preemptions": f.preemptions,
                "used_blocks": f.used_blocks,
                "usable_blocks": min(f.block_limit, f.num_blocks),
                "internal_waste_token_slots": f.internal,
                "reserved_token_slots": f.reserved,
                "external_waste_token_slots": f.external,
                "run_id": f.run_id,
            }
            for f in facts
        ]
    )


def life_frame(life: Life | None) -> pd.DataFrame:
    """One row a stretch of a life that has one cause; they follow upon each other and add up to all of it."""
    names = ["request_id", "from_ms", "until_ms", "cause", "iteration", "in_the_way", "tokens", "reason"]
    if life is None:
        return pd.DataFrame(columns=names)
    rows = [
        (
            life.request_id, (part.start - life.arrival) / 1e6, (part.end - life.arrival) / 1e6, part.cause,
            part.step_id or None, part.request_id, part.tokens, part.reason,
        )
        for part in life.parts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=names)
