"""Numbers that somebody writes into a box: what each may be, and what is said of one that cannot be. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dashboard.i18n import N_, Translate
from experiments.runs.spec import SpecError

WHOLE: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
DECIMAL: Final = re.compile(r"[+-]?(\d{1,18}(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
MOST_TOKENS: Final = 10_000_000
"""Of one prompt or output, as ``experiments.traces`` takes them."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a box takes: numbers from low to high, both included. may_be_empty: a blank box means "not given"."""

    low: float
    high: float
    whole: bool = False
    may_be_empty: bool = False

    def wanted(self, t: Translate) -> str:
        """As "a whole number from 1 to 50"."""
        low, high = shown(self.low), shown(self.high)
        return t(RANGE_WORDS[self.whole, self.may_be_empty], low=low, high=high)


RANGE_WORDS: Final = {
    (True, False): N_("a whole number from {low} to {high}"),
    (True, True): N_("a whole number from {low} to {high}, or nothing"),
    (False, False): N_("a number from {low} to {high}"),
    (False, True): N_("a number from {low} to {high}, or nothing"),
}
COUNT: Final = Range(1, 1_000_000, whole=True, may_be_empty=True)
TOKENS: Final = Range(1, MOST_TOKENS, whole=True)
FACTOR: Final = Range(0.001, 1000)
SECONDS: Final = Range(0.001, 3600, may_be_empty=True)
RATE: Final = Range(0.01, 100_000)

REQUESTS_AT_ONCE: Final = Range(1, 1024, whole=True, may_be_empty=True)
TOKEN_BUDGET: Final = COUNT
STYLE_RATE: Final = Range(0.01, 100_000, may_be_empty=True)

RANGES: Final = {
    "repeats": Range(1, 50, whole=True), "seed": Range(0, 2**31, whole=True),
    "num_requests": Range(1, 20_000, whole=True), "style_rate": STYLE_RATE, "prompt_factor": FACTOR,
    "output_factor": FACTOR, "time_factor": FACTOR, "max_model_len": Range(2, 1_000_000, whole=True),
    "num_blocks": Range(2, 1_000_000, whole=True), "seconds_per_step": Range(0.0001, 3600),
    "long_prompt_len": Range(2, 1_000_000, whole=True), "ttft_s": SECONDS, "tpot_s": SECONDS, "e2e_s": SECONDS,
    "seqs": REQUESTS_AT_ONCE, "budget": TOKEN_BUDGET,
    "rate": RATE, "burstiness": Range(0.01, 1000), "size": Range(0, 1_000_000, whole=True),
    "every_s": Range(0.001, 86_400), "burst": Range(1, 1_000_000), "silence_s": Range(0.001, 86_400),
    "least_s": Range(0, 86_400), "median": Range(1, MOST_TOKENS), "sigma": Range(0, 5), "low": TOKENS, "high": TOKENS,
    "tokens": TOKENS, "short": TOKENS, "long": TOKENS, "share": Range(0, 1), "spread": Range(0, 0.99),
    "mean": Range(1, MOST_TOKENS), "cap": TOKENS,
}  # fmt: skip
"""By the last part of a box's name: of "arrivals.gamma.rate" that is "rate". What two boxes forbid together, such as
a largest below a smallest length, is found later, when the workload is made."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A box whose text is no number that it takes. labels: what stands over it, in English, the group's first."""

    labels: tuple[str, ...]
    text: str
    range: Range

    def words(self, t: Translate) -> str:
        """Box, value, and what would be right."""
        field = ": ".join(t(label) for label in self.labels)
        value = f"“{self.text[:40]}”" if self.text.strip() else t("empty")
        return t("{field} is {value}; {wanted} is needed", field=field, value=value, wanted=self.range.wanted(t))


class FieldsError(SpecError):
    """Boxes of a form that cannot be read: key -> what is wrong with it."""

    def __init__(self, wrong: Mapping[str, Wrong]) -> None:
        self.wrong = wrong
        super().__init__(self.words(lambda message, **values: message.format(**values)))

    def words(self, t: Translate) -> str:
        """All of them."""
        return "; ".join(each.words(t) for each in self.wrong.values())


def range_of(name: str) -> Range:
    """Of a box by its name."""
    return RANGES[name.rpartition(".")[2]]


def shown(value: float | None) -> str:
    """A number as its box shows it at first."""
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:g}"


def number_in(text: str, allowed: Range) -> float | int | None:
    """The number a box holds, None for an empty one. Raises ValueError for what the range does not allow."""
    text = text.strip()
    if not text and allowed.may_be_empty:
        return None
    if not (WHOLE if allowed.whole else DECIMAL).fullmatch(text):
        raise ValueError(text)
    value = int(text) if allowed.whole else float(text)
    if not allowed.low <= value <= allowed.high:
        raise ValueError(text)
    return value
