"""Lints on what the arms did: the same work, all of it, counted as what it is. Each is None where it finds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from experiments.cards.arms import run_name
from experiments.cards.case import Case
from experiments.cards.said import Said, percent, say
from experiments.i18n import N_
from experiments.record import Run

EQUAL_LENGTHS: Final = 0.05
"""Coefficient of variation of the output lengths below which they count as equal."""


def inputs_as_outputs(case: Case) -> Said | None:
    if case.facts.headline == "total_tokens_per_s":
        return say(
            N_(
                "total_tokens_per_s counts tokens that came in together with those that were made; claim "
                "output_tokens_per_s."
            )
        )
    for run in case.runs:
        delivered = sum(len(row.token_times_s) for row in run.requests)
        counted = max(run.totals.output_tokens, sum(row.num_output_tokens for row in run.requests))
        if counted != delivered:
            return say(
                N_(
                    "{run} counts {counted} output tokens and delivered {delivered}: tokens that came in may be "
                    "counted as made."
                ),
                run=run_name(run),
                counted=counted,
                delivered=delivered,
            )
    return None


def _served(run: Run) -> Mapping[str, int]:
    """Request that was let in -> tokens delivered to it."""
    rows = (row for row in run.requests if row.first_scheduled_s is not None and row.outcome != "rejected")
    return {row.request_id: row.num_output_tokens for row in rows}


def different_sets(case: Case) -> Said | None:
    first = case.runs[0]
    one = _served(first)
    for run in case.runs[1:]:
        other = _served(run)
        if one == other:
            continue
        apart = sorted(one.keys() ^ other.keys())
        if apart:
            return say(
                N_(
                    "{run} and {other} let in different requests ({n}, first {request}): they did not do the same work."
                ),
                run=run_name(first),
                other=run_name(run),
                n=len(apart),
                request=apart[0],
            )
        unequal = next(name for name in one if one[name] != other[name])
        return say(
            N_(
                "{run} and {other} made different numbers of tokens for {request} ({a} and {b}): they did not do "
                "the same work."
            ),
            run=run_name(first),
            other=run_name(run),
            request=unequal,
            a=one[unequal],
            b=other[unequal],
        )
    return None


def unfinished(case: Case) -> Said | None:
    left = {arm.label: len(arm.requests) - arm.count("finished") - arm.count("rejected") for arm in case.arms}
    if not any(left.values()):
        return None
    stopped = next((run.stopped for run in case.runs if run.stopped), "")
    told = ", ".join(f"{label} {count}" for label, count in left.items())
    if stopped:
        return say(N_("Unfinished requests: {arms} ({reason}). They are in no latency."), arms=told, reason=stopped)
    return say(N_("Unfinished requests: {arms}. They are in no latency."), arms=told)


def rejected(case: Case) -> Said | None:
    told = {arm.label: arm.count("rejected") for arm in case.arms}
    if not any(told.values()):
        return None
    words = ", ".join(f"{label} {count}" for label, count in told.items())
    return say(
        N_("Rejected requests: {arms}. They are in no latency, and who refuses the hard ones looks faster."), arms=words
    )


def output_variation(run: Run) -> float | None:
    """Deviation over mean of the tokens delivered to finished requests; None below two of them."""
    made = [row.num_output_tokens for row in run.requests if row.outcome == "finished"]
    mean = float(np.mean(made)) if len(made) > 1 else 0.0
    return float(np.std(made)) / mean if mean > 0 else None


def equal_lengths(case: Case) -> Said | None:
    run = case.baseline.runs[0]
    padded = sum(row.num_output_tokens > row.output_len for row in run.requests)
    if padded:
        return say(
            N_("The baseline made more tokens than were asked for in {n} requests, as if padded to a maximum."),
            n=padded,
        )
    variation = output_variation(run)
    if variation is None or variation >= EQUAL_LENGTHS:
        return None
    return say(
        N_(
            "The outputs of the baseline are all about equally long (deviation {share} of the mean): a batch that "
            "waits for its longest request loses nothing then, and lengths that vary are what the policies differ on."
        ),
        share=percent(variation)[1:],
    )


def paced(case: Case) -> Said | None:
    slowed = [run_name(run) for run in case.runs if run.policy.step_delay_ms > 0 or run.policy.single_step]
    if not slowed:
        return None
    return say(
        N_("{runs} paused between steps, for the eye: their times are not those of an engine."), runs=", ".join(slowed)
    )
