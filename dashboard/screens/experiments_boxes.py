"""Boxes that several forms of the experiments page have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import streamlit as st

from dashboard.experiments.ranges import Range, Wrong, number_in
from dashboard.i18n import Translate
from experiments.traces import STYLES

MAX_CHARS = 24


def number_box(column: Any, label: str, key: str, help_text: str, *, placeholder: str = "") -> None:
    """A box for a number, as text: what is written reaches the server whatever it is, so that a wrong value can be told
    and held back instead of being dropped by the browser. All texts as they are shown."""
    column.text_input(label, key=key, max_chars=MAX_CHARS, placeholder=placeholder, help=help_text)


def limit_boxes(columns: tuple[Any, Any], seqs: str, budget: str, seqs_help: str, t: Translate) -> None:
    """Requests at once and token budget of a policy. seqs, budget: keys."""
    number_box(columns[0], t("Requests at once"), seqs, seqs_help, placeholder=t("as it is"))
    number_box(
        columns[1], t("Token budget"), budget,
        t("max_num_batched_tokens of an iteration; empty = as the policy has it."), placeholder=t("as it is"),
    )  # fmt: skip


def style_boxes(columns: tuple[Any, Any], style: str, rate: str, t: Translate) -> None:
    """A workload in the style of a trace, and its rate. style, rate: keys."""
    columns[0].selectbox(
        t("Trace"), list(STYLES), key=style,
        help=t("Made from what was measured on the whole trace; it is not the trace, and says so in the results."),
    )  # fmt: skip
    number_box(
        columns[1], t("Requests a second"), rate, t("All times are stretched alike; empty = the trace's own rate."),
        placeholder=t("as in the trace"),
    )  # fmt: skip


def value_of(key: str, allowed: Range) -> float | int | None:
    """What a box holds; None where that is nothing it takes, which ``wrong_in`` tells."""
    try:
        return number_in(str(st.session_state.get(key) or ""), allowed)
    except ValueError:
        return None


def wrong_in(boxes: Iterable[tuple[str, tuple[str, ...], Range]]) -> dict[str, Wrong]:
    """Of (key, labels, range) those whose text is no number they take, by their keys."""
    found = {}
    for key, labels, allowed in boxes:
        text = str(st.session_state.get(key) or "")
        try:
            number_in(text, allowed)
        except ValueError:
            found[key] = Wrong(labels, text, allowed)
    return found


def mark(wrong: Iterable[str]) -> None:
    """Draw a line round boxes of these keys. Always one element of one kind, so that nothing below it moves.

    The empty span keeps it in its place: Streamlit puts markup of nothing but a style elsewhere, where it stays.
    """
    names = ", ".join(f".st-key-{key.replace('.', '-')} [data-testid=stTextInputRootElement]" for key in wrong)
    line = f"{names} {{ border-color: var(--bs-wrong) !important; }}" if names else ""
    st.html(f"<span></span><style>{line}</style>")
