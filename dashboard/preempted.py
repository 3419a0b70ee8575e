"""The tab of preemptions: evict a request by hand, what evictions cost, and each of them."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import choice
from dashboard.charts.theme import Theme
from dashboard.hub import Frame
from dashboard.i18n import Translate
from dashboard.views.markup import esc
from dashboard.views.preemptions import preemptions, summary
from dashboard.visit import is_presenter, presenter_only
from model_runner.client import RunnerClient

LIST_HEIGHT: Final = 248


def preempted_panel(client: RunnerClient, frame: Frame, newest: Frame, theme: Theme, t: Translate) -> None:
    """The button acts on the highlighted request while it runs, whatever step ``frame`` shows."""
    step, info = newest.snapshot.step, frame.snapshot.info
    chosen = choice.chosen()
    runs = chosen in step.running.request_id
    if is_presenter():
        st.button(
            t("Evict {id} now", id=chosen) if runs else t("Evict now"), key="evict", on_click=_evict,
            args=(client, chosen), disabled=not runs, width="stretch",
            help=t("Highlight a running request first. It goes as the policy in force says, and comes back by itself."),
        )  # fmt: skip
    missed = st.session_state.get("evict.missed", "")
    words = f'<div class="bs-now">{esc(t("{id} was not running any more.", id=missed))}</div>' if missed else ""
    block_bytes = info.kv_bytes_per_token * info.block_size
    st.html(summary(frame.costs, block_bytes, t) + words)
    st.html(preemptions(frame.evictions, block_bytes, theme, t, LIST_HEIGHT))


@presenter_only
def _evict(client: RunnerClient, request_id: str) -> None:
    outcome = client.preempt(request_id)
    st.session_state["evict.missed"] = "" if outcome.kind == "preempted" else request_id
