"""Runs made by hand: eight slots, requests that arrive one by one, every token at a time that is written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from experiments.analysis.samples import Slo
from experiments.cards.build import build_card
from experiments.cards.card import Card
from experiments.cards.facts import Facts
from experiments.record import Conditions, RequestRow, Run, StepRow
from experiments.trace import TraceOrigin
from scheduler import SchedulerPolicy
from scheduler.snapshot import Totals

STATIC = SchedulerPolicy(batching="static")
CONTINUOUS = SchedulerPolicy()
LIMITS = Slo(ttft_s=1.0, tpot_s=0.1)
FACTS = Facts(
    "Continuous against static batching", True, "max_num_seqs of 4, 8 and 16 tried, best taken", headline="ttft_p50_s"
)
CONDITIONS = Conditions(
    "measured",
    "toy",
    "float32",
    "cpu",
    2,
    64,
    16,
    512,
    0,
    7,
    "2 requests of the trace",
    model_sha256="ab12",
    measured_where="when the step that made it has ended",
    overhead_share=0.01,
    versions={"torch": "2.13.0", "batchscope": "0.1.0"},
    machine={"processor": "hand made", "cores": 2, "load": [0.1, 0.1, 0.1]},
    command="python -m experiments run spec.toml --out results",
)


def request(number: int, *, due: float, wait: float, gap: float, tokens: int) -> RequestRow:
    """Finished; first token ``wait`` + ``gap`` after it is due, then one every ``gap``."""
    times = tuple(due + wait + gap * (1 + place) for place in range(tokens))
    start = due + wait
    return RequestRow(
        f"r{number:03}", 16 + number % 7, tokens, tokens, 0, "finished", "length", due, start, start, times, times[-1]
    )


def requests(count: int = 120, *, wait: float = 0.1, gap: float = 0.02) -> tuple[RequestRow, ...]:
    """One every 0.5 s (nobody waits for the one before), with 5 to 24 output tokens."""
    return tuple(request(n, due=0.5 * n, wait=wait, gap=gap, tokens=5 + n * 7 % 20) for n in range(count))


def made(label: str, repeat: int, position: int, policy: SchedulerPolicy, rows: tuple[RequestRow, ...]) -> Run:
    """A run of these requests; its totals and wall time follow from them."""
    end = max((row.end_s or row.due_s for row in rows), default=0.0)
    totals = Totals(steps=1, submitted=len(rows), output_tokens=sum(len(row.token_times_s) for row in rows))
    step = StepRow(1, 0.0, end, (), 0, 0, 0, 0, 0, 0, 1, 0, 63, 900, 0, 108, 0)
    origin = TraceOrigin("generated", "one request every 0.5 s", parameters=(("seed", "7"),))
    return Run(
        label, repeat, position, policy, "hand", "f" * 64, origin, CONDITIONS, rows, (step,), (), totals, end, end
    )


def baseline(rows: Sequence[RequestRow] = (), repeats: int = 2) -> tuple[Run, ...]:
    """Static; ABBA with ``candidate``. Each repeat is a little slower than the one before."""
    return tuple(
        made("static", n, (0, 3)[n], STATIC, tuple(rows) or requests(wait=0.3, gap=0.04 + 0.001 * n))
        for n in range(repeats)
    )


def candidate(
    rows: Sequence[RequestRow] = (), repeats: int = 2, policy: SchedulerPolicy = CONTINUOUS
) -> tuple[Run, ...]:
    """Continuous; waits less, and makes tokens faster."""
    return tuple(
        made("continuous", n, (1, 2)[n], policy, tuple(rows) or requests(gap=0.02 + 0.001 * n)) for n in range(repeats)
    )


def under(runs: Sequence[Run], **changes: object) -> tuple[Run, ...]:
    """The runs with other conditions."""
    return tuple(replace(run, conditions=replace(run.conditions, **changes)) for run in runs)


def with_rows(runs: Sequence[Run], change: Callable[[RequestRow], RequestRow | None]) -> tuple[Run, ...]:
    """The runs with other requests; None leaves one out. Totals stay those of the rows before."""
    return tuple(
        replace(run, requests=tuple(row for old in run.requests if (row := change(old)) is not None)) for run in runs
    )


def card(
    a: Sequence[Run] | None = None, b: Sequence[Run] | None = None, facts: Facts = FACTS, slo: Slo | None = LIMITS
) -> Card:
    """Of ``baseline`` and ``candidate`` where nothing else is given; few draws, for speed."""
    return build_card(baseline() if a is None else a, candidate() if b is None else b, facts, slo, resamples=20)
