"""How one step is divided among the requests that took part in it, and the parts a life is made of.

All times are whole nanoseconds on the scheduler's clock, so that sums are exact.

The rule. Let a step end at E, and let its forward pass have taken X (``timings.execute_s``; where nobody measured, all
the time since the step before it). The pass fills [E - X, E]. Of it each row r with n_r tokens, padding included, gets

    [E - X + X * (n_1 + .. + n_{r-1}) // N,  E - X + X * (n_1 + .. + n_r) // N],    N = n_1 + .. + n_R

that is X * n_r / N up to one nanosecond, and the boundaries are shared, so nothing is lost and nothing counted twice.
For each request the rows are walked in this order: its own tokens, its own padding, the prefill chunks and recomputes
of others in schedule order (each by name), the decodes of all others together, the padding of all others. The order
within a step is a convention: the rows are computed at the same time.
Copies of swapped blocks (``swap_out_s + swap_in_s``) fill what lies directly before the pass. The rest of the time
since the step before it is overhead: commands, scheduling, building the inputs, sampling, publishing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.snapshot import StepSnapshot
from scheduler.step import NOT_TIMED

CAUSES: Final = (
    "queue_step",
    "queue_behind",
    "queue_slot",
    "memory",
    "paused",
    "own_prefill",
    "own_decode",
    "own_recompute",
    "others_prefill",
    "others_decode",
    "others_recompute",
    "padding",
    "swap",
    "overhead",
    "preempted",
    "batch_end",
    "idle",
    "away",
    "unseen",
)
"""Every cause a part can have.

queue_step: arrived while a step ran, or looked at by no step yet. queue_behind: others are in front of it.
queue_slot: no place in the batch or no token budget left. memory: KV blocks are short, while it waits or while it runs
(preemption "never"). paused: admission is paused. own_*: its own tokens. others_*: tokens of others in a step it took
part in, or in which it runs without tokens. padding: padding tokens of the step (static batching). swap: blocks were
copied. overhead: all of a step that is neither. preempted: evicted, and not back yet. batch_end: it has all its tokens
and its static batch has not ended. idle: it runs, and the engine computes nothing. away: no engine was there.
unseen: nobody watched.
"""

DEFERRED: Final[Mapping[str, str]] = {
    "": "queue_step",
    "token_budget": "queue_slot",
    "max_num_seqs": "queue_slot",
    "static_batch_running": "queue_slot",
    "kv_capacity": "memory",
    "watermark": "memory",
    "allocator_fragmented": "memory",
    "preemption_this_step": "memory",
    "head_of_line": "queue_behind",
    "admission_paused": "paused",
}
"""The reason why a request was not let in, to the cause of its wait."""


def nanoseconds(seconds: float) -> int:
    """A time or duration in seconds, in whole nanoseconds."""
    return round(seconds * 1e9)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a request's life that has one cause. start, end: nanoseconds, start < end.

    step_id: the step it belongs to, 0 = none. request_id: whose tokens or blocks it was spent on, or who is in front;
    "" = nobody in particular. tokens: of the rows it was spent on; num_requests: how many requests those are.
    reason: of a wait, as in the waiting table.
    """

    start: int
    end: int
    cause: str
    step_id: int = 0
    request_id: str = ""
    tokens: int = 0
    num_requests: int = 0
    reason: str = ""

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class StepShare:
    """What is kept of a step to divide it: its times, and what it computed for whom.

    start <= swap_start <= compute_start <= end. chunks: (request_id, kind, tokens) of rows that do not decode.
    decode_rows, decode_tokens, padding_tokens: of all rows. moved: ids whose blocks were copied.
    missed: steps before it were not seen.
    """

    step_id: int
    start: int
    swap_start: int
    compute_start: int
    end: int
    chunks: tuple[tuple[str, str, int], ...]
    decode_rows: int
    decode_tokens: int
    padding_tokens: int
    moved: tuple[str, ...]
    missed: bool

    @property
    def total(self) -> int:
        """Tokens the pass computed, padding included."""
        return sum(tokens for _, _, tokens in self.chunks) + self.decode_tokens + self.padding_tokens

    @property
    def is_empty(self) -> bool:
        """True when it neither computed nor copied."""
        return not (self.chunks or self.decode_rows or self.padding_tokens or self.moved)


