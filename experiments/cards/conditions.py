"""The conditions of a comparison: what ran on what, with how much memory, and how the runs were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from experiments.cards.arms import Arm, agreed, all_runs, run_name
from experiments.cards.card import Row, Section
from experiments.cards.facts import Facts
from experiments.cards.knobs import by_decision, differing, differing_from_default
from experiments.cards.said import Said, free, number, plain, say
from experiments.i18n import N_
from experiments.record import Conditions, Run

SIMULATED: Final = "simulated"


def comparison_section(arms: tuple[Arm, ...], facts: Facts) -> Section:
    """Baseline, whether it was tuned, the other arm, and what differs. arms: two."""
    baseline, candidate = arms
    rows = (
        policy_row("baseline", say(N_("Baseline")), baseline),
        tuned_row(facts),
        policy_row("candidate", say(N_("Compared with it")), candidate),
        differs_row(baseline, candidate),
    )
    return Section("comparison", say(N_("What is compared")), rows)


def policy_row(key: str, label: Said, arm: Arm) -> Row:
    """The policy of an arm, the same in all its runs."""

    def show(line: str) -> Said:
        return say("{label}: {policy}", label=arm.label, policy=line)

    return agreed(key, label, arm.runs, lambda run: differing_from_default(run.policy), show)


def tuned_row(facts: Facts) -> Row:
    """Whether the baseline was tuned, and how."""
    label = say(N_("Was the baseline tuned"))
    if facts.tuned is None:
        return Row("tuned", label, None, say(N_("nobody said whether the baseline was tuned")))
    if facts.tuned and not facts.tuning:
        return Row("tuned", label, None, say(N_("it is said to be tuned, but not how")))
    answer = say(N_("yes: {how}"), how=facts.tuning) if facts.tuned else say(N_("no"))
    if not facts.tuned and facts.tuning:
        answer = say(N_("no: {why}"), why=facts.tuning)
    return Row("tuned", label, answer)


def differs_row(baseline: Arm, candidate: Arm) -> Row:
    """The policy fields that differ, by decision."""
    label = say(N_("What differs"))
    if not baseline.runs or not candidate.runs:
        return Row("differs", label, None, say(N_("there is no run of {label}"), label=_empty(baseline, candidate)))
    knobs = by_decision(differing(baseline.runs[0].policy, candidate.runs[0].policy))
    return Row("differs", label, say("{knobs}", knobs=knobs) if knobs else say(N_("nothing: the policies are equal")))


def _empty(*arms: Arm) -> str:
    return ", ".join(arm.label for arm in arms if not arm.runs)


def machine_section(arms: tuple[Arm, ...]) -> Section:
    """Model, number format, device, threads, versions, machine."""
    runs = all_runs(arms)
    simulated = any(run.conditions.kind == SIMULATED for run in runs)

    def row(key: str, label: Said, get: Callable[[Conditions], Any], show: Callable[[Any], Said] = _text) -> Row:
        return agreed(key, label, runs, lambda run: get(run.conditions), show)

    rows = [
        row("kind", say(N_("Measured or simulated")), lambda c: c.kind, _kind),
        row("model", say(N_("Model")), lambda c: c.model),
        row("dtype", say(N_("Number format")), lambda c: c.dtype),
        row("device", say(N_("Device")), lambda c: c.device),
        row("threads", say(N_("Threads of the model")), _threads, _threads_words),
        row("versions", say(N_("Versions")), lambda c: tuple(sorted(c.versions.items())), _pairs),
        _machine(runs),
    ]
    if simulated:
        rows.append(row("cost_model", say(N_("Cost model")), lambda c: c.cost_model, free))
    else:
        rows.insert(2, row("weights", say(N_("Weights (SHA-256)")), lambda c: c.model_sha256))
    return Section("machine", say(N_("Model and machine")), tuple(rows))


def _text(value: Any) -> Said:
    return plain(str(value))


def _kind(kind: str) -> Said:
    if kind == "measured":
        return say(N_("measured: a model computed every token"))
    return say(N_("simulated: the scheduler is real, step times come from a cost model"))


def _threads(conditions: Conditions) -> int | None:
    """None where a processor did the work and nobody noted with how many threads."""
    on_cpu = conditions.device.partition(":")[0] == "cpu" and conditions.kind != SIMULATED
    return None if on_cpu and conditions.threads <= 0 else conditions.threads


def _threads_words(threads: int) -> Said:
    return plain(str(threads)) if threads else say(N_("none: no processor computed the model"))


def _pairs(items: tuple[tuple[str, Any], ...]) -> Said:
    return say("{items}", items=tuple(plain(f"{name} {value}") for name, value in items))


def _machine(runs: tuple[Run, ...]) -> Row:
    """Figures may differ from run to run, such as the load before it: their range. Text may not."""
    label = say(N_("Machine"))
    texts = agreed("machine", label, runs, lambda run: tuple(sorted(_texts(run.conditions.machine).items())), _pairs)
    blank = next((run for run in runs if not run.conditions.machine), None)
    if blank is not None:
        return Row("machine", label, None, say(N_("not recorded by {run}"), run=run_name(blank)))
    if texts.missing is not None and all(_texts(run.conditions.machine) for run in runs):
        return texts
    known = texts.value.values["items"] if texts.value else ()
    figures = tuple(
        plain(f"{name} {_span(runs, name)}") for name in runs[0].conditions.machine if not _is_text(runs[0], name)
    )
    return Row("machine", label, say("{machine}", machine=(*(known if isinstance(known, tuple) else ()), *figures)))


def _texts(machine: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in machine.items() if isinstance(value, str)}


def _is_text(run: Run, name: str) -> bool:
    return isinstance(run.conditions.machine[name], str)


def _span(runs: tuple[Run, ...], name: str) -> str:
    """Least to largest of a figure of the machine over all runs; of a list its first number (the load of a minute)."""
    values = [run.conditions.machine.get(name) for run in runs]
    firsts = [value[0] if isinstance(value, list | tuple) and value else value for value in values]
    figures = [value for value in firsts if isinstance(value, int | float)]
    if not figures:
        return str(values[0])
    low, high = min(figures), max(figures)
    return number(low) if low == high else f"{number(low)} – {number(high)}"


def memory_section(arms: tuple[Arm, ...]) -> Section:
    """The KV budget in blocks and tokens, and what the prefix cache held at the start."""
    runs = all_runs(arms)

    def row(key: str, label: Said, get: Callable[[Conditions], Any], show: Callable[[Any], Said] = _text) -> Row:
        return agreed(key, label, runs, lambda run: get(run.conditions), show)

    def blocks(value: tuple[int, int]) -> Said:
        return say(
            N_("{blocks} blocks of {size} tokens = {tokens} tokens"),
            blocks=value[0],
            size=value[1],
            tokens=value[0] * value[1],
        )

    def budget(c: Conditions) -> tuple[int, int] | None:
        return (c.num_blocks, c.block_size) if c.num_blocks > 0 and c.block_size > 0 else None

    return Section(
        "memory",
        say(N_("KV memory")),
        (
            row("kv_budget", say(N_("KV budget")), budget, blocks),
            row("host_blocks", say(N_("Blocks of the host pool (swap)")), lambda c: c.num_host_blocks),
            row("context", say(N_("Longest sequence, in tokens")), lambda c: c.max_model_len or None),
            row("cache_state", say(N_("Prefix cache at the start")), lambda c: c.cache_state, _cache_words),
        ),
    )


def _cache_words(state: str) -> Said:
    return say(N_("empty")) if state == "empty" else plain(state)
