"""The part of the form that says who asks for what: made from a seed, in the style of a trace, or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from dashboard import engine
from dashboard.elements import title
from dashboard.experiments.form import ARRIVALS, FIELD_HELP, FIELD_LABELS, KIND_WORDS, LENGTHS
from dashboard.experiments.ranges import RANGES, FieldsError
from dashboard.experiments.told import fact, refused
from dashboard.experiments.uploads import MAX_MB, MAX_ROWS, Upload, read_upload
from dashboard.i18n import N_, Translate
from dashboard.screens.experiments_boxes import number_box, style_boxes, wrong_in
from dashboard.screens.experiments_state import FIELD, PLACES, UPLOAD_PROBLEM, UPLOADED, field, uploaded
from dashboard.views.markup import esc, plain
from dashboard.visit import presenter_only
from experiments.traces import TraceError

SOURCES: Final = {
    "generate": N_("made from a seed"), "style": N_("in the style of a trace"), "file": N_("a file"),
}  # fmt: skip
DRAWN: Final = {
    "arrivals": (N_("When requests come: gamma as in vLLM's benchmark, or others."), ARRIVALS),
    "prompt": (N_("From which distribution the prompts' lengths are drawn."), LENGTHS),
    "output": (N_(
        "From which distribution the outputs' lengths are drawn; equal lengths hide what a static batch wastes."
    ), LENGTHS),
}  # fmt: skip
"""Place -> (help, kinds of distributions)."""
FORMATS: Final = (
    "Azure LLM inference CSV, BurstGPT CSV, Mooncake JSONL, ShareGPT JSON, Vidur CSV, SplitwiseSim CSV, Batchscope JSON"
)


def key(name: str) -> str:
    """Of a field's control."""
    return FIELD + name


def workload(t: Translate, language: str) -> None:
    """All of it."""
    st.html(title(t("Workload"), t("the same for every arm")))
    source, number = st.columns([2.6, 1.0], vertical_alignment="bottom")
    with source:
        chosen = st.segmented_control(
            t("Where requests come from"), list(SOURCES), key=key("source"), required=True, width="stretch",
            format_func=lambda name: t(SOURCES[name]), help=t("Where arrivals and lengths come from."),
        )  # fmt: skip
    number_box(
        number, t("Requests"), key("num_requests"),
        t("How many requests a run has; of a file, its first ones. A p99 needs at least 100."),
    )  # fmt: skip
    if chosen == "style":
        style_boxes(st.columns(2), key("style"), key("style_rate"), t)
    elif chosen == "file":
        _file(t, language)
    else:
        for place in DRAWN:
            _distribution(place, t)
    _scale(t)


def _distribution(place: str, t: Translate) -> None:
    help_text, kinds = DRAWN[place]
    fields_of: Mapping[str, Mapping[str, float]] = kinds
    chosen = st.session_state[key(place)]
    pick, *columns = st.columns([1.5, *([1.0] * 4)])
    pick.selectbox(
        t(PLACES[place]), list(fields_of), key=key(place), help=t(help_text),
        format_func=lambda kind: t(KIND_WORDS[kind]),
    )  # fmt: skip
    for column, name in zip(columns, fields_of[chosen], strict=False):
        number_box(column, t(FIELD_LABELS[name]), key(f"{place}.{chosen}.{name}"), t(FIELD_HELP[name]))


def _scale(t: Translate) -> None:
    words = t("1 = as it is. Every factor is kept with the results.")
    boxes = (
        ("prompt_factor", t("Prompt factor"), words),
        ("output_factor", t("Output factor"), words),
        ("time_factor", t("Time factor"), t("2 = half as many requests a second.")),
        ("max_model_len", t("Longest"), t(
            "Tokens of prompt and output together (max_model_len). Longer requests are cut, and the cuts counted."
        )),
        ("num_blocks", t("KV blocks"), t(
            "The pool of all arms. Few blocks bring preemptions, many hide what allocation does."
        )),
    )  # fmt: skip
    for column, (name, label, help_text) in zip(st.columns(len(boxes)), boxes, strict=True):
        number_box(column, label, key(name), help_text)


def _file(t: Translate, language: str) -> None:
    pick, step = st.columns([2.6, 1.0], vertical_alignment="bottom")
    pick.file_uploader(
        t("Workload file"), key="exp.file", max_upload_size=MAX_MB, on_change=_read,
        help=t("At most {mb} MB; its first {n} requests are taken. Formats: {formats}. The content tells the format.",
               mb=MAX_MB, n=f"{MAX_ROWS:,}", formats=FORMATS),
    )  # fmt: skip
    number_box(
        step, t("Seconds an iteration"), key("seconds_per_step"),
        t("For files of the scheduler's examples, whose arrivals are iterations."),
    )  # fmt: skip
    problem = st.session_state.get(UPLOAD_PROBLEM)
    if problem:
        st.error(
            t("The file was not taken, and nothing has changed: {reason}", reason=plain(refused(problem, language)))
        )
    found = uploaded()
    st.html(told(found, t, language) if found else f'<p class="bs-quiet">{esc(t("No file was uploaded yet."))}</p>')


def told(found: Upload, t: Translate, language: str) -> str:
    """What was read: format, requests, what was cut or left out, hash, and everything done to it."""
    trace, origin = found.trace, found.trace.origin
    first = t(
        "{file}: {format}, {n} requests over {time} s; {left} left out, {cut} cut; SHA-256 {hash}…",
        file=found.file_name, format=origin.source, n=f"{len(trace.requests):,}",
        time=f"{trace.requests[-1].arrival_s:,.0f}", left=origin.dropped, cut=origin.truncated, hash=found.sha256[:16],
    )  # fmt: skip
    more = "; ".join(f"{name}: {fact(value, language)}" for name, value in origin.parameters)
    what = fact(origin.description, language)
    return f'<p class="bs-plan">{esc(first)}<br><small>{esc(what)}. {esc(more, 600)}</small></p>'


@presenter_only
def _read() -> None:
    """Take the file when all of it is right; otherwise everything stays as it was."""
    file = st.session_state.get("exp.file")
    st.session_state.pop(UPLOAD_PROBLEM, None)
    if file is None:
        st.session_state.pop(UPLOADED, None)
        return
    box = key("seconds_per_step"), (N_("Seconds an iteration"),), RANGES["seconds_per_step"]
    model = engine.shared().client.config.model
    try:
        if wrong := wrong_in([box]):
            raise FieldsError(wrong)
        step = float(field("seconds_per_step"))
        st.session_state[UPLOADED] = read_upload(file.name, file.getvalue(), step, model)
    except (TraceError, FieldsError) as error:
        st.session_state[UPLOAD_PROBLEM] = error
