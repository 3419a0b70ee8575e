"""Lints on what may be concluded: from how many runs, requests and changes at once. None where it finds nothing."""

from __future__ import annotations

from typing import Final

from experiments.cards.arms import run_name
from experiments.cards.case import Case
from experiments.cards.knobs import by_decision, decisions, differing
from experiments.cards.said import Said, percent, say
from experiments.i18n import N_
from experiments.record import Conditions

MIN_FOR_P99: Final = 100
"""Requests below which fewer than one lies above the 99th percentile."""

MUCH_OVERHEAD: Final = 0.05
"""Share of the wall time that driver and recorder may take."""


def several_knobs(case: Case) -> Said | None:
    knobs = differing(case.baseline.runs[0].policy, case.candidate.runs[0].policy)
    if len(knobs) < 2:
        return None
    words = N_("{n} knobs changed at once, of {k} decisions: {knobs}. Whose improvement it is cannot be told.")
    if len(decisions(knobs)) == 1:
        words = N_("{n} knobs changed at once, of {k} decision: {knobs}. Which of them did it cannot be told.")
    return say(words, n=len(knobs), k=len(decisions(knobs)), knobs=by_decision(knobs))


def equal_policies(case: Case) -> Said | None:
    if differing(case.baseline.runs[0].policy, case.candidate.runs[0].policy):
        return None
    return say(
        N_("The policies are equal: what differs between the arms is chance, and shows how much there is of it.")
    )


def few_for_p99(case: Case) -> Said | None:
    names = ", ".join(name for name in case.figures if name.endswith("_p99_s"))
    least = min(sum(row.outcome == "finished" for row in run.requests) for run in case.runs)
    if not names or least >= MIN_FOR_P99:
        return None
    return say(
        N_(
            "99th percentiles from {n} requests a run: one request decides each, so they are close to "
            "the maximum ({metrics})."
        ),
        n=least,
        metrics=names,
    )


def saturated(case: Case) -> Said | None:
    names = ", ".join(arm.label for arm in case.arms if arm.state() == "yes")
    if not names:
        return None
    return say(
        N_(
            "The queue of {arms} kept growing (saturated): latencies there measure how long the run was, and would be "
            "higher in a longer one."
        ),
        arms=names,
    )


def burst(case: Case) -> Said | None:
    if all(arm.state() != "burst" for arm in case.arms):
        return None
    return say(
        N_(
            "All requests came at about once: latencies are those of emptying a queue, and of no arrival rate that "
            "could go on."
        )
    )


def not_saturated(case: Case) -> Said | None:
    if not case.facts.headline.endswith(("tokens_per_s", "request_rps")):
        return None
    if any(arm.state() != "no" for arm in case.arms):
        return None
    return say(
        N_("Every arm kept up with the arrivals: the throughput is what was offered, not what the policies can do.")
    )


def goodput_falls(case: Case) -> Said | None:
    throughput, goodput = case.figures.get("output_tokens_per_s"), case.figures.get("goodput_rps")
    if throughput is None or goodput is None or throughput.change is None or goodput.change is None:
        return None
    if not (throughput.change > 0 > goodput.change):
        return None
    return say(
        N_("Throughput rises ({up}) while goodput falls ({down}): more tokens, and fewer requests within the limits."),
        up=percent(throughput.change),
        down=percent(goodput.change),
    )


def no_difference(case: Case) -> Said | None:
    figure = case.figures.get(case.facts.headline)
    if figure is None or figure.change_low is None or figure.change_high is None:
        return None
    if figure.verdict != "unclear" and not figure.change_low <= 0 <= figure.change_high:
        return None
    return say(
        N_("The interval of {metric} holds no difference: {low} to {high}."),
        metric=figure.name,
        low=percent(figure.change_low),
        high=percent(figure.change_high),
    )


def single_repeat(case: Case) -> Said | None:
    single = ", ".join(arm.label for arm in case.arms if len(arm.runs) < 2)
    if not single:
        return None
    return say(N_("{arms} ran once: nothing tells how much the next run would differ."), arms=single)


def warm_cache(case: Case) -> Said | None:
    warm = next((run for run in case.runs if run.conditions.cache_state != "empty"), None)
    if warm is None:
        return None
    return say(
        N_("The prefix cache of {run} was not empty at the start ({state}): prompts that were seen before cost less."),
        run=run_name(warm),
        state=warm.conditions.cache_state or "?",
    )


def one_after_the_other(case: Case) -> Said | None:
    """ABBA and ABAB are near; all of one arm first confounds the policy with whatever drifts."""
    places = [[run.position for run in arm.runs] for arm in (case.baseline, case.candidate)]
    if min(len(place) for place in places) < 2:
        return None
    a, b = places
    if max(a) >= min(b) and max(b) >= min(a):
        return None
    return say(
        N_(
            "All runs of one arm came before those of the other: a machine that grows warm, or busy, looks like "
            "a policy."
        )
    )


def much_overhead(case: Case) -> Said | None:
    largest = max(run.conditions.overhead_share or 0.0 for run in case.runs)
    if largest <= MUCH_OVERHEAD:
        return None
    return say(N_("Driver and recorder took up to {share} of the wall time."), share=percent(largest)[1:])


def busy_machine(case: Case) -> Said | None:
    """The load noted before a run has the runs before it in it, which ``threads`` allows for."""
    loads = [(load_of(run.conditions), run) for run in case.runs]
    most, run = max(((load, run) for load, run in loads if load is not None), default=(0.0, None), key=lambda x: x[0])
    cores = run.conditions.machine.get("cores") if run else None
    if run is None or not isinstance(cores, int) or most <= run.conditions.threads + cores / 2:
        return None
    return say(
        N_("Other programs ran meanwhile: a load of {load} on {cores} cores before {run}."),
        load=most,
        cores=cores,
        run=run_name(run),
    )


def load_of(conditions: Conditions) -> float | None:
    """The load of the last minute before the run; None where it was not noted."""
    load = conditions.machine.get("load")
    first = load[0] if isinstance(load, list | tuple) and load else load
    return float(first) if isinstance(first, int | float) else None


def simulated(case: Case) -> Said | None:
    if all(run.conditions.kind == "measured" for run in case.runs):
        return None
    return say(N_("Simulated: no model ran. The scheduler is real, the times are those of the cost model."))