def share_of(step: StepSnapshot, start: int | None, missed: bool) -> StepShare:
    """The share of a step. start: end of the step before it, None = not known. missed: others came between."""
    times, end = step.timings, nanoseconds(step.time)
    compute, swap = nanoseconds(times.execute_s), nanoseconds(times.swap_out_s + times.swap_in_s)
    known = compute + swap + nanoseconds(times.schedule_s + times.build_s + times.sample_s)
    begin = min(end if start is None else start, end)
    if start is None or missed:
        begin = max(begin, end - known) if start is not None else end - known
    compute_start = begin if times == NOT_TIMED else max(begin, end - compute)
    chunks, decode_rows, decode_tokens = [], 0, 0
    for request_id, tokens in step.num_scheduled_tokens.items():
        kind = step.kinds.get(request_id, "decode")
        if kind == "decode":
            decode_rows, decode_tokens = decode_rows + 1, decode_tokens + tokens
        else:
            chunks.append((request_id, kind, tokens))
    return StepShare(
        step_id=step.step_id,
        start=begin,
        swap_start=max(begin, compute_start - swap),
        compute_start=compute_start,
        end=end,
        chunks=tuple(chunks),
        decode_rows=decode_rows,
        decode_tokens=decode_tokens,
        padding_tokens=sum(step.num_padding_tokens.values()),
        moved=tuple(move.request_id for move in (*step.swapped_out, *step.swapped_in)),
        missed=missed,
    )


@dataclass(frozen=True, slots=True)
class InStep:
    """A request's stay in one step, from ``start`` to ``end``. kind: of its tokens; without tokens why it has none:
    "memory", "batch_end" or "none"."""

    share: StepShare
    request_id: str
    start: int
    end: int
    kind: str
    tokens: int
    padding: int

    def parts(self) -> Iterator[Part]:
        """Its parts, contiguous from ``start`` to ``end``."""
        share, at = self.share, self.start
        for part in self._whole():
            start, end = max(at, part.start), min(self.end, part.end)
            if start < end:
                at = end
                yield Part(start, end, part.cause, share.step_id, part.request_id, part.tokens, part.num_requests)

    def _whole(self) -> Iterator[Part]:
        """The parts of the whole step, clipped by nothing."""
        share = self.share
        yield Part(min(self.start, share.swap_start), share.swap_start, "overhead")
        if share.swap_start < share.compute_start:
            whose = self.request_id if self.request_id in share.moved else share.moved[0] if share.moved else ""
            cause = "swap" if share.moved else "overhead"
            yield Part(share.swap_start, share.compute_start, cause, 0, whose, 0, len(share.moved))
        total, start, so_far = share.total, share.compute_start, 0
        if self.kind in ("memory", "batch_end") or not total:
            cause = self.kind if self.kind in ("memory", "batch_end") else "idle"
            yield Part(start, share.end, cause)
            return
        length, low = share.end - start, start
        for cause, request_id, tokens, num_requests in self._rows():
            so_far += tokens
            high = start + length * so_far // total
            yield Part(low, high, cause, 0, request_id, tokens, num_requests)
            low = high

    def _rows(self) -> Iterator[tuple[str, str, int, int]]:
        """(cause, whose, tokens, requests) of all rows of the step, in the order of the rule."""
        share, decodes = self.share, self.kind == "decode" and self.tokens > 0
        if self.tokens:
            yield f"own_{self.kind}", self.request_id, self.tokens, 1
        if self.padding:
            yield "padding", self.request_id, self.padding, 1
        for request_id, kind, tokens in share.chunks:
            if request_id != self.request_id or not self.tokens:
                yield f"others_{kind}", request_id, tokens, 1
        others = share.decode_tokens - (self.tokens if decodes else 0)
        if others:
            yield "others_decode", "", others, share.decode_rows - decodes
        if share.padding_tokens > self.padding:
            yield "padding", "", share.padding_tokens - self.padding, 0
