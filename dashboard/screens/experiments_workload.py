"""The part of the form that says who asks for what: made from a seed, in the style of a trace, or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from dashboard import engine
from dashboard.elements import title
from dashboard.experiments.form import ARRIVALS, FIELD_HELP, LENGTHS
from dashboard.experiments.uploads import MAX_MB, MAX_ROWS, Upload, read_upload
from dashboard.i18n import N_, Translate
from dashboard.screens.experiments_state import FIELD, UPLOAD_PROBLEM, UPLOADED, uploaded
from dashboard.views.markup import esc, plain
from dashboard.visit import presenter_only
from experiments.traces import STYLES, TraceError

SOURCES: Final = {
    "generate": N_("made from a seed"), "style": N_("in the style of a trace"), "file": N_("a file"),
}  # fmt: skip
PLACES: Final = {
    "arrivals": (N_("Arrivals"), N_("When requests come: gamma as in vLLM's benchmark, or others."), ARRIVALS),
    "prompt": (N_("Prompts (tokens)"), N_("From which distribution the prompts' lengths are drawn."), LENGTHS),
    "output": (N_("Outputs (tokens)"), N_(
        "From which distribution the outputs' lengths are drawn; equal lengths hide what a static batch wastes."
    ), LENGTHS),
}  # fmt: skip
FORMATS: Final = (
    "Azure LLM inference CSV, BurstGPT CSV, Mooncake JSONL, ShareGPT JSON, Vidur CSV, SplitwiseSim CSV, Batchscope JSON"
)


def key(name: str) -> str:
    """Of a field's control."""
    return FIELD + name


def workload(t: Translate) -> None:
    """All of it."""
    st.html(title(t("Workload"), t("the same for every arm")))
    source, number = st.columns([2.6, 1.0], vertical_alignment="bottom")
    with source:
        chosen = st.segmented_control(
            t("Where requests come from"), list(SOURCES), key=key("source"), required=True, width="stretch",
            format_func=lambda name: t(SOURCES[name]), help=t("Where arrivals and lengths come from."),
        )  # fmt: skip
    number.number_input(
        t("Requests"), 1, 20_000, None, key=key("num_requests"),
        help=t("How many requests a run has; of a file, its first ones. A p99 needs at least 100."),
    )  # fmt: skip
    if chosen == "style":
        _style(t)
    elif chosen == "file":
        _file(t)
    else:
        for place in PLACES:
            _distribution(place, t)
    _scale(t)


def _distribution(place: str, t: Translate) -> None:
    label, help_text, kinds = PLACES[place]
    fields_of: Mapping[str, Mapping[str, float]] = kinds
    chosen = st.session_state[key(place)]
    pick, *columns = st.columns([1.5, *([1.0] * 4)])
    pick.selectbox(t(label), list(fields_of), key=key(place), help=t(help_text))
    for column, (name, start) in zip(columns, fields_of[chosen].items(), strict=False):
        whole = isinstance(start, int)
        column.number_input(
            name.replace("_", " "), 0 if whole else 0.0, 10_000_000 if whole else 1e7, None,
            key=key(f"{place}.{chosen}.{name}"), help=t(FIELD_HELP[name]),
        )  # fmt: skip


def _style(t: Translate) -> None:
    style, rate = st.columns(2)
    style.selectbox(
        t("Trace"), list(STYLES), key=key("style"),
        help=t("Made from what was measured on the whole trace; it is not the trace, and says so in the results."),
    )  # fmt: skip
    rate.number_input(
        t("Requests a second"), 0.01, 1000.0, None, key=key("style_rate"), placeholder=t("as in the trace"),
        help=t("All times are stretched alike; empty = the trace's own rate."),
    )  # fmt: skip


def _scale(t: Translate) -> None:
    prompt, output, time, longest, blocks = st.columns(5)
    words = t("1 = as it is. Every factor is kept with the results.")
    prompt.number_input(t("Prompt factor"), 0.001, 1000.0, None, key=key("prompt_factor"), format="%.3f", help=words)
    output.number_input(t("Output factor"), 0.001, 1000.0, None, key=key("output_factor"), format="%.3f", help=words)
    time.number_input(
        t("Time factor"), 0.001, 1000.0, None, key=key("time_factor"), format="%.3f",
        help=t("2 = half as many requests a second."),
    )  # fmt: skip
    longest.number_input(
        t("Longest"), 2, 1_000_000, None, key=key("max_model_len"),
        help=t("Tokens of prompt and output together (max_model_len). Longer requests are cut, and the cuts counted."),
    )  # fmt: skip
    blocks.number_input(
        t("KV blocks"), 2, 1_000_000, None, key=key("num_blocks"),
        help=t("The pool of all arms. Few blocks bring preemptions, many hide what allocation does."),
    )  # fmt: skip


def _file(t: Translate) -> None:
    pick, step = st.columns([2.6, 1.0], vertical_alignment="bottom")
    pick.file_uploader(
        t("Workload file"), key="exp.file", max_upload_size=MAX_MB, on_change=_read,
        help=t("At most {mb} MB; its first {n} requests are taken. Formats: {formats}. The content tells the format.",
               mb=MAX_MB, n=f"{MAX_ROWS:,}", formats=FORMATS),
    )  # fmt: skip
    step.number_input(
        t("Seconds an iteration"), 0.0001, 3600.0, None, key=key("seconds_per_step"), format="%.4f",
        help=t("For files of the scheduler's examples, whose arrivals are iterations."),
    )  # fmt: skip
    problem = st.session_state.get(UPLOAD_PROBLEM)
    if problem:
        st.error(t("The file was not taken, and nothing has changed: {reason}", reason=plain(problem)))
    found = uploaded()
    st.html(told(found, t) if found else f'<p class="bs-quiet">{esc(t("No file was uploaded yet."))}</p>')


def told(found: Upload, t: Translate) -> str:
    """What was read: format, requests, what was cut or left out, hash, and everything done to it."""
    trace, origin = found.trace, found.trace.origin
    first = t(
        "{file}: {format}, {n} requests over {time} s; {left} left out, {cut} cut; SHA-256 {hash}…",
        file=found.file_name, format=origin.source, n=f"{len(trace.requests):,}",
        time=f"{trace.requests[-1].arrival_s:,.0f}", left=origin.dropped, cut=origin.truncated, hash=found.sha256[:16],
    )  # fmt: skip
    more = "; ".join(f"{name}: {value}" for name, value in origin.parameters)
    return f'<p class="bs-plan">{esc(first)}<br><small>{esc(origin.description)}. {esc(more, 600)}</small></p>'


@presenter_only
def _read() -> None:
    """Take the file when all of it is right; otherwise everything stays as it was."""
    file = st.session_state.get("exp.file")
    st.session_state.pop(UPLOAD_PROBLEM, None)
    if file is None:
        st.session_state.pop(UPLOADED, None)
        return
    step = st.session_state.get(key("seconds_per_step")) or 0.05
    model = engine.shared().client.config.model
    try:
        st.session_state[UPLOADED] = read_upload(file.name, file.getvalue(), float(step), model)
    except TraceError as error:
        st.session_state[UPLOAD_PROBLEM] = str(error)
