"""What one run of a trace leaves behind, measured or simulated: the one type that all analyses, cards and exports read.

All times are seconds since the run began, on one clock. Everything is frozen; msgspec writes it as JSON and reads the
same values back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from experiments.trace import TraceOrigin
from scheduler import SchedulerPolicy, StepEvent
from scheduler.snapshot import Totals


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The life of one request. None = never.

    output_len: tokens asked for; num_output_tokens: tokens delivered. outcome: "finished", "rejected" or "unfinished".
    due_s: when the trace says it arrives: every latency counts from here, also where the driver was busy in a step
    (otherwise a slow step would hide the waiting it caused). first_scheduled_s, last_scheduled_s: first and most
    recent admission (they differ after a preemption). token_times_s: delivery of each output token.
    preempted_s: time between each eviction and the admission after it. recompute_tokens, padding_tokens: tokens
    computed for it that were not useful work.
    """

    request_id: str
    prompt_len: int
    output_len: int
    num_output_tokens: int
    priority: int
    outcome: str
    reason: str
    due_s: float
    first_scheduled_s: float | None
    last_scheduled_s: float | None
    token_times_s: tuple[float, ...]
    end_s: float | None
    num_preemptions: int = 0
    preempted_s: float = 0.0
    recompute_tokens: int = 0
    padding_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StepRow:
    """One iteration. Idle time is what lies between the end of one and the start of the next.

    scheduled: (request_id, tokens, kind) in schedule order, kind "prefill", "decode" or "recompute" (a row that
    computes again, and perhaps new tokens behind), then the rows of padding, kind "padding"; all its tokens together
    are ``num_tokens``. padding_tokens: of static batching. idle_slots: free slots of a static batch while requests
    wait. context_tokens: KV positions that attention reads, summed over rows (position after the step).
    num_running, num_waiting: after planning.
    used_blocks, filled, reserved, internal, external: the KV pool after planning, in blocks and token slots, as in
    ``scheduler.snapshot.MemoryUse``. schedule_s .. swap_s: where the time went; the rest is the driver's own.
    """

    step_id: int
    start_s: float
    end_s: float
    scheduled: tuple[tuple[str, int, str], ...]
    prefill_tokens: int
    decode_tokens: int
    recompute_tokens: int
    padding_tokens: int
    idle_slots: int
    context_tokens: int
    num_running: int
    num_waiting: int
    used_blocks: int
    filled: int
    reserved: int
    internal: int
    external: int
    preempted: tuple[str, ...] = ()
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    schedule_s: float = 0.0
    build_s: float = 0.0
    execute_s: float = 0.0
    sample_s: float = 0.0
    update_s: float = 0.0
    swap_s: float = 0.0

    @property
    def num_tokens(self) -> int:
        """Tokens the forward pass computed, padding included."""
        return self.prefill_tokens + self.decode_tokens + self.recompute_tokens + self.padding_tokens


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a reader needs before believing a figure of the run.

    kind: "measured" (a model computed every token) or "simulated" (``cost_model`` says how time was made).
    model_sha256: of the weights or of what makes them; "" where unknown. threads: torch threads, 0 = not a CPU run.
    versions: package -> version. machine: processor, cores, system, load before the run. warm_up: what ran before.
    cache_state: of the prefix cache at the start. measured_where: the point at which a token counts as delivered.
    overhead_share: the driver's and recorder's own part of the run's wall time, 0..1. command: reruns it.
    """

    kind: str
    model: str
    dtype: str
    device: str
    threads: int
    num_blocks: int
    block_size: int
    max_model_len: int
    num_host_blocks: int
    seed: int
    warm_up: str
    model_sha256: str = ""
    cache_state: str = "empty"
    ignore_eos: bool = True
    measured_where: str = ""
    cost_model: str = ""
    overhead_share: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One arm once: a policy on a trace under conditions.

    label: of the arm ("a", "static", "1011"); repeat, position: which repeat, and its place in the order in which the
    runs of the experiment were made (ABBA), both from 0. wall_s: start to the end of the last request. cpu_s: of the
    process. stopped: "" or why it ended before all requests did.
    """

    label: str
    repeat: int
    position: int
    policy: SchedulerPolicy
    trace_name: str
    trace_sha256: str
    trace_origin: TraceOrigin
    conditions: Conditions
    requests: tuple[RequestRow, ...]
    steps: tuple[StepRow, ...]
    events: tuple[StepEvent, ...]
    totals: Totals
    wall_s: float
    cpu_s: float
    began_at: str = ""
    stopped: str = ""


def encode_run(run: Run) -> bytes:
    """As JSON (UTF-8)."""
    return msgspec.json.encode(run)


def decode_run(data: bytes) -> Run:
    """From ``encode_run``. Raises msgspec.DecodeError or ValidationError, whose message names the field."""
    return msgspec.json.decode(data, type=Run)
