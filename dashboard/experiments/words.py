"""Names and numbers of experiments as the page writes them."""

from __future__ import annotations

from typing import Final

from dashboard.i18n import N_, Translate
from experiments.analysis.bootstrap import Interval
from experiments.analysis.comparison import Difference
from experiments.analysis.metrics import METRICS, Metric
from experiments.cards.said import unit

FAMILIES: Final = {
    "ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": N_("End to end"), "queue": N_("Queue time"),
    "queue_recent": N_("Queue time to the last admission"),
}  # fmt: skip
NAMES: Final = {
    "output_tokens_per_s": N_("Output tokens / s"),
    "total_tokens_per_s": N_("All tokens / s"),
    "request_rps": N_("Requests / s"),
    "goodput_rps": N_("Goodput (requests / s)"),
    "slo_attainment": N_("Requests within the limits"),
    "preemptions_per_request": N_("Preemptions a request"),
    "recompute_tokens_per_request": N_("Tokens computed again a request"),
    "padding_tokens_per_request": N_("Padding tokens a request"),
}
KINDS: Final = {
    "ab": N_("A/B on one trace"), "factorial": N_("Whose improvement is it?"), "chunk": N_("Chunk microscope"),
    "single": N_("One arm"), "whatif": N_("What if"),
}  # fmt: skip
STATES: Final = {
    "loading": N_("loading the model"), "running": N_("running"), "done": N_("done"), "cancelled": N_("cancelled"),
    "failed": N_("failed"), "interrupted": N_("interrupted"),
}  # fmt: skip
VERDICTS: Final = {"better": N_("▲ better"), "worse": N_("▼ worse"), "unclear": N_("? unclear")}
"""A sign and a word: no verdict is told by its colour alone."""
FACTORS: Final = {
    "iteration": N_("iteration-level batching"), "paged": N_("paged allocation"),
    "optimistic": N_("optimistic admission + preemption"), "chunked": N_("chunked prefill"),
}  # fmt: skip
ROUTING_WORDS: Final = {
    "round_robin": N_("round robin"), "least_outstanding": N_("least outstanding"),
    "two_choices": N_("better of two drawn"),
}  # fmt: skip
"""Ways to choose a replica."""
MANY_S: Final = 90.0


def metric_name(name: str, t: Translate) -> str:
    """What a metric is called."""
    if name in NAMES:
        return t(NAMES[name])
    metric = METRICS[name]
    family = t(FAMILIES[metric.family]) if metric.family in FAMILIES else metric.family
    return f"{family} {t('mean') if metric.stat == 'mean' else metric.stat}"


def figure(value: float | None, unit: str) -> str:
    """A value with its unit; seconds as milliseconds below ten of them."""
    if value is None:
        return "–"
    if unit == "s":
        return f"{1e3 * value:,.{_places(1e3 * value)}f} ms" if abs(value) < 10 else f"{value:,.1f} s"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,.{_places(value)}f}"


def signed(value: float, unit: str) -> str:
    """``figure`` with its sign, also a plus."""
    return f"{'+' if value >= 0 else '−'}{figure(abs(value), unit)}"


def _places(value: float) -> int:
    size = abs(value)
    return 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 or not size else 4


def percent(share: float) -> str:
    """A change as "+12.3 %"; of four digits and more as a factor."""
    if not share:
        return "0 %"
    if share >= 9:
        return f"×{share + 1:,.0f}"
    return f"{'+' if share >= 0 else '−'}{abs(100 * share):.1f} %"


def change_words(difference: Difference, t: Translate) -> str:
    """ "▲ better  +12.3 % (+9.1 … +15.5 %)"; where the baseline is 0, both values."""
    metric = METRICS[difference.metric]
    word = t(VERDICTS[difference.verdict])
    if difference.a is None or difference.b is None:
        return t("no samples in an arm")
    if difference.ratio is None:
        return f"{word}  {figure(difference.a, metric.unit)} → {figure(difference.b, metric.unit)}"
    told = percent(difference.ratio - 1)
    between = relative(difference)
    if between is not None:
        told += f" ({percent(between[0])} … {percent(between[1])})"
    return f"{word}  {told}"


def relative(difference: Difference) -> tuple[float, float] | None:
    """The interval of the change, as the card of the same runs has it; it excludes 0 where the verdict is clear."""
    between = difference.ratio_interval
    return None if between is None else (between.low - 1, between.high - 1)


def span(between: Interval | None, unit: str) -> str:
    """ "(+1.2 … +3.4)", or "" without an interval."""
    return "" if between is None else f"({signed(between.low, unit)} … {signed(between.high, unit)})"


def duration(seconds: float, t: Translate) -> str:
    """ "40 s", "6 min" or "2.5 h"."""
    if seconds < MANY_S:
        return t("{n} s", n=f"{seconds:.0f}")
    if seconds < 60 * MANY_S:
        return t("{n} min", n=f"{seconds / 60:.0f}")
    return t("{n} h", n=f"{seconds / 3600:.1f}")


def unit_of(metric: Metric, language: str) -> str:
    """Behind a number of the metric; "" where ``figure`` says it."""
    return "" if metric.unit in ("s", "share") else unit(metric.unit).told(language)
