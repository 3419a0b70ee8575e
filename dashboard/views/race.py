"""What a race says, as HTML. All text is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from dashboard.experiments.racing import Shown
from dashboard.experiments.told import fact
from dashboard.i18n import N_, Translate
from dashboard.views.markup import esc, table
from experiments.virtual.fit import HeldOutError
from experiments.virtual.forecast import Ghost, Series
from experiments.virtual.race import Check

STAGES: Final = {
    "none": N_("No race yet. The presenter forks the live iteration; both policies go on from it on a virtual clock."),
    "making": N_("The forecasts are being made."),
    "following": N_("The real run goes on beside its forecasts."),
    "over": N_("The real run has gone as far as the forecasts."),
    "failed": N_("No race: {problem}"),
}  # fmt: skip
ASSUMED: Final = {
    "drawn_lengths": N_("{n} outputs: lengths drawn from those of finished requests"),
    "full_lengths": N_("{n} outputs: taken to reach max_tokens"),
    "prompt_lengths": N_("{n} prompts: tokens guessed from characters"),
}  # fmt: skip


def stage(shown: Shown, t: Translate, language: str, *, held: bool) -> str:
    """One line on where the race is."""
    words = (
        t(STAGES[shown.stage], problem=fact(shown.problem, language))
        if shown.stage == "failed"
        else t(STAGES[shown.stage])
    )
    if shown.race is not None:
        words += " " + t("Forked after iteration {step}; made in {time} s.",
                         step=f"{shown.race.control.from_step:,}", time=f"{shown.seconds:.1f}")  # fmt: skip
    if held and shown.stage == "following":
        words += " " + t("The live engine is held, so its line stands still.")
    return f'<p class="bs-plan" id="bs-race" data-stage="{esc(shown.stage)}">{esc(words)}</p>'


def numbers(shown: Shown, t: Translate) -> str:
    """Both forecasts in numbers, the error of the step model, what they rest on, and the check."""
    made = shown.race
    if made is None:
        return "<span></span>"
    reach = min(
        (g.series.times_s[-1] for g in (made.control, made.rival) if g.series.times_s), default=made.control.from_s
    )
    seconds = reach - made.control.from_s
    head = [esc(each) for each in (t("within {n} s", n=f"{seconds:.1f}"), t("as it was"), f"B: {shown.name}")]
    body = [
        [esc(name), *(esc(each) for each in values)]
        for name, values in _rows(made.control, made.rival, reach, t).items()
    ]
    parts = [table(head, body, ""), _error(made.fitted.held_out_error, t)]
    assumed = {**made.assumptions}
    told = [t(ASSUMED[name], n=count) for name, count in assumed.items() if name in ASSUMED]
    told += [t("{n} things of the live iteration are guessed", n=sum(made.guesses.values()))] if made.guesses else []
    if told:
        parts.append(f'<p class="bs-quiet">{esc(t("Both rest on"))}: {esc("; ".join(told))}.</p>')
    if shown.checked is not None:
        parts.append(_check(shown.checked, shown, t))
    return "".join(parts)


def _rows(one: Ghost, other: Ghost, reach: float, t: Translate) -> Mapping[str, tuple[str, str]]:
    sides = [_numbers(ghost.series, reach) for ghost in (one, other)]
    names = (t("tokens delivered"), t("requests waiting"), t("preemptions"), t("TTFT, median"), t("ITL, p99"))
    return {name: (sides[0][n], sides[1][n]) for n, name in enumerate(names)}


def _numbers(series: Series, reach: float) -> tuple[str, str, str, str, str]:
    at = int(np.searchsorted(series.times_s, reach, side="right")) - 1
    firsts, gaps = list((series.ttft_s or {}).values()), series.gaps_s
    return (
        f"{series.tokens[at]:,}" if at >= 0 else "–",
        f"{series.waiting[at]:,}" if at >= 0 else "–",
        f"{series.preemptions[at]:,}" if at >= 0 else "–",
        f"{1e3 * float(np.median(firsts)):,.0f} ms (n {len(firsts)})" if firsts else "–",
        f"{1e3 * float(np.quantile(gaps, 0.99)):,.1f} ms (n {len(gaps):,})" if gaps else "–",
    )


def _error(error: HeldOutError, t: Translate) -> str:
    words = t(
        "Iteration times are predicted from {n} iterations of this run; on others, held out, total time is off by "
        "{total}, a single one by {one} (median).",
        n=f"{error.num_steps:,}", total=f"{error.total_time:.1%}", one=f"{error.median_step:.1%}",
    )  # fmt: skip
    return f'<p class="bs-plan" id="bs-held-out">{esc(words)}</p>'


def _check(found: Check, shown: Shown, t: Translate) -> str:
    who = t("B") if shown.is_real else t("the policy in force")
    head = [esc(each) for each in (t("check of the forecast, {who}", who=who), t("forecast"), t("real"))]
    body = [
        [esc(t("tokens in {n} s", n=f"{found.seconds:.1f}")), f"{found.tokens_forecast:,}",
         f"{found.tokens:,} <small>({found.tokens_error:.1%})</small>"],
        [esc(t("TTFT, median")), _ms(found.ttft_forecast_p50_s),
         f"{_ms(found.ttft_p50_s)} <small>(n {found.ttft_count})</small>"],
        [esc(t("iterations scheduled alike")), "", f"{found.identical_steps:,} / {found.num_steps:,}"],
        [esc(t("waiting, mean distance")), "", f"{found.queue_error:.1f}"],
    ]  # fmt: skip
    if found.step_times is not None:
        body.append([esc(t("iteration times, total")), "", f"{found.step_times.total_time:.1%}"])
    late = ""
    if found.started_late:
        late = t("{n} iterations passed between the fork and the policy's coming into force; they are not compared.",
                 n=found.started_late)  # fmt: skip
    return table(head, body, "") + (f'<p class="bs-quiet">{esc(late)}</p>' if late else "")


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{1e3 * value:,.0f} ms"
