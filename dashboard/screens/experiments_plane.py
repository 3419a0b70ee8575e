"""The goodput plane, and two sliders that read its values."""

from __future__ import annotations

import streamlit as st

from dashboard.charts.experiment_specs import experiment_spec
from dashboard.elements import title, vega
from dashboard.experiments import tables
from dashboard.experiments.findings import Findings
from dashboard.i18n import Translate, translator
from dashboard.views import experiments as views
from dashboard.views.markup import esc
from experiments.analysis.goodput_plane import Race


def plane(found: Findings, theme_name: str, language: str) -> None:
    """Who has more goodput at which pair of limits."""
    t, both = translator(language), found.plane
    assert both is not None
    more = t("stronger colour = larger difference; grey = within the interval; line = the winner changes")
    st.html(title(t("Goodput at every pair of limits"), more))
    left, right = st.columns([2.2, 1.0])
    with right:
        here = (
            _limit("ttft", both.a.ttft_limits_s, t("TTFT at most"), t),
            _limit("tpot", both.a.tpot_limits_s, t("TPOT at most"), t),
        )
        st.html(_read(both, found, here, t))
        warned = views.gaming_words(found.gaming, t)
        if warned:
            st.html(title(t("How the score could be gamed")) + warned)
    with left:
        data = tables.plane_data(both, found.before, found.after, here, t)
        vega(experiment_spec("plane", theme_name, language), data, t("goodput over both limits"))


def _limit(name: str, limits: tuple[float, ...], label: str, t: Translate) -> int:
    """Place of the limit that is read."""
    start = len(limits) // 2
    chosen = st.select_slider(
        label, range(len(limits)), start, key=f"exp.g.{name}.{len(limits)}.{limits[0]:.6g}",
        format_func=lambda place: f"{1e3 * limits[place]:,.1f} ms", help=t("Reads the plane at this limit."),
    )  # fmt: skip
    return int(chosen)


def _read(both: Race, found: Findings, here: tuple[int, int], t: Translate) -> str:
    a, b, won = both.a.goodput_rps[here], both.b.goodput_rps[here], int(both.winner[here])
    words = {
        1: t("{arm} is ahead.", arm=found.after), -1: t("{arm} is ahead.", arm=found.before),
        0: t("No clear winner: the difference lies within its interval."),
    }[won]  # fmt: skip
    lines = "".join(
        f"<li><b>{esc(label)}</b>: {esc(t('{n} good requests / s', n=f'{value:.3f}'))}</li>"
        for label, value in ((found.before, a), (found.after, b))
    )
    return f'<ul class="bs-list">{lines}</ul><p class="bs-plan"><b>{esc(words)}</b></p>'
