"""What travels between the worker process and the app: commands one way, snapshots the other. MessagePack by msgspec.

Three kinds of traffic. Commands go DEALER -> ROUTER and each gets exactly one ``Reply``. Snapshots go out on PUB; a
reader may be late, dead or absent without the engine noticing. A reader that sees a gap in ``seq`` sends ``Resync`` and
gets what it missed. Before the engine runs, the worker tells its starter on its standard output where it listens
(``Hello``) and how far it has come (``LoadProgress``), one JSON object a line.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from model_runner.config import RunnerConfig
from scheduler import SamplingParams, SchedulerPolicy, StepSnapshot

SCHEMA_VERSION = 1
"""Raised whenever a field changes meaning; a reader refuses another version instead of guessing."""

TOPIC_SNAPSHOT = b"snapshot"

ENGINE_FAILED = "engine_failed"
"""``Reply.kind`` of a command that reached an engine which no longer steps."""

EXIT_CANNOT_START = 2
"""Exit status of a worker whose configuration cannot work, so that another start would end alike."""

EnginePhase = Literal["loading", "running", "idle", "paused", "failed", "stopping"]


class StartTiming(msgspec.Struct, frozen=True):
    """One figure of the measurement at the start: milliseconds of the largest product (gate and up of the MLP) of a
    decode step of 8 requests, in all layers together."""

    dtype: str
    threads: int
    decode_ms: float


class EngineInfo(msgspec.Struct, frozen=True):
    """What the engine is, fixed for one life of the worker. Sizes in bytes, tokens and blocks.

    num_host_blocks, host_pool_bytes: the host pool of swapped requests, counted whole although its memory is taken
    only when the first block moves. attention: how attention is computed ("torch", "varlen_gathered", "varlen_paged");
    attention_note: why so. decode_batches: batch sizes for which decode steps are recorded as CUDA graphs.
    start_timings: what dtype and threads were chosen from; empty = they were asked for, or a GPU needs no choice.
    """

    run_id: str
    pid: int
    model: str
    model_note: str
    num_parameters: int
    device: str
    dtype: str
    threads: int
    block_size: int
    num_blocks: int
    max_model_len: int
    kv_bytes_per_token: int
    weight_bytes: int
    torch_version: str
    is_toy: bool
    num_host_blocks: int = 0
    host_pool_bytes: int = 0
    attention: str = ""
    attention_note: str = ""
    decode_batches: tuple[int, ...] = ()
    start_timings: tuple[StartTiming, ...] = ()


class LoadProgress(msgspec.Struct, frozen=True):
    """How far the start has come.

    stage: a short key ("measure", "tokenizer", "convert", "load", "warmup"); fraction: 0..1.
    """

    run_id: str
    stage: str
    fraction: float
    message: str


class EngineSnapshot(msgspec.Struct, frozen=True):
    """One published state of the engine.

    seq: rises by one with every message of a run, heartbeats included. wall_time: seconds since the epoch;
    monotonic_time: the worker's monotonic clock; engine_time: seconds the engine was not held (pause and pacing left
    out), the clock of the traffic. step: the scheduler's snapshot, its timings complete.
    text_deltas: new text by request_id, whole characters only. heartbeat: True when no step ran since the last message,
        i.e. nothing was computed or evicted.
    error: what went wrong when phase is "failed".
    step_s: wall seconds of the whole iteration, pacing left out.
    """

    schema: int
    seq: int
    run_id: str
    phase: EnginePhase
    heartbeat: bool
    wall_time: float
    monotonic_time: float
    engine_time: float
    step_s: float
    step: StepSnapshot
    text_deltas: dict[str, str]
    info: EngineInfo
    error: str = ""


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation. role: "system", "user" or "assistant"."""

    role: str
    content: str


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Take a request in. Exactly one of prompt_text, prompt_token_ids and turns.

    chat: wrap prompt_text in the model's chat template, as a conversation of one user's turn. turns: a conversation of
        several, always in the chat template; the answer is the next turn.
    prior_output_token_ids: tokens delivered in an earlier life of the worker; they are not delivered again.
    age_s: seconds since it arrived, on the engine's clock and while no engine was there, >= 0: queue time and TTFT of a
        request that outlived a worker count from its true arrival.
    sent_at: the machine's monotonic clock when it was sent, 0 = not told. A command waits while a step runs, and that
        wait is part of its queue time.
    """

    command_id: int
    request_id: str
    sampling: SamplingParams
    prompt_text: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    chat: bool = True
    priority: int = 0
    prior_output_token_ids: tuple[int, ...] = ()
    age_s: float = 0.0
    turns: tuple[Turn, ...] = ()
    sent_at: float = 0.0


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End one request, or every unfinished one when request_id is None."""

    command_id: int
    request_id: str | None


class Preempt(msgspec.Struct, frozen=True, tag="preempt"):
    """Evict a running request in the next step, by the preemption mode in force. It keeps its tokens."""

    command_id: int
    request_id: str


class SetPolicy(msgspec.Struct, frozen=True, tag="set_policy"):
    """Put a policy in force from the next step."""

    command_id: int
    policy: SchedulerPolicy


class Step(msgspec.Struct, frozen=True, tag="step"):
    """While the engine is held (paused or single_step), run this many iterations."""

    command_id: int
    count: int = 1


class Resync(msgspec.Struct, frozen=True, tag="resync"):
    """Send again what was published after ``after_seq``, as far as it is kept, and the state of each request."""

    command_id: int
    after_seq: int


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """End the worker after the current step."""

    command_id: int


Command = Submit | Abort | Preempt | SetPolicy | Step | Resync | Shutdown


class RequestState(msgspec.Struct, frozen=True):
    """All tokens and text of one request so far, for a reader that missed some. ended: outcome, "" = not yet."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    output_token_ids: tuple[int, ...]
    text: str
    ended: str


class Reply(msgspec.Struct, frozen=True):
    """The one answer to a command.

    step_id: the first step in which the command has effect. reasons: why not, one sentence each. version: policy
    version in force. prompt_token_ids, seed: of an accepted Submit, for the client's journal. kind: of an Abort or a
    Preempt its outcome; of a Submit "finished" when its prior tokens were all of it (reasons then says "length" or
    "stop"); ENGINE_FAILED of any.
    snapshots, states: of a Resync.
    """

    command_id: int
    ok: bool
    step_id: int
    reasons: tuple[str, ...] = ()
    version: int = 0
    kind: str = ""
    prompt_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    snapshots: tuple[EngineSnapshot, ...] = ()
    states: tuple[RequestState, ...] = ()


class WorkerSpec(msgspec.Struct, frozen=True):
    """What a worker is started with, one JSON argument. socket_dir: a private folder that the starter made.

    timed_model, start_timings: what an earlier worker measured at its start for this model; "" = there was none.
    """

    run_id: str
    socket_dir: str
    config: RunnerConfig
    policy: SchedulerPolicy
    snapshot_waiting_limit: int = 64
    timed_model: str = ""
    start_timings: tuple[StartTiming, ...] = ()


class Hello(msgspec.Struct, frozen=True):
    """The first line a worker writes to its starter (JSON): where it listens."""

    run_id: str
    pid: int
    commands: str
    snapshots: str
