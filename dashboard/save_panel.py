"""Buttons that give away what the charts of a page show. They stand outside of the tick and send nothing with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pandas as pd
import streamlit as st

from dashboard import engine
from dashboard.chart_frames import blocks_frame, lanes_frame, life_frame, queue_frame, running_frame, series_frame
from dashboard.downloads import csv_button
from dashboard.hub import Frame, Hub
from dashboard.i18n import N_, Translate, translator
from dashboard.moment import shown_moment

FRAMES: Final[Mapping[str, tuple[str, Callable[[Frame], pd.DataFrame]]]] = {
    "queue": (N_("Queue"), lambda frame: queue_frame(frame.snapshot.step)),
    "running": (N_("Running"), lambda frame: running_frame(frame.snapshot.step)),
    "blocks": (N_("KV block map"), lambda frame: blocks_frame(frame.snapshot.step)),
    "lanes": (N_("Lanes"), lambda frame: lanes_frame(frame.facts)),
    "series": (N_("Lines over the iterations"), lambda frame: series_frame(frame.facts)),
}
"""File name -> (title, what makes the table)."""
SAVE_HELP: Final = N_("Files are made when a button is pressed; the engine and other pages do not notice.")
PICTURES: Final = N_(
    "A chart as a picture: point at it, or reach it with Tab, and press the arrow at its upper right corner (PNG)."
)


@st.fragment
def save_charts(language: str) -> None:
    """The data of the live charts, of the iteration that was shown when the panel was opened."""
    t, hub = translator(language), engine.shared().hub
    with st.popover(
        t("Save charts and data"), key="save", on_change="rerun", icon=":material/download:", help=t(SAVE_HELP)
    ):
        st.html(f'<p class="bs-quiet">{t(PICTURES)}</p>')
        moment = shown_moment()
        frame = hub.frame_at(moment) if moment is not None else hub.frame()
        for name, (title, make) in FRAMES.items():
            csv_button(t("{what} as CSV", what=t(title)), _of(frame, make), name, f"save.{name}", t)


def _of(frame: Frame | None, make: Callable[[Frame], pd.DataFrame]) -> Callable[[], pd.DataFrame]:
    return lambda: make(frame) if frame is not None else pd.DataFrame()


def save_life(hub: Hub, chosen: Mapping[str, str], t: Translate) -> None:
    """The data of a life. chosen: has the request's id under "id", kept true by the page."""
    with st.popover(t("Save charts and data"), icon=":material/download:", help=t(SAVE_HELP)):
        st.html(f'<p class="bs-quiet">{t(PICTURES)}</p>')
        life = N_("Life and blame")
        csv_button(
            t("{what} as CSV", what=t(life)), lambda: life_frame(hub.lives.life(chosen.get("id", ""))), "life",
            "save.life", t,
        )  # fmt: skip
