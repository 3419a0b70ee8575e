"""What was measured: pure functions over the iterations of one run, and over exactly the scene's own requests."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dashboard.i18n import N_
from dashboard.lesson.lives import Life, Run, lives
from scheduler import ResumeRecord

ENOUGH: Final = 20
"""Fewer samples than this have no 95th percentile worth the name."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number and how many samples it was made of. number: None = there was no sample, or too few of them."""

    number: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Fact:
    """label: a message. unit: "" (a count), "ms", "s" (kept in ms), "%", "/s" or "x" (a mean). of: from a run to its
    value.

    tolerance: relative difference below which two values count as about the same; 0 for what is counted.
    """

    label: str
    unit: str
    of: Callable[[Run, Sequence[Life]], Value]
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One run in numbers. values: fact name -> value. num_requests, num_steps: of the scene; seconds: of its
    iterations, pauses left out. strangers: other requests that were computed in those iterations."""

    values: Mapping[str, Value]
    num_requests: int
    num_steps: int
    seconds: float
    strangers: int


def measure(run: Run) -> Measured:
    """All facts of one run."""
    own = lives(run)
    strangers = {r for seen in run.steps for r in seen.step.num_scheduled_tokens if r not in run.own}
    values = {name: fact.of(run, own) for name, fact in FACTS.items()}
    return Measured(values, len(run.own), len(run.steps), sum(s.seconds for s in run.steps), len(strangers))


def _count(total: float, n: int) -> Value:
    return Value(float(total), n)


def _mean(samples: Sequence[float]) -> Value:
    return Value(statistics.fmean(samples) if samples else None, len(samples))


def _most(samples: Sequence[float]) -> Value:
    return Value(max(samples) if samples else None, len(samples))


def _p95(samples: Sequence[float]) -> Value:
    enough = len(samples) >= ENOUGH
    return Value(statistics.quantiles(samples, n=20, method="inclusive")[-1] if enough else None, len(samples))


def _of(own: Sequence[Life], role: str) -> list[Life]:
    return [life for life in own if life.role == role]


def _ttft(run: Run, own: Sequence[Life]) -> list[float]:
    """Milliseconds from arrival to the first token, the iterations in between added up."""
    return [1000 * run.seconds(v.arrived, v.tokens[0] + 1) for v in own if v.tokens]


def _gaps(own: Sequence[Life]) -> list[tuple[int, int]]:
    """(iteration of a token, iteration of the next one) of every request."""
    return [pair for life in own for pair in pairwise(life.tokens)]


def _itl(run: Run, own: Sequence[Life]) -> list[float]:
    return [1000 * run.seconds(first + 1, second + 1) for first, second in _gaps(_of(own, "other"))]


def _gap_tokens(run: Run, own: Sequence[Life]) -> list[float]:
    return [
        float(sum(run.tokens(i) for i in range(first + 1, second + 1))) for first, second in _gaps(_of(own, "other"))
    ]


def _resumes(run: Run) -> list[ResumeRecord]:
    return [r for seen in run.steps for r in seen.step.resumes if r.request_id in run.own]


def _used_slots(run: Run) -> int:
    return sum(s.step.num_used_blocks * s.step.block_size for s in run.steps)


def _share(part: float, run: Run) -> Value:
    slots = _used_slots(run)
    return Value(100 * part / slots if slots else None, len(run.steps))


def _joins(run: Run) -> int:
    """Iterations in which a request joined others that were already in the batch."""
    sets = [run.members(i) for i in range(len(run.steps))]
    return sum(1 for before, now in pairwise(sets) if now - before and now & before)


def _mixed(run: Run) -> int:
    kinds = [{s.step.kinds.get(r, "") for r in s.step.num_scheduled_tokens if r in run.own} for s in run.steps]
    return sum(1 for kind in kinds if "decode" in kind and kind & {"prefill", "recompute"})


def _prefill(run: Run) -> int:
    return sum(
        n for s in run.steps for r, n in s.step.num_scheduled_tokens.items()
        if r in run.own and s.step.kinds.get(r) == "prefill"
    )  # fmt: skip


def _swap_ms(run: Run) -> float:
    return 1000 * sum(s.step.timings.swap_out_s + s.step.timings.swap_in_s for s in run.steps)


TIME: Final = 0.05

FACTS: Final[Mapping[str, Fact]] = {
    "steps": Fact(N_("iterations until all had ended"), "", lambda r, o: _count(len(r.steps), len(o))),
    "total_ms": Fact(
        N_("time until all had ended"), "s", lambda r, o: _count(1000 * r.seconds(0, len(r.steps)), len(o)), TIME
    ),
    "tokens_per_s": Fact(
        N_("output tokens per second"), "/s",
        lambda r, o: Value(sum(len(v.tokens) for v in o) / s if (s := r.seconds(0, len(r.steps))) else None, len(o)),
        TIME,
    ),
    "padding": Fact(
        N_("padding tokens computed"), "", lambda r, o: _count(sum(v.padding for v in o), len(o))
    ),
    "held": Fact(
        N_("slot iterations held by finished requests"), "", lambda r, o: _count(sum(v.held for v in o), len(o))
    ),
    "joins": Fact(
        N_("iterations in which a request joined a batch under way"), "", lambda r, o: _count(_joins(r), len(r.steps))
    ),
    "wait": Fact(
        N_("iterations in the queue before the start, mean"), "x",
        lambda r, o: _mean([float(v.started - v.arrived) for v in o if v.started is not None]),
    ),
    "longest_wait": Fact(
        N_("iterations in the queue before the start, longest"), "",
        lambda r, o: _most([float(v.started - v.arrived) for v in o if v.started is not None]),
    ),
    "running": Fact(
        N_("requests in the batch, mean over the iterations"), "x",
        lambda r, o: _mean([float(len(r.members(i))) for i in range(len(r.steps))]),
    ),
    "max_running": Fact(
        N_("requests in the batch, most"), "",
        lambda r, o: _most([float(len(r.members(i))) for i in range(len(r.steps))]),
    ),
    "preemptions": Fact(
        N_("preemptions"), "", lambda r, o: _count(sum(v.preemptions for v in o), len(o))
    ),
    "recompute": Fact(
        N_("tokens computed again"), "", lambda r, o: _count(sum(v.recompute for v in o), len(o))
    ),
    "moved": Fact(
        N_("KV blocks copied to the host and back"), "", lambda r, o: _count(sum(v.moved for v in o), len(o))
    ),
    "swap_ms": Fact(N_("time spent on copying"), "ms", lambda r, o: _count(_swap_ms(r), len(r.steps)), TIME),
    "resume": Fact(
        N_("iterations from eviction until caught up, mean"), "x",
        lambda r, o: _mean([float(v.caught_up_step - v.evicted_step) for v in _resumes(r)]),
    ),
    "longest_resume": Fact(
        N_("iterations from eviction until caught up, longest"), "",
        lambda r, o: _most([float(v.caught_up_step - v.evicted_step) for v in _resumes(r)]),
    ),
    "used": Fact(
        N_("usable KV blocks in use, mean"), "%",
        lambda r, o: _mean([100 * s.step.num_used_blocks / s.step.block_limit for s in r.steps]),
    ),
    "max_used": Fact(
        N_("KV blocks in use, most"), "", lambda r, o: _most([float(s.step.num_used_blocks) for s in r.steps])
    ),
    "filled": Fact(
        N_("slots of the KV blocks in use that hold a token"), "%",
        lambda r, o: _share(sum(s.step.memory.filled for s in r.steps), r),
    ),
    "reserved": Fact(
        N_("slots of the KV blocks in use that are only reserved"), "%",
        lambda r, o: _share(sum(s.step.memory.reserved for s in r.steps), r),
    ),
    "ttft_long": Fact(
        N_("TTFT of the long request"), "ms", lambda r, o: _mean(_ttft(r, _of(o, "long"))), TIME
    ),
    "ttft_long_steps": Fact(
        N_("iterations until the first token of the long request"), "",
        lambda r, o: _mean([float(v.tokens[0] + 1 - v.arrived) for v in _of(o, "long") if v.tokens]),
    ),
    "ttft": Fact(N_("TTFT, mean"), "ms", lambda r, o: _mean(_ttft(r, o)), TIME),
    "itl_max": Fact(
        N_("longest pause between two tokens of the others"), "ms", lambda r, o: _most(_itl(r, o)), TIME
    ),
    "itl_p95": Fact(N_("ITL of the others, 95th percentile"), "ms", lambda r, o: _p95(_itl(r, o)), TIME),
    "gap_tokens": Fact(
        N_("most tokens computed between two tokens of the others"), "", lambda r, o: _most(_gap_tokens(r, o))
    ),
    "gap_steps": Fact(
        N_("most iterations between two tokens of the others"), "",
        lambda r, o: _most([float(b - a) for a, b in _gaps(_of(o, "other"))]),
    ),
    "mixed": Fact(
        N_("iterations with prefill and decode in one dictionary"), "", lambda r, o: _count(_mixed(r), len(r.steps))
    ),
    "largest": Fact(
        N_("largest sum of one dictionary"), "", lambda r, o: _most([float(r.tokens(i)) for i in range(len(r.steps))])
    ),
    "prefill": Fact(N_("prompt tokens computed"), "", lambda r, o: _count(_prefill(r), len(o))),
    "ended": Fact(N_("requests that ended"), "", lambda r, o: _count(sum(v.ended for v in o), len(o))),
}  # fmt: skip
"""What can be measured, by name."""
