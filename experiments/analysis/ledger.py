"""The waste ledger: where tokens, slots, seconds and memory of a run went. Every part of a whole adds up to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from experiments.analysis.samples import Floats
from experiments.record import Run, StepRow


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens the forward passes computed. useful: prefill and decode, each token once; the others are waste.

    idle_slots: free slots of static batches while requests waited, one a slot and step: one token each not computed.
    """

    prefill: int
    decode: int
    recompute: int
    padding: int
    idle_slots: int

    @property
    def useful(self) -> int:
        """prefill + decode."""
        return self.prefill + self.decode

    @property
    def computed(self) -> int:
        """useful + recompute + padding: what the model was given."""
        return self.useful + self.recompute + self.padding


@dataclass(frozen=True, slots=True)
class Seconds:
    """The wall time of a run, split without rest.

    Of a step, execute and sample time fall to useful, recompute and padding tokens by their number. swap: copying
    blocks. engine: planning, building and updating. other: what no timer covers. idle: between steps.
    """

    useful: float
    recompute: float
    padding: float
    swap: float
    engine: float
    other: float
    idle: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Token slots of the KV pool x seconds, from the first step's start to the last one's end.

    What is true after the planning of a step holds until the next step starts. filled: hold a computed token.
    reserved: kept in blocks that hold none yet. internal: the empty rest of blocks that hold some. external: free, but
    of no use to the next request. free: the other free ones. Their sum is ``capacity`` (Kwon et al., PagedAttention,
    SOSP 2023, section 3.1: reserved, internal and external fragmentation).
    """

    filled: float
    reserved: float
    internal: float
    external: float
    free: float

    @property
    def capacity(self) -> float:
        """Slots of the pool x seconds."""
        return self.filled + self.reserved + self.internal + self.external + self.free

    @property
    def owned(self) -> float:
        """Slots of blocks that somebody owned x seconds."""
        return self.filled + self.reserved + self.internal


@dataclass(frozen=True, slots=True)
class Ledger:
    """swapped_blocks: copied out plus in. preemptions: evictions. steps: iterations."""

    tokens: Tokens
    seconds: Seconds
    memory: Memory
    swapped_blocks: int
    preemptions: int
    steps: int


def ledger(run: Run) -> Ledger:
    """The books of one run, from its steps."""
    steps = run.steps
    return Ledger(
        Tokens(
            sum(step.prefill_tokens for step in steps),
            sum(step.decode_tokens for step in steps),
            sum(step.recompute_tokens for step in steps),
            sum(step.padding_tokens for step in steps),
            sum(step.idle_slots for step in steps),
        ),
        _seconds(steps, run.wall_s),
        _memory(run),
        sum(step.swapped_out_blocks + step.swapped_in_blocks for step in steps),
        sum(len(step.preempted) for step in steps),
        len(steps),
    )


def _column(steps: Sequence[StepRow], name: str) -> Floats:
    return np.array([getattr(step, name) for step in steps], dtype=np.float64)


def _seconds(steps: Sequence[StepRow], wall_s: float) -> Seconds:
    if not steps:
        return Seconds(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, wall_s)
    model = _column(steps, "execute_s") + _column(steps, "sample_s")
    tokens = _column(steps, "num_tokens")
    each = np.divide(model, tokens, out=np.zeros_like(model), where=tokens > 0)
    recompute = float(each @ _column(steps, "recompute_tokens"))
    padding = float(each @ _column(steps, "padding_tokens"))
    useful = float(each @ (_column(steps, "prefill_tokens") + _column(steps, "decode_tokens")))
    swap = float(_column(steps, "swap_s").sum())
    engine = sum(float(_column(steps, name).sum()) for name in ("schedule_s", "build_s", "update_s"))
    inside = float((_column(steps, "end_s") - _column(steps, "start_s")).sum())
    other = inside - useful - recompute - padding - swap - engine
    return Seconds(useful, recompute, padding, swap, engine, other, wall_s - inside)


def _memory(run: Run) -> Memory:
    if not run.steps:
        return Memory(0.0, 0.0, 0.0, 0.0, 0.0)
    starts = _column(run.steps, "start_s")
    lasts = np.diff(np.append(starts, run.steps[-1].end_s))
    parts = {name: float(lasts @ _column(run.steps, name)) for name in ("filled", "reserved", "internal", "external")}
    capacity = run.conditions.num_blocks * run.conditions.block_size * float(lasts.sum())
    return Memory(**parts, free=capacity - sum(parts.values()))


def disagreements(run: Run) -> tuple[str, ...]:
    """Where ledger, totals, requests and events of one run do not tell the same; () when they all agree.

    Each sentence names the figure, the two books and their values.
    """
    return tuple(
        f"{figure}: {value:,} in {book}, {other:,} in {other_book}"
        for figure, book, value, other_book, other in _pairs(run)
        if value != other
    )


def _pairs(run: Run) -> Iterator[tuple[str, str, int, str, int]]:
    """(figure, book, value, other book, other value) for everything that is written down twice."""
    books, totals = ledger(run), run.totals
    kinds = Counter(event.kind for event in run.events)
    outcomes = Counter(row.outcome for row in run.requests)
    real = sum(count for step in run.steps for _, count, kind in step.scheduled if kind != "padding")
    of_steps: Mapping[str, int] = {
        "prefill_tokens": books.tokens.prefill,
        "decode_tokens": books.tokens.decode,
        "recompute_tokens": books.tokens.recompute,
        "padding_tokens": books.tokens.padding,
        "idle_slot_steps": books.tokens.idle_slots,
        "preemptions": books.preemptions,
        "swapped_out_blocks": sum(step.swapped_out_blocks for step in run.steps),
        "swapped_in_blocks": sum(step.swapped_in_blocks for step in run.steps),
    }
    for name, value in of_steps.items():
        yield name, "the steps", value, "the totals", getattr(totals, name)
    yield (
        "tokens scheduled",
        "the rows of the steps",
        real,
        "their sums",
        books.tokens.useful + books.tokens.recompute,
    )
    yield from _of_requests(run, kinds)
    for kind, outcome, total in (("finished", "finished", totals.finished), ("rejected", "rejected", totals.rejected)):
        yield f"requests {kind}", "the requests", outcomes[outcome], "the totals", total
        yield f"requests {kind}", "the events", kinds[kind], "the totals", total
    yield "preemptions", "the events", kinds["preempted"], "the totals", totals.preemptions


def _of_requests(run: Run, kinds: Mapping[str, int]) -> Iterator[tuple[str, str, int, str, int]]:
    totals, rows = run.totals, run.requests
    yield "output tokens", "the requests", sum(len(r.token_times_s) for r in rows), "the totals", totals.output_tokens
    yield "preemptions", "the requests", sum(r.num_preemptions for r in rows), "the events", kinds.get("preempted", 0)
    yield (
        "recompute_tokens",
        "the requests",
        sum(r.recompute_tokens for r in rows),
        "the totals",
        totals.recompute_tokens,
    )
    yield "padding_tokens", "the requests", sum(r.padding_tokens for r in rows), "the totals", totals.padding_tokens


@dataclass(frozen=True, slots=True)
class Line:
    """One line of two ledgers side by side: means over the runs of each arm. waste: less of it is better."""

    group: str
    name: str
    unit: str
    before: float
    after: float
    waste: bool


WASTE: Final = frozenset({"recompute", "padding", "idle_slots", "reserved", "internal", "external", "swap"})
UNITS: Final[Mapping[str, str]] = {"tokens": "tokens", "seconds": "s", "memory": "token-slot-seconds"}


def before_and_after(before: Sequence[Run], after: Sequence[Run]) -> tuple[Line, ...]:
    """Both ledgers line by line: the groups "tokens", "seconds" and "memory", then blocks swapped and evictions.

    Raises ValueError when an arm has no run.
    """
    if not before or not after:
        raise ValueError(f"before has {len(before)} runs and after {len(after)}, expected at least 1 in each")
    one, other = ([ledger(run) for run in runs] for runs in (before, after))
    places = [
        (group, item.name, unit, item.name in WASTE)
        for group, unit in UNITS.items()
        for item in fields(getattr(one[0], group))
    ]
    places += [("", "swapped_blocks", "blocks", True), ("", "preemptions", "evictions", True)]
    return tuple(
        Line(group, name, unit, _mean(one, group, name), _mean(other, group, name), waste)
        for group, name, unit, waste in places
    )


def _mean(side: Sequence[Ledger], group: str, name: str) -> float:
    return float(np.mean([getattr(getattr(each, group) if group else each, name) for each in side]))
