"""The workload of a comparison: which requests, arriving how, with which lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.cards.arms import Arm, agreed, all_runs
from experiments.cards.card import Section
from experiments.cards.said import Said, free, plain, say
from experiments.i18n import N_
from experiments.record import RequestRow, Run
from experiments.trace import TraceOrigin


def workload_section(arms: tuple[Arm, ...]) -> Section:
    """Trace with its hash, where it comes from, arrivals, lengths, and whether outputs may end by themselves."""
    runs = all_runs(arms)
    return Section(
        "workload",
        say(N_("Workload")),
        (
            agreed("trace", say(N_("Trace")), runs, _trace, _trace_words),
            agreed("origin", say(N_("Where it comes from")), runs, _origin, _origin_words),
            agreed("arrivals", say(N_("Arrivals")), runs, _arrivals, _arrival_words),
            agreed("prompt_lengths", say(N_("Prompt lengths, in tokens")), runs, _prompts, _length_words),
            agreed("output_lengths", say(N_("Output lengths asked for, in tokens")), runs, _outputs, _length_words),
            agreed("eos", say(N_("End token of the model")), runs, lambda run: run.conditions.ignore_eos, _eos_words),
            agreed("changes", say(N_("Cut or left out of the source")), runs, _changes, _change_words),
        ),
    )


def _trace(run: Run) -> tuple[str, str, int] | None:
    return (run.trace_name, run.trace_sha256, len(run.requests)) if run.trace_sha256 and run.requests else None


def _trace_words(value: tuple[str, str, int]) -> Said:
    name, sha256, count = value
    return say(N_("{name}, {n} requests, SHA-256 {hash}"), name=name, n=count, hash=sha256)


def _origin(run: Run) -> TraceOrigin | None:
    return run.trace_origin if run.trace_origin.source else None


def _origin_words(origin: TraceOrigin) -> Said:
    source = plain(origin.source)
    if origin.description:
        source = say("{source}: {description}", source=origin.source, description=free(origin.description))
    parts = [source]
    if origin.file_sha256:
        parts.append(say(N_("file SHA-256 {hash}"), hash=origin.file_sha256))
    parts += [say("{name} = {value}", name=name, value=free(value)) for name, value in origin.parameters]
    return say("{parts}", parts=tuple(parts))


def _changes(run: Run) -> tuple[int, int]:
    return run.trace_origin.truncated, run.trace_origin.dropped


def _change_words(value: tuple[int, int]) -> Said:
    return say(N_("{truncated} requests cut, {dropped} left out"), truncated=value[0], dropped=value[1])


def offered_rate(requests: Sequence[RequestRow]) -> float | None:
    """Requests per second between the first and the last arrival; None where all come at once or there is only one."""
    due = [row.due_s for row in requests]
    span = max(due) - min(due) if due else 0.0
    return (len(due) - 1) / span if span > 0 else None


def _arrivals(run: Run) -> tuple[float | None, float] | None:
    """(rate, coefficient of variation of the times between arrivals); rate None = all at once."""
    if len(run.requests) < 2:
        return None
    rate = offered_rate(run.requests)
    gaps = np.diff(np.sort(np.array([row.due_s for row in run.requests])))
    return (None, 0.0) if rate is None else (rate, float(gaps.std() / gaps.mean()))


def _arrival_words(value: tuple[float | None, float]) -> Said:
    rate, spread = value
    if rate is None:
        return say(N_("all at once, whatever still runs (open loop)"))
    return say(
        N_("{rate} requests/s, whatever still runs (open loop); times between them vary by {spread} (1 = Poisson)"),
        rate=rate,
        spread=spread,
    )


def _lengths(values: list[int]) -> tuple[float, ...] | None:
    """(mean, variance, least, median, 99th percentile, largest)."""
    if not values:
        return None
    array = np.array(values, dtype=np.float64)
    p50, p99 = np.quantile(array, (0.5, 0.99))
    return float(array.mean()), float(array.var()), float(array.min()), float(p50), float(p99), float(array.max())


def _prompts(run: Run) -> tuple[float, ...] | None:
    return _lengths([row.prompt_len for row in run.requests])


def _outputs(run: Run) -> tuple[float, ...] | None:
    return _lengths([row.output_len for row in run.requests])


def _length_words(value: tuple[float, ...]) -> Said:
    mean, variance, low, median, high, largest = value
    return say(
        N_(
            "mean {mean}, variance {variance} (deviation {deviation}), least {low}, p50 {p50}, p99 {p99}, "
            "largest {high}"
        ),
        mean=mean,
        variance=variance,
        deviation=variance**0.5,
        low=int(low),
        p50=median,
        p99=high,
        high=int(largest),
    )


def _eos_words(ignored: bool) -> Said:
    if ignored:
        return say(N_("ignored: every request makes as many tokens as the trace asks for"))
    return say(N_("ends an answer: outputs may be shorter than the trace asks for"))
