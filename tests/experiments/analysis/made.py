"""Runs written down by hand, and the record of a simulated schedule, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.record import Conditions, RequestRow, Run, StepRow
from experiments.trace import TraceOrigin
from scheduler import SchedulerPolicy
from scheduler.simulate import Simulation
from scheduler.snapshot import Totals
from scheduler.workload import WorkloadRequest

CONDITIONS = Conditions("measured", "toy", "float32", "cpu", 1, 8, 16, 64, 0, 0, "2 requests")
ORIGIN = TraceOrigin("generated", "by hand")


def row(request_id: str, due: float, tokens: Sequence[float], **changes: Any) -> RequestRow:
    """A request that finished with its last token; the first schedule is its due time unless told otherwise."""
    fields: dict[str, Any] = {
        "request_id": request_id,
        "prompt_len": 4,
        "output_len": len(tokens),
        "num_output_tokens": len(tokens),
        "priority": 0,
        "outcome": "finished",
        "reason": "length",
        "due_s": due,
        "first_scheduled_s": due,
        "last_scheduled_s": changes.get("first_scheduled_s", due),
        "token_times_s": tuple(map(float, tokens)),
        "end_s": tokens[-1] if len(tokens) else None,
    }
    return RequestRow(**(fields | changes))


def run(requests: Sequence[RequestRow], wall_s: float | None = None, **changes: Any) -> Run:
    """A run of these requests that ends with its last token."""
    last = max((max(each.token_times_s, default=0.0) for each in requests), default=0.0)
    fields: dict[str, Any] = {
        "label": "a",
        "repeat": 0,
        "position": 0,
        "policy": SchedulerPolicy(),
        "trace_name": "t",
        "trace_sha256": "0",
        "trace_origin": ORIGIN,
        "conditions": CONDITIONS,
        "requests": tuple(requests),
        "steps": (),
        "events": (),
        "totals": Totals(),
        "wall_s": last if wall_s is None else wall_s,
        "cpu_s": 0.0,
    }
    return Run(**(fields | changes))


def simulated(policy: SchedulerPolicy, requests: Sequence[WorkloadRequest], label: str = "a", **sizes: int) -> Run:
    """The record of a schedule in which every step takes one second."""
    simulation = Simulation(policy, requests, **sizes)  # type: ignore[arg-type]
    tokens: dict[str, list[float]] = {each.request_id: [] for each in requests}
    steps: list[StepRow] = []
    events: list[Any] = []
    before, totals = Totals(), Totals()
    rows: dict[str, Any] = {}
    for planned, snapshot in simulation.run():
        step, start, totals = planned.step, float(len(steps)), snapshot.totals
        for request_id in snapshot.new_tokens:
            tokens[request_id].append(start + 1)
        events.extend(snapshot.events)
        rows |= {record.request_id: record for record in snapshot.records}
        memory = planned.memory
        steps.append(
            StepRow(
                step.step_id,
                start,
                start + 1,
                tuple((name, count, step.kinds[name]) for name, count in step.num_scheduled_tokens.items()),
                totals.prefill_tokens - before.prefill_tokens,
                totals.decode_tokens - before.decode_tokens,
                totals.recompute_tokens - before.recompute_tokens,
                totals.padding_tokens - before.padding_tokens,
                totals.idle_slot_steps - before.idle_slot_steps,
                0,
                len(planned.running),
                len(planned.waiting),
                planned.used_blocks,
                memory.filled,
                memory.reserved,
                memory.internal,
                memory.external,
                preempted=tuple(step.preempted),
                swapped_out_blocks=totals.swapped_out_blocks - before.swapped_out_blocks,
                swapped_in_blocks=totals.swapped_in_blocks - before.swapped_in_blocks,
                execute_s=1.0,
            )
        )
        before = totals
    made = []
    for each in requests:
        record = rows[each.request_id]
        last = [e.time for e in events if e.request_id == each.request_id and e.kind in ("admitted", "resumed")]
        made.append(
            row(
                each.request_id,
                float(each.arrival_step),
                tokens[each.request_id],
                prompt_len=each.prompt_len,
                output_len=each.output_len,
                outcome=record.outcome,
                first_scheduled_s=record.first_scheduled_time,
                last_scheduled_s=last[-1] if last else None,
                end_s=record.end_time,
                num_preemptions=record.num_preemptions,
                preempted_s=record.preempted_s,
                recompute_tokens=record.recompute_tokens,
                padding_tokens=record.padding_tokens,
            )
        )
    sized = {name: sizes[name] for name in ("num_blocks", "block_size", "max_model_len")}
    conditions = replace(CONDITIONS, kind="simulated", **sized)
    return run(
        made,
        float(len(steps)),
        conditions=conditions,
        label=label,
        policy=policy,
        steps=tuple(steps),
        events=tuple(events),
        totals=totals,
    )
