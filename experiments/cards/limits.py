"""What a comparison does not support, written from what its runs saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from experiments.analysis.samples import Slo
from experiments.cards.arms import Arm, all_runs
from experiments.cards.card import Figure
from experiments.cards.facts import Facts, Findings
from experiments.cards.lints_results import MIN_FOR_P99
from experiments.cards.procedure import slo_words
from experiments.cards.said import Said, free, say
from experiments.cards.workload import offered_rate
from experiments.i18n import N_
from experiments.record import Conditions, RequestRow, Run

PRESSED: Final = 0.9
"""Share of the KV blocks in use at the peak below which memory was not short."""


def not_supported(arms: tuple[Arm, ...], found: Findings) -> tuple[Said, ...]:
    """Sentences, each with the figures of the runs that draw the line; () without runs."""
    runs = all_runs(arms)
    if not runs:
        return ()
    conditions = runs[0].conditions
    return (
        *_machine(conditions),
        *_lengths(runs[0].requests),
        *_load(runs),
        *_memory(runs),
        *_cache(runs),
        *_measures(runs, found.figures, found.slo),
        *_claims(runs, found.facts),
    )


def _machine(conditions: Conditions) -> Iterator[Said]:
    if conditions.kind == "measured":
        yield say(
            N_("Other models than {model}, or number formats than {dtype}."),
            model=conditions.model,
            dtype=conditions.dtype,
        )
        yield say(N_("Other machines and devices than the one named here ({device})."), device=conditions.device)
    else:
        yield say(
            N_("A real machine: the step times are those of the cost model {model}."), model=free(conditions.cost_model)
        )
    yield say(N_("Other implementations of policies of the same name: this is the scheduler of this program."))


def _lengths(requests: tuple[RequestRow, ...]) -> Iterator[Said]:
    if not requests:
        return
    prompts, outputs = [row.prompt_len for row in requests], [row.output_len for row in requests]
    yield say(
        N_(
            "Prompts outside {low} to {high} tokens, outputs outside {least} to {most} tokens, or the same range in "
            "another mixture."
        ),
        low=min(prompts),
        high=max(prompts),
        least=min(outputs),
        most=max(outputs),
    )


def _load(runs: tuple[Run, ...]) -> Iterator[Said]:
    run = max(runs, key=lambda run: run.wall_s)
    rate = offered_rate(run.requests)
    if rate is None:
        yield say(N_("Requests that arrive over time: here all {n} came at once."), n=len(run.requests))
        return
    yield say(N_("Loads above {rate} requests/s, or that many in bursts of another shape."), rate=rate)
    yield say(N_("Longer runs than {seconds} s with {n} requests."), seconds=run.wall_s, n=len(run.requests))


def _memory(runs: tuple[Run, ...]) -> Iterator[Said]:
    conditions = runs[0].conditions
    yield say(
        N_("Other KV budgets than {blocks} blocks of {size} tokens."),
        blocks=conditions.num_blocks,
        size=conditions.block_size,
    )
    used = max((step.used_blocks for run in runs for step in run.steps), default=0)
    share = used / conditions.num_blocks if conditions.num_blocks else 0.0
    if used and share < PRESSED:
        yield say(
            N_("Memory that is short: at the peak {used} of {blocks} blocks were in use."),
            used=used,
            blocks=conditions.num_blocks,
        )
    if not any(row.num_preemptions for run in runs for row in run.requests):
        yield say(N_("Anything about preemption: nobody was evicted."))


def _cache(runs: tuple[Run, ...]) -> Iterator[Said]:
    if not any(run.policy.enable_prefix_caching for run in runs):
        yield say(N_("Workloads that gain from shared prefixes: the prefix cache was off."))
    if len({row.priority for run in runs for row in run.requests}) < 2:
        yield say(N_("Requests of different priority: all had the same."))
    if runs[0].conditions.ignore_eos:
        yield say(N_("Answers that end where the model ends them: here every output had its length from the trace."))


def _measures(runs: tuple[Run, ...], figures: tuple[Figure, ...], slo: Slo | None) -> Iterator[Said]:
    least = min(sum(row.outcome == "finished" for row in run.requests) for run in runs)
    if least < MIN_FOR_P99:
        yield say(N_("Statements about the slowest hundredth: {n} finished requests a run are too few."), n=least)
    else:
        yield say(N_("Percentiles beyond the 99th: {n} finished requests a run."), n=least)
    empty = ", ".join(figure.name for figure in figures if any(level.count == 0 for level in figure.levels))
    if empty:
        yield say(N_("Figures without samples: {metrics}."), metrics=empty)
    limits = slo_words(slo)
    if limits:
        yield say(N_("Goodput under other limits than {limits}."), limits=limits)
    else:
        yield say(N_("Goodput: no limits were set."))
    where = runs[0].conditions.measured_where
    if where:
        yield say(N_("What a user sees behind a network: tokens count as delivered {where}."), where=Said(where))


def _claims(runs: tuple[Run, ...], facts: Facts) -> Iterator[Said]:
    if not facts.tuned:
        yield say(N_("That the gain remains over a tuned baseline."))
    seeds = sorted({run.conditions.seed for run in runs})
    if len({run.trace_sha256 for run in runs}) == 1:
        yield say(
            N_("Other draws of such a workload: one trace was run, with seeds {seeds}."),
            seeds=", ".join(map(str, seeds)),
        )
