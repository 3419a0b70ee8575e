"""One iteration's decision, and what the model made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.events import StepEvent
from scheduler.request import Request


@dataclass(frozen=True, slots=True)
class BlockMove:
    """KV blocks of one request that move between the device pool and the host pool (swap)."""

    request_id: str
    device_block_ids: tuple[int, ...]
    host_block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """What the next forward pass computes. All mappings are in schedule order, keyed by request_id.

    num_scheduled_tokens: real tokens each request computes, >= 1 (no entry = none). Their sum plus the padding never
        passes ``max_num_batched_tokens``.
    num_padding_tokens: padding tokens each row computes besides (static batching only): left padding of a short
        prompt, or one a step for a row whose request has ended but whose batch has not.
    kinds: what the real tokens are: "prefill", "decode" or "recompute" (tokens that were computed before a
        preemption); "padding" for a row that computes padding only.
    token_ids: the tokens to feed, ``len == num_scheduled_tokens``. positions_start: position of the first of them,
        which is num_computed_tokens before the step.
    block_tables: all KV block ids of the row, in order of position, long enough for the tokens of this step.
        Block ids start at 1; block 0 belongs to nobody and may be used as scratch for padding.
    sampling_ids: rows that sample a token, i.e. whose computed tokens reach all known tokens in this step.
    swapped_out, swapped_in: copies the runner makes before it computes anything: first all moves out, then all in. A
        request that is swapped in has ``positions_start`` at what it had computed. A step that computes nothing may
        still have moves.
    new, resumed, preempted: ids admitted the first time, admitted again, evicted in this step.
    finished: ids that ended (finished or aborted) since the last step; the runner drops what it keeps of them, before
        it looks at ``new``, since an id may be used again.
    new_requests: the requests of ``new``, so that a runner learns their sampling parameters.
    events: what planning this step decided; the snapshot of the step has them too, among all that happened.
    """

    step_id: int
    policy_version: int
    time: float
    num_scheduled_tokens: Mapping[str, int] = field(default_factory=dict)
    num_padding_tokens: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    token_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    positions_start: Mapping[str, int] = field(default_factory=dict)
    block_tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sampling_ids: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    preempted: tuple[str, ...] = ()
    swapped_out: tuple[BlockMove, ...] = ()
    swapped_in: tuple[BlockMove, ...] = ()
    finished: tuple[str, ...] = ()
    new_requests: tuple[Request, ...] = ()
    events: tuple[StepEvent, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when the forward pass has nothing to compute."""
        return not self.num_scheduled_tokens and not self.num_padding_tokens


@dataclass(frozen=True, slots=True)
class StepTimings:
    """Where the time of one step went, in seconds; 0.0 where nobody measured."""

    schedule_s: float = 0.0
    build_s: float = 0.0
    execute_s: float = 0.0
    sample_s: float = 0.0
    update_s: float = 0.0
    publish_s: float = 0.0
    swap_out_s: float = 0.0
    swap_in_s: float = 0.0


NOT_TIMED: Final = StepTimings()


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the runner gives back. ``sampled`` has an entry for each of ``sampling_ids`` and for no other row.

    A result whose step_id is not the step in flight is dropped by ``Scheduler.update`` (fault F46).
    """

    step_id: int
    sampled: Mapping[str, int]
    timings: StepTimings = NOT_TIMED
