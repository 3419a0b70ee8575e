"""Progress and results of experiments as HTML. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dashboard.charts.outcomes import COUNTS, GROUPS, PARTS
from dashboard.experiments.plan import Plan
from dashboard.experiments.told import fact
from dashboard.experiments.words import (
    FACTORS,
    KINDS,
    STATES,
    VERDICTS,
    change_words,
    duration,
    figure,
    metric_name,
    percent,
    signed,
    span,
    unit_of,
)
from dashboard.i18n import N_, Translate
from dashboard.views.markup import esc, table
from experiments.analysis.attribution import Attribution, Factorial, Part
from experiments.analysis.comparison import Comparison
from experiments.analysis.goodput_plane import Gaming
from experiments.analysis.ledger import Line
from experiments.analysis.metrics import METRICS
from experiments.analysis.microscope import Microscope
from experiments.analysis.rosetta import STATS, Rosetta
from experiments.cards.said import unit
from experiments.runs.progress import Progress

TOOLS: Final = {"vllm": "vLLM", "guidellm": "GuideLLM", "aiperf": "AIPerf", "vidur": "Vidur"}
QUANTITIES: Final = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "queue": N_("Queue time")}
VARIANTS: Final = {"": "", "code": N_("its code"), "documentation": N_("its documentation")}
CLASSES: Final = {"better": "bs-better", "worse": "bs-worse", "unclear": "bs-unclear"}


def progress_words(progress: Progress | None, t: Translate) -> str:
    """One line: state, runs done, the run under way and the time left."""
    if progress is None:
        return t("the process is starting")
    words = [t(STATES[progress.state]), t("{done} of {total} runs", done=progress.done, total=progress.total)]
    if progress.label:
        now = t(
            "{arm}, repeat {n}: {done} of {total} requests have ended",
            arm=progress.label, n=progress.repeat + 1, done=progress.requests_done, total=progress.requests_total,
        )  # fmt: skip
        words.append(now)
    if progress.eta_s and progress.state == "running":
        words.append(t("about {time} left", time=duration(progress.eta_s, t)))
    return " · ".join(words)


def share_done(progress: Progress | None) -> float:
    """0..1, the run under way counted by its requests."""
    if progress is None or not progress.total:
        return 0.0
    inside = progress.requests_done / progress.requests_total if progress.label and progress.requests_total else 0.0
    return min(1.0, (progress.done + inside) / progress.total)


def plan_words(plan: Plan, t: Translate) -> str:
    """What will be run, and about how long it takes."""
    requests = plan.trace.requests
    prompt, output = (sum(getattr(r, n) for r in requests) / len(requests) for n in ("prompt_len", "output_len"))
    what = t(
        "{runs} runs of {n} requests: mean prompt {prompt} and output {output} tokens, arrivals over {time}.",
        runs=f"{plan.runs:,}", n=f"{len(requests):,}", prompt=f"{prompt:.0f}", output=f"{output:.0f}",
        time=duration(requests[-1].arrival_s, t),
    )  # fmt: skip
    if plan.seconds is None:
        least = duration(plan.least_s, t)
        long = t("How long it takes is not known: the live engine runs another model or has computed too little yet. "
                 "At least {time}, the time of the arrivals.", time=least)  # fmt: skip
    else:
        long = t("About {time} as fast as the live engine computes, and some seconds for loading the model.",
                 time=duration(max(plan.seconds, plan.least_s), t))  # fmt: skip
    origin = plan.trace.origin
    cut = ""
    if origin.truncated or origin.dropped:
        cut = t("{cut} requests are cut to fit, {left} left out.", cut=origin.truncated, left=origin.dropped)
    return f'<p class="bs-plan">{esc(what)} <b>{esc(long)}</b> {esc(cut)}</p>'


def arms_words(plan: Plan, t: Translate) -> str:
    """The arms in order."""
    names = "".join(f"<code>{esc(label)}</code> " for label in plan.labels)
    return f'<p class="bs-plan">{esc(t("Arms"))}: {names}</p>'


def verdict(word: str, text: str) -> str:
    """A text in the colour of its verdict."""
    return f'<span class="{CLASSES[word]}">{esc(text)}</span>'


def all_metrics(comparison: Comparison, t: Translate, language: str) -> str:
    """Every metric of both arms."""
    body = []
    for name, each in comparison.differences.items():
        metric = METRICS[name]
        body.append(
            [
                f'<span title="{esc(fact(metric.formula, language))}">{esc(metric_name(name, t))}</span>'
                f" <small>{esc(unit_of(metric, language))}</small>",
                esc(figure(each.a, metric.unit)), esc(figure(each.b, metric.unit)),
                verdict(each.verdict, change_words(each, t)),
                f"{each.count_a:,} / {each.count_b:,}",
            ]
        )  # fmt: skip
    head = [esc(each) for each in (
        t("number"), comparison.a.label, comparison.b.label, t("change, interval of 95 %"), t("samples a run"),
    )]  # fmt: skip
    return f'<div class="bs-metrics">{table(head, body, "")}</div>'


def outcomes(comparison: Comparison, t: Translate) -> str:
    """How the requests ended in each arm, and whether the queue kept growing."""
    body = []
    for side in (comparison.a, comparison.b):
        sums = [sum(getattr(each, name) for each in side.counts) for name in ("finished", "unfinished", "rejected")]
        states = {each.state for each in side.saturation}
        words = t("yes") if "yes" in states else t("unknown") if "unknown" in states else t("no")
        body.append([f"<b>{esc(side.label)}</b>", f"{side.runs}", *(f"{each:,}" for each in sums), esc(words)])
    head = (t("arm"), t("runs"), t("finished"), t("unfinished"), t("rejected"), t("queue kept growing"))
    return table([esc(each) for each in head], body, "")


def worse(comparison: Comparison, t: Translate) -> str:
    """What got worse; says so when nothing clearly did."""
    if not comparison.worse:
        return f'<p class="bs-quiet">{esc(t("Nothing is clearly worse; see which are unclear."))}</p>'
    lines = "".join(
        f"<li>{esc(metric_name(name, t))}: {verdict('worse', change_words(comparison.differences[name], t))}</li>"
        for name in comparison.worse
    )
    return f'<ul class="bs-list">{lines}</ul>'


def effects(attribution: Attribution, t: Translate) -> str:
    """Main effects and interactions of one metric."""
    unit = METRICS[attribution.metric].unit

    def row(part: Part) -> list[str]:
        names = " × ".join(t(FACTORS[key]) for key in part.members)
        told = f"{signed(part.value, unit)} {span(part.interval, unit)}"
        return [esc(names), esc(told), verdict(part.verdict, t(VERDICTS[part.verdict]))]

    ordered = sorted(attribution.effects, key=lambda part: (len(part.members) > 1, -abs(part.change)))
    head = [esc(each) for each in (t("decision, or decisions together"), t("effect"), t("for this number"))]
    return table(head, [row(part) for part in ordered], "")


def harm(found: Factorial, t: Translate) -> str:
    """What each decision makes worse."""
    items = [
        f"<li>{esc(t(FACTORS[key]))}: {verdict('worse', ', '.join(metric_name(name, t) for name in names))}</li>"
        for key, names in found.harm.items()
        if names
    ]
    if not items:
        return f'<p class="bs-quiet">{esc(t("No share of a decision is clearly a loss."))}</p>'
    return f'<ul class="bs-list">{"".join(items)}</ul>'


def ledger_table(lines: Sequence[Line], before: str, after: str, t: Translate, language: str) -> str:
    """The ledger in numbers."""
    body = []
    for line in lines:
        change = percent(line.after / line.before - 1) if line.before else ("0 %" if not line.after else "–")
        sign = ""
        if line.waste and line.before != line.after:
            sign = verdict(*(("better", "▲") if line.after < line.before else ("worse", "▼")))
        group = f"{t(GROUPS[line.group])} · " if line.group else ""
        name = t(PARTS[line.name]) if line.name in PARTS else t(COUNTS[line.name])
        numbers = [f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" for value in (line.before, line.after)]
        body.append([esc(group + name), esc(unit(line.unit).told(language)), *numbers, f"{sign} {esc(change)}"])
    return table([esc(each) for each in (t("where it went"), t("unit"), before, after, t("change"))], body, "")


def knee_words(scope: Microscope, t: Translate, language: str) -> str:
    """Where the knee is, or why there is none."""
    knee = scope.knee
    if knee.chunk_tokens is None:
        return esc(t("No knee: {why}.", why=fact(knee.why_none, language)))
    share = t("{n} of the resamples agree", n=f"{knee.agreement:.0%}") if knee.agreement is not None else ""
    return esc(t("Knee at {n} tokens: larger chunks help long prompts less than they hurt the others.",
                 n=f"{knee.chunk_tokens:,}")) + (f" ({esc(share)})" if share else "")  # fmt: skip


def microscope_table(scope: Microscope, t: Translate) -> str:
    """The points in numbers."""
    body = [
        [
            f"{point.chunk_tokens:,}", f"{point.runs}",
            f"{esc(figure(point.long_ttft_s, 's'))} <small>{_between(point.long_ttft_interval)}</small>",
            f"{point.long_count:,}",
            f"{esc(figure(point.others_itl_p99_s, 's'))} <small>{_between(point.others_itl_interval)}</small>",
            f"{point.gap_count:,}",
        ]
        for point in scope.points
    ]  # fmt: skip
    head = (
        t("chunk size (tokens)"),
        t("runs"),
        t("long prompts: median TTFT"),
        t("samples a run"),
        t("the others: ITL p99"),
        t("samples a run"),
    )
    return table([esc(each) for each in head], body, "")


def _between(interval: object) -> str:
    low, high = getattr(interval, "low", None), getattr(interval, "high", None)
    return "" if low is None else esc(f"{figure(low, 's')} … {figure(high, 's')}")


def gaming_words(found: Mapping[str, Sequence[Gaming]], t: Translate) -> str:
    """Where a higher score would have been no better service."""
    items = []
    for label, many in found.items():
        for each in many:
            if each.kind == "delay":
                text = t("{arm}: holding back the first tokens of {n} requests would have raised the goodput from "
                         "{old} to {new} a second without serving anybody better.", arm=label, n=f"{each.requests:,}",
                         old=f"{each.goodput_rps:.3g}", new=f"{each.could_be_rps:.3g}")  # fmt: skip
            else:
                text = t("{arm}: {share} of all tokens were computed for {n} requests whose limit was already missed; "
                         "giving those up would have raised the score.", arm=label, n=f"{each.requests:,}",
                         share=f"{each.share:.1%}")  # fmt: skip
            items.append(f"<li>{esc(text)}</li>")
    return f'<ul class="bs-list bs-amber">{"".join(items)}</ul>' if items else ""


def rosetta_table(found: Rosetta, t: Translate, language: str) -> str:
    """The same run under every tool's definition; what differs is marked."""
    body = []
    for quantity, own in found.ours.items():
        name = f"<b>{esc(t(QUANTITIES[quantity]))}</b>"
        body.append([name, esc(t("this project")), *_stats(own), "", ""])
        for cell in (each for each in found.cells if each.definition.quantity == quantity):
            what = cell.definition
            tool = TOOLS[what.tool] + (f" ({t(VARIANTS.get(what.variant, what.variant))})" if what.variant else "")
            mark = verdict("unclear", t("≠ differs")) if cell.differs else verdict("better", t("= same"))
            formula, differs = fact(what.formula, language), fact(what.difference, language)
            told = f"<small>{esc(formula)}<br><i>{esc(differs)}</i></small>"
            body.append(["", esc(tool), *_stats(cell.values), mark, told])
    head = (t("number"), t("by"), *STATS, t("against ours"), t("how it is computed there"))
    return f'<div class="bs-rosetta">{table([esc(each) for each in head], body, "")}</div>'


def _stats(values: Mapping[str, float] | None) -> list[str]:
    return [esc(figure(values[stat], "s")) if values else "–" for stat in STATS]


def notes(texts: Iterable[str]) -> str:
    """What a reader must know; "" for nothing."""
    items = "".join(f"<li>{esc(text, 400)}</li>" for text in texts)
    return f'<ul class="bs-list bs-amber">{items}</ul>' if items else ""


def kind_word(kind: str, t: Translate) -> str:
    """What a kind of experiment is called."""
    return t(KINDS[kind]) if kind in KINDS else kind
