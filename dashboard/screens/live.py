"""The desk: everything about the present iteration, and the controls beside it."""

from __future__ import annotations

import streamlit as st

from dashboard import engine
from dashboard.audience import audience
from dashboard.controls import sidebar
from dashboard.live import live
from dashboard.save_panel import save_charts
from dashboard.views.markup import plain
from dashboard.visit import Visit, visit
from scheduler import custom


def draw() -> None:
    """Controls once, for the presenter; the live part then ticks by itself."""
    seen = visit()
    draw_sidebar(seen)
    (live if seen.presenter else audience)(seen.language, seen.theme_name)
    save_charts(seen.language)


def draw_sidebar(seen: Visit) -> None:
    """The controls, for the presenter only; in projector mode drawn too, unseen, so that they keep their state."""
    running, t = engine.shared(), seen.t
    with st.sidebar:
        for fault in custom.faults():
            st.warning(t("A policy was left out: {file}: {reason}", file=plain(fault.file), reason=plain(fault.reason)))
        if seen.presenter:
            sidebar(running.desk, t)
