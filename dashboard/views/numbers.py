"""The tables beside the charts of epochs, and the definitions behind them, as HTML. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dashboard.charts.epochs import inks
from dashboard.charts.theme import Theme
from dashboard.epoch_rows import EpochSummary, Goodput, Summary
from dashboard.epoch_tables import SHORT, changes_words, labels
from dashboard.i18n import N_, Translate
from dashboard.samples import CAPACITY, QUANTILES, needed
from dashboard.views.markup import esc, table

TITLES: Final = {
    "ttft": N_("TTFT: time to first token"),
    "itl": N_("ITL: between two tokens"),
    "tpot": N_("TPOT: time per output token"),
    "queue": N_("Queue time"),
    "e2e": N_("End to end"),
}
FORMULAS: Final = {
    "ttft": (
        "first token − arrival",
        "vllm:time_to_first_token_seconds",
        N_("Once a request, when its first token comes. Requests that go on after a restart of the worker have none."),
    ),
    "itl": (
        "token[i] − token[i−1]",
        "vllm:inter_token_latency_seconds",
        N_("Every gap of every request, pooled: long answers weigh more. It belongs to the epoch of the later token. "
           "Some tools call TPOT \"ITL\"."),
    ),
    "tpot": (
        "(last token − first token) / (output tokens − 1)",
        "vllm:request_time_per_output_token_seconds",
        N_("One value a finished request of two tokens and more: the mean of its gaps, in which one long gap hides."),
    ),
    "queue": (
        "first admission − arrival",
        "vllm:request_queue_time_seconds",
        N_("Up to the first admission, so that a preemption does not move it; vLLM measures up to the most recent "
           "one, which differs for preempted requests only."),
    ),
    "e2e": (
        "end − arrival",
        "vllm:e2e_request_latency_seconds",
        N_("Finished requests only, preemptions included."),
    ),
    "goodput": (
        "requests with TTFT ≤ a and TPOT ≤ b",
        "request_goodput (vllm bench serve)",
        N_("Share: of the requests that ended. One that was aborted or rejected counts as not good, one that has not "
           "ended is not counted yet. Rate: good requests a second of engine time. DistServe (OSDI 2024) calls goodput "
           "the highest rate that keeps such a share; this page measures the share at the present rate."),
    ),
}  # fmt: skip
"""Metric -> (formula, vLLM's name, what to know)."""
STROKES: Final = ("solid", "solid", "dashed", "dotted", "dashed")


def definitions(t: Translate) -> str:
    """What each number means."""
    body = [
        (f"<b>{esc(t(SHORT[name]) if name in SHORT else t('Goodput'))}</b>",
         f"<code>{esc(formula)}</code><br><small>{esc(t('in vLLM'))}: {esc(vllm)}</small>", esc(t(note)))
        for name, (formula, vllm, note) in FORMULAS.items()
    ]  # fmt: skip
    rules = (
        t("An epoch begins when a decision of the policy changes, or another model or KV pool is started. Pace, pause "
          "and going one iteration at a time change nothing. A request belongs to the epoch in which it was "
          "first admitted."),
        t("Spanning: it arrived or ended in another epoch, or lived over a restart. Leave these out to compare "
          "policies; then n is smaller."),
        t("Time is engine time: it stands still while the engine is paused or slowed down on purpose."),
        t("Of each epoch and metric {n} samples are kept, chosen evenly from all of them. A percentile shows where at "
          "least one sample is expected beyond it: p50 from 2 on, p90 from 10, p95 from 20, p99 from 100.",
          n=f"{CAPACITY:,}"),
        t("Idle slots are free places of a static batch while requests wait, one a slot and iteration: a decode could "
          "have computed one token there."),
    )  # fmt: skip
    head = (t("number"), t("formula"), t("what to know"))
    return table(head, body, "") + "".join(f'<p class="bs-note">{esc(rule)}</p>' for rule in rules)


def swatch(place: int, theme: Theme) -> str:
    """The stroke of an epoch's curve."""
    width = 3 if place == 0 else 2
    return f'<i class="bs-stroke" style="border-top:{width}px {STROKES[place]} {inks(theme)[place]}"></i>'


def _value(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def _cell(value: float | None, q: int, kept: int, t: Translate) -> str:
    if value is not None:
        return _value(value)
    why = t("p{q} needs {n} samples, there are {kept}", q=q, n=needed(q), kept=kept)
    return f'<abbr title="{esc(why)}" aria-label="{esc(why)}">–</abbr>'


def _named(place: int, name: str, epoch: EpochSummary, theme: Theme, t: Translate) -> str:
    words = changes_words(epoch, t)
    return f'{swatch(place, theme)} <b>{esc(name)}</b> <span title="{esc(words)}">{esc(words)}</span>'


def percentiles(epochs: Sequence[EpochSummary], metric: str, theme: Theme, t: Translate, *, whole_only: bool) -> str:
    """The percentiles of one metric, a row an epoch, the newest first."""
    body = []
    for place, (epoch, name) in enumerate(zip(epochs, labels(epochs), strict=True)):
        spread = epoch.spreads[metric, whole_only]
        cells = [_cell(v, q, spread.kept, t) for q, v in zip(QUANTILES, spread.values, strict=True)]
        count = f"{spread.n:,}"
        if spread.kept < spread.n:
            count = f'<abbr title="{esc(t("{n} of them are kept", n=f"{spread.kept:,}"))}">{count}</abbr>'
        body.append((_named(place, name, epoch, theme, t), *cells, count, f"{spread.spanning:,}"))
    head = (t("epoch"), *(f"p{q} ms" for q in QUANTILES), "n", t("spanning"))
    return f'<div class="bs-epochs">{table(head, body, esc(t("Nothing was computed yet.")))}</div>'


def goodput_table(epochs: Sequence[EpochSummary], goods: Sequence[Goodput], t: Translate) -> str:
    """Share and rate within the limits, and what became of all requests."""
    body = []
    for name, epoch, good in zip(labels(epochs), epochs, goods, strict=True):
        share = "–" if good.share is None else f"<b>{good.share:.0%}</b>"
        rate = "–" if good.per_s is None else f"{good.per_s:.2f}"
        ended = epoch.ended
        body.append(
            (
                f"<b>{esc(name)}</b>", share, rate, f"{good.good:,} / {good.judged:,}", f"{good.unknown:,}",
                f"{ended['finished']:,}", f"{ended['aborted']:,}", f"{ended['rejected']:,}", f"{epoch.unfinished:,}",
            )
        )  # fmt: skip
    head = (
        t("epoch"), t("good"), t("good / s"), t("of judged"), t("unknown"), t("finished"), t("aborted"),
        t("rejected"), t("unfinished"),
    )  # fmt: skip
    return f'<div class="bs-epochs">{table(head, body, esc(t("Nothing was computed yet.")))}</div>'


def missed(summary: Summary | None, t: Translate) -> str:
    """What is not in the numbers; "" when nothing is missing."""
    if summary is None or not summary.missed_steps:
        return ""
    words = t("{n} iterations were not followed (no page was open, or messages were lost): "
              "what ended in them is in no number here.", n=f"{summary.missed_steps:,}")  # fmt: skip
    return f'<p class="bs-quiet">{esc(words)}</p>'
