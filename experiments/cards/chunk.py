"""The card of a chunk microscope: what the size of prefill chunks costs long prompts, and what all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.analysis.bootstrap import RESAMPLES, Interval
from experiments.analysis.microscope import MIN_POINTS, RULE, Knee, Microscope, Point, microscope
from experiments.analysis.samples import Slo
from experiments.cards.arms import Arm, all_runs
from experiments.cards.build import arm_of, case_of, commands, reasons, sections_of
from experiments.cards.card import Card, Row, Section, Table
from experiments.cards.conditions import policy_row, tuned_row
from experiments.cards.facts import Facts, Findings
from experiments.cards.figures import SAMPLES, compared
from experiments.cards.limits import not_supported
from experiments.cards.lints import lints
from experiments.cards.said import Said, number, plain, say
from experiments.i18n import N_
from experiments.record import Run

SPREAD_OF = "ttft_p50_s"
"""The metric whose spread over repeats stands for that of the experiment."""

BESIDE = {"no_difference", "not_saturated", "equal_lengths"}
"""Lints on a claim between two arms, which this is not."""


def build_chunk_card(
    arms_runs: Sequence[tuple[str, Sequence[Run]]],
    long_tokens: int,
    facts: Facts,
    slo: Slo | None = None,
    *,
    resamples: int = RESAMPLES,
) -> Card:
    """From (label, runs) by rising chunk size; prompts of at least ``long_tokens`` are long. Runs may be missing.

    The headline is the knee of the curve, or that there is none. Raises ValueError as ``analysis.microscope`` does.
    """
    facts = replace(facts, headline=SPREAD_OF)
    arms = tuple(arm_of(label, runs) for label, runs in arms_runs)
    complete = all(arm.runs for arm in arms)
    scope = microscope(all_runs(arms), long_tokens, resamples=resamples) if complete else None
    found = Findings(facts, slo)
    if complete:
        found = compared(arms[0].runs, arms[-1].runs, facts, slo, resamples)
    case = case_of(arms, found)
    weak = tuple(lint for lint in lints(case) if lint.key not in BESIDE) if complete else ()
    sections = sections_of(_comparison(arms, long_tokens, facts), arms, found)
    withheld = (*reasons(sections, weak), *_empty(scope))
    return Card(
        kind="chunk",
        title=facts.title,
        headline=None if withheld or scope is None else _headline(scope, arms),
        withheld=withheld,
        lints=weak,
        figures=found.figures,
        tables=(_points(scope),) if scope else (),
        sections=sections,
        not_supported=not_supported(arms, found),
        commands=commands(all_runs(arms)),
    )


def _comparison(arms: tuple[Arm, ...], long_tokens: int, facts: Facts) -> Section:
    rows = [policy_row(f"arm {arm.label}", say(N_("Policy of {label}"), label=arm.label), arm) for arm in arms]
    rows += [
        tuned_row(facts),
        Row("long", say(N_("Long prompts")), say(N_("those of at least {n} tokens"), n=long_tokens)),
        Row("rule", say(N_("How the knee is found")), Said(RULE)),
    ]
    return Section("comparison", say(N_("What is compared")), tuple(rows))


def _empty(scope: Microscope | None) -> tuple[Said, ...]:
    sizes = [p.chunk_tokens for p in scope.points if None in (p.long_ttft_s, p.others_itl_p99_s)] if scope else []
    told = ", ".join(map(str, sizes))
    return (say(N_("no samples at the chunk sizes {sizes}"), sizes=told),) if sizes else ()


def _headline(scope: Microscope, arms: tuple[Arm, ...]) -> Said:
    first, last = scope.points[0], scope.points[-1]
    how = say(N_("measured")) if arms[0].runs[0].conditions.kind == "measured" else say(N_("simulated"))
    knee = next((point for point in scope.points if point.chunk_tokens == scope.knee.chunk_tokens), None)
    ends = say(
        N_(
            "From {small} to {large} tokens a chunk, the median TTFT of long prompts goes from {a} to {b} s, the p99 "
            "of the others' ITL from {c} to {d} s"
        ),
        small=first.chunk_tokens,
        large=last.chunk_tokens,
        a=_value(first.long_ttft_s),
        b=_value(last.long_ttft_s),
        c=_value(first.others_itl_p99_s),
        d=_value(last.others_itl_p99_s),
    )
    runs, requests = min(len(arm.runs) for arm in arms), len(arms[0].runs[0].requests)
    if knee is None:
        words = N_("{ends}; no knee: {why}; {how}, {n} runs of {requests} requests each.")
        return say(words, ends=ends, why=_why(scope.knee, scope.points), how=how, n=runs, requests=requests)
    words = N_(
        "{ends}; the knee is at {knee} tokens{within}, with {ttft} and {itl} s; {how}, {n} runs of {requests} requests "
        "each."
    )
    return say(
        words,
        ends=ends,
        knee=knee.chunk_tokens,
        within=_within(scope.knee),
        ttft=_value(knee.long_ttft_s),
        itl=_value(knee.others_itl_p99_s),
        how=how,
        n=runs,
        requests=requests,
    )


def _within(knee: Knee) -> Said:
    """Where the resamples find the knee; nothing where there are none."""
    if knee.low_tokens is None or knee.high_tokens is None:
        return plain("")
    return say(N_(" (resamples: {low} to {high})"), low=knee.low_tokens, high=knee.high_tokens)


def _why(knee: Knee, points: Sequence[Point]) -> Said:
    """``Knee.why_none`` in words that the catalogue knows."""
    if len(points) < MIN_POINTS:
        return say(N_("{n} chunk sizes are fewer than {least}"), n=len(points), least=MIN_POINTS)
    if knee.low_tokens is not None and knee.high_tokens is not None:
        words = N_("the resamples find it anywhere from {low} to {high} tokens")
        return say(words, low=knee.low_tokens, high=knee.high_tokens)
    if knee.bend > 0:
        return say(N_("the curve bends by {bend} of its width at most"), bend=knee.bend)
    return say(N_("over these sizes neither time is traded for the other"))


def _value(seconds: float | None) -> str:
    return "–" if seconds is None else number(seconds)


def _with_interval(seconds: float | None, interval: Interval | None) -> Said:
    span = f" ({number(interval.low)} … {number(interval.high)})" if interval else ""
    return plain(f"{_value(seconds)}{span}")


def _points(scope: Microscope) -> Table:
    rows = tuple(
        (
            plain(f"{point.chunk_tokens:,}"),
            _with_interval(point.long_ttft_s, point.long_ttft_interval),
            plain(f"{point.long_count:,}"),
            _with_interval(point.others_itl_p99_s, point.others_itl_interval),
            plain(f"{point.gap_count:,}"),
            plain(str(point.runs)),
        )
        for point in scope.points
    )
    columns = (
        say(N_("tokens a chunk")),
        say(N_("median of (first token - due) of long prompts, s (95 % interval, cut at 0)")),
        say(SAMPLES),
        say(N_("p99 of the gaps between tokens of the others, s (95 % interval, cut at 0)")),
        say(SAMPLES),
        say(N_("runs")),
    )
    return Table("chunk", say(N_("Long prompts against all others")), columns, rows)
