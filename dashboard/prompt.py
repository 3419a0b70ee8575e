"""A request of one's own: send it, follow it, abort it."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard.charts.theme import Theme
from dashboard.hub import Frame
from dashboard.i18n import Translate
from dashboard.narrow_style import NUMBERS
from dashboard.refusals import refusal_words
from dashboard.views.markup import esc, scroll
from dashboard.views.request import follow
from dashboard.visit import is_presenter
from model_runner.client import RunnerClient
from scheduler import SamplingParams

TEXT_HEIGHT: Final = 196
MAX_PROMPT: Final = 8000


def prompt_panel(client: RunnerClient, frame: Frame, theme: Theme, t: Translate) -> None:
    """The form, and below it the request it sent last."""
    with st.form("prompt", border=False):
        prompt = st.text_area(
            t("Prompt"), key="prompt.text", height=68, label_visibility="collapsed",
            placeholder=t("Write a prompt of your own"),
            help=t("A longer text takes more prefill from the others' iterations and more KV blocks."),
        )  # fmt: skip
        a, b, c = st.container(key=NUMBERS).columns([1.05, 1.15, 0.8])
        limit = a.number_input(
            t("max_tokens"), 1, 4096, 64, key="prompt.max_tokens",
            help=t("A longer answer holds its slot and its KV blocks longer."),
        )  # fmt: skip
        warmth = b.number_input(
            t("temperature"), 0.0, 5.0, 0.0, 0.1, key="prompt.temperature",
            help=t("0 = always the likeliest token, the same text every time; higher is more varied."),
        )  # fmt: skip
        priority = c.number_input(
            t("priority"), -100, 100, 0, key="prompt.priority", help=t("Lower runs first where the policy looks at it.")
        )
        left, right = st.columns(2)
        sent = left.form_submit_button(
            t("Send"), width="stretch", key="prompt.send", type="primary",
            help=t("It joins the queue behind the requests that wait, by the order in force."),
        )  # fmt: skip
        stop = right.form_submit_button(
            t("Abort"), width="stretch", key="prompt.abort",
            help=t("Ends the request sent last; its blocks go back to the pool at once."),
        )  # fmt: skip
    followed = st.session_state.get("followed") or ""
    may = is_presenter()  # asked again: the form may have been drawn before the role was lost
    sent, stop = sent and may, stop and may
    if stop and followed:
        client.abort(followed)
    if sent and len(prompt) > MAX_PROMPT:
        st.session_state["refused"] = t(
            "Not sent: the text has {n} characters; at most {max} can be sent.",
            n=f"{len(prompt):,}",
            max=f"{MAX_PROMPT:,}",
        )
    elif sent and prompt.strip():
        sampling = SamplingParams(max_tokens=int(limit), temperature=float(warmth))
        outcome = client.submit(prompt, sampling, priority=int(priority), origin="user")
        followed = st.session_state["followed"] = outcome.request_id if outcome.accepted else ""
        st.session_state["refused"] = "; ".join(refusal_words(reason, t) for reason in outcome.reasons)
    view = client.request(followed) if followed else None
    refused = st.session_state.get("refused")
    words = f'<div class="bs-notice bs-bad">{esc(refused)}</div>' if refused else ""
    mark = frame.marks.get(followed, -1)
    st.html(scroll(words + follow(view, frame.snapshot.step, mark, theme, t), TEXT_HEIGHT, grows=True))
