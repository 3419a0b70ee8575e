"""Numbers of each policy epoch side by side: distributions, what tokens were for, goodput, tables to take away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import engine
from dashboard.charts.specs import epoch_specs
from dashboard.charts.theme import THEMES
from dashboard.column_words import chosen_rows, heads
from dashboard.downloads import csv_button
from dashboard.elements import guarded, title, trouble, vega
from dashboard.engine import Engine
from dashboard.epoch_rows import EpochSummary, Goodput, Summary, goodput
from dashboard.epoch_tables import SHARES, SHORT, TOKENS, shown, spread_data, tokens_data
from dashboard.epochs import METRICS
from dashboard.i18n import N_, Translate, translator
from dashboard.number_frames import (
    curves_frame,
    epochs_frame,
    events_frame,
    requests_frame,
    split_frame,
    steps_frame,
)
from dashboard.spread_axis import EVEN, LOG
from dashboard.views import numbers as views
from dashboard.views.markup import scroll
from dashboard.visit import is_presenter, visit

TICK_S: Final = 1.0
LIMITS: Final = (*(f * 10**p for p in range(4) for f in (1, 2, 3, 5, 7)), 10_000, 20_000, 30_000, 60_000)
"""Milliseconds a limit can be set to."""
DEFAULT_LIMITS: Final = (1_000, 100)
SHOWN_ROWS: Final = 500
TABLE_HEIGHT: Final = 330
TABLES: Final = {
    "requests": N_("requests"), "steps": N_("iterations"), "events": N_("events"), "epochs": N_("epochs"),
}  # fmt: skip


def draw() -> None:
    """Numbers that tick once a second, and below them tables that stand still until they are asked for anew; those are
    for the desk."""
    seen = visit()
    numbers(seen.language, seen.theme_name)
    if not seen.projector:
        tables(seen.language)


@st.fragment(run_every=TICK_S, key="numbers")
def numbers(language: str, theme_name: str) -> None:
    """One tick."""
    running, t, theme = engine.shared(), translator(language), THEMES[theme_name]
    running.hub.frame()
    summary = running.hub.epochs.summary()
    epochs = shown(summary)
    metric, whole_only = _choose(t)
    trouble(running.client.state, t, has_controls=is_presenter())
    wide, side = st.columns([1.12, 1.0])
    with wide:
        _spread(epochs, metric, epoch_specs(theme_name, language)["spread"], t, whole_only=whole_only)
    with side:
        guarded(lambda: st.html(title(t("Percentiles by epoch"), t("the newest first"))), "percentiles title")
        inner = views.percentiles(epochs, metric, theme, t, whole_only=whole_only) + views.missed(summary, t)
        guarded(lambda: st.html(scroll(inner, 216)), "percentiles")
    wide, side = st.columns([1.12, 1.0])
    with wide:
        _tokens(epochs, theme_name, language, t)
    with side:
        _goodput(summary, epochs, t, whole_only=whole_only)


def _choose(t: Translate) -> tuple[str, bool]:
    pick, part, words = st.columns([2.6, 1.5, 0.9], vertical_alignment="center")
    with pick:
        metric = st.segmented_control(
            t("Number"), list(METRICS), key="numbers.metric", default="ttft", required=True, width="stretch",
            format_func=lambda name: t(SHORT[name]), label_visibility="collapsed",
            help=t("What is compared. Its formula stands under Definitions."),
        )  # fmt: skip
    with part:
        whole_only = st.toggle(
            t("Leave out what spans epochs"), key="numbers.whole",
            help=t("Counts only what began and ended under one policy, in one life of the worker."),
        )  # fmt: skip
    with (
        words,
        st.popover(
            t("Definitions"), width="stretch", help=t("How each number is worked out, and what is left out of it.")
        ),
    ):
        st.html(f'<div class="bs-defs">{views.definitions(t)}</div>')
    return metric or "ttft", whole_only


def _spread(
    epochs: list[EpochSummary], metric: str, chart: Mapping[str, Any], t: Translate, *, whole_only: bool
) -> None:
    head, pick = st.columns([2.2, 1.0], vertical_alignment="center")
    with head:
        st.html(title(t(views.TITLES[metric]), t("share of the samples that are at most so long")))
    with pick:
        scale = st.segmented_control(
            t("Axis"), [LOG, EVEN], key="numbers.axis", default=LOG, required=True, width="stretch",
            format_func=lambda name: t("log") if name == LOG else t("linear"), label_visibility="collapsed",
            help=t("A logarithmic axis shows all samples, to the longest. A linear one ends where most of them do, and "
                   "says how many lie beyond."),
        )  # fmt: skip
    data = spread_data(epochs, metric, t, whole_only=whole_only, scale=scale or LOG)
    alt = t("distribution of {metric}, a curve an epoch", metric=t(SHORT[metric]))
    guarded(lambda: vega(chart, data, alt), "spread")


def _tokens(epochs: list[EpochSummary], theme_name: str, language: str, t: Translate) -> None:
    head, pick = st.columns([2.2, 1.0], vertical_alignment="center")
    with head:
        st.html(title(t("What the tokens were for"), t("useful: prefill and decode")))
    with pick:
        unit = st.segmented_control(
            t("Unit"), [SHARES, TOKENS], key="numbers.unit", default=SHARES, required=True, width="stretch",
            format_func=lambda name: t("shares") if name == SHARES else t("tokens"), label_visibility="collapsed",
            help=t("Shares compare epochs of unequal length; tokens show how much there was."),
        )  # fmt: skip
    data = tokens_data(epochs, unit or SHARES)
    chart = epoch_specs(theme_name, language)["tokens"]
    guarded(lambda: vega(chart, data, t("tokens by what they were for, a bar an epoch")), "tokens")


@lru_cache(maxsize=16)
def _goods(summary: Summary, ttft_ms: float, tpot_ms: float, whole_only: bool) -> tuple[Goodput, ...]:
    """Of the shown epochs; for all pages that look at the same limits."""
    rows = summary.requests
    return tuple(goodput(epoch, rows, ttft_ms, tpot_ms, whole_only=whole_only) for epoch in shown(summary))


def _limits() -> tuple[float, float]:
    state = st.session_state
    return state.get("numbers.ttft", DEFAULT_LIMITS[0]), state.get("numbers.tpot", DEFAULT_LIMITS[1])


def _goodput(summary: Summary | None, epochs: list[EpochSummary], t: Translate, *, whole_only: bool) -> None:
    st.html(title(t("Goodput"), t("requests that meet both limits")))
    left, right = st.columns(2)
    words = t("A request is good when it finishes within both limits.")
    with left:
        ttft = st.select_slider(t("TTFT at most (ms)"), LIMITS, DEFAULT_LIMITS[0], key="numbers.ttft", help=words)
    with right:
        tpot = st.select_slider(t("TPOT at most (ms)"), LIMITS, DEFAULT_LIMITS[1], key="numbers.tpot", help=words)
    goods = _goods(summary, ttft, tpot, whole_only) if summary else ()
    guarded(lambda: st.html(scroll(views.goodput_table(epochs, goods, t), 118)), "goodput")


@st.fragment
def tables(language: str) -> None:
    """Tables to sort, filter and take away. They do not tick: a table that moves cannot be read."""
    running, t = engine.shared(), translator(language)
    pick, search, again, *saves = st.columns([2.9, 1.8, 0.85, 1.2, 1.25, 1.25], vertical_alignment="center")
    with pick:
        which = st.segmented_control(
            t("Table"), list(TABLES), key="numbers.table", default="requests", required=True, width="stretch",
            format_func=lambda name: t(TABLES[name]), label_visibility="collapsed", help=t("Which table is shown."),
        ) or "requests"  # fmt: skip
    with search:
        text = st.text_input(
            t("Filter"), key="numbers.filter", placeholder=t("Filter rows by words"), max_chars=200,
            label_visibility="collapsed", help=t("Rows that have every one of these words, in any column."),
        )  # fmt: skip
    with again:
        st.button(t("Refresh"), key="numbers.refresh", width="stretch", help=t("The table as it is now."))
    whole_only = bool(st.session_state.get("numbers.whole"))
    make = _maker(running, which, _limits(), whole_only)
    with saves[0]:
        csv_button(t("Table as CSV"), lambda: chosen_rows(make(), text, t)[1], which, "numbers.csv", t)
    book = running.hub.epochs
    with saves[1]:
        curves = partial(_all_curves, book.summary, whole_only)
        csv_button(t("Curves as CSV"), curves, "curves", "numbers.curves", t)
    with saves[2]:
        csv_button(t("Tokens as CSV"), lambda: split_frame(book.summary()), "tokens", "numbers.split", t)
    table, _ = chosen_rows(make(), text, t)
    more = t("{n} rows, the newest {shown} are shown; a click on a head sorts. The file has all.",
             n=f"{len(table):,}", shown=f"{min(SHOWN_ROWS, len(table)):,}")  # fmt: skip
    st.html(title(t(TABLES[which]), more))
    st.dataframe(
        table.head(SHOWN_ROWS), key=f"numbers.rows.{which}", hide_index=True, height=TABLE_HEIGHT, row_height=28,
        placeholder="–", alt=t("table of {what}", what=t(TABLES[which])), column_config=_columns(table, t),
    )  # fmt: skip


def _columns(table: pd.DataFrame, t: Translate) -> dict[str, Any]:
    return {
        name: st.column_config.Column(words["label"], help=words["help"])
        for name, words in heads(list(table.columns), t).items()
    }


def _all_curves(summary: Callable[[], Summary | None], whole_only: bool) -> pd.DataFrame:
    now = summary()
    return pd.concat([curves_frame(now, metric, whole_only=whole_only) for metric in METRICS], ignore_index=True)


def _maker(running: Engine, which: str, limits: tuple[float, float], whole_only: bool) -> Callable[[], pd.DataFrame]:
    """What makes a table as of the moment it is called."""
    book, client = running.hub.epochs, running.client

    def requests() -> pd.DataFrame:
        summary = book.summary()
        return requests_frame(summary.requests if summary else ())

    makers: dict[str, Callable[[], pd.DataFrame]] = {
        "requests": requests,
        "steps": lambda: steps_frame(client.history()),
        "events": lambda: events_frame(client.history()),
        "epochs": lambda: epochs_frame(book.summary(), limits, whole_only=whole_only),
    }
    return makers[which]
