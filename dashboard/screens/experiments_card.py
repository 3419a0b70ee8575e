"""The claim card on the page, and the files of an experiment."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Final

import streamlit as st

from dashboard.elements import title
from dashboard.experiments.entry import Entry
from dashboard.i18n import LANGUAGES, N_, Translate, translator
from dashboard.views.card import card_html
from dashboard.views.markup import esc, scroll
from experiments.cards.card import Card
from experiments.cards.encode import to_json
from experiments.cards.markdown import to_markdown
from experiments.cards.plain import PlainCard
from experiments.exports import FORMATS
from experiments.exports.writing import stem_of
from experiments.runs.folder import load_runs

CARD_HEIGHT: Final = 620
TOLD: Final = {
    "perfetto": (N_("Perfetto traces"), N_("Opens in ui.perfetto.dev: iterations, requests, preemptions.")),
    "vllm-bench": (N_("vllm bench JSON"), N_("As vllm bench serve saves its result, one file a run.")),
    "csv": (N_("Tables as CSV files"), N_("Requests, tokens, iterations and events of every run.")),
    "parquet": (N_("Tables as Parquet"), N_("The same tables with their types.")),
    "workload": (N_("The workload file"), N_("The requests themselves, in this project's own form.")),
}  # fmt: skip


def claim(card: Card, told: PlainCard, entry: Entry, language: str) -> None:
    """In the language of the page; the files come in both."""
    t = translator(language)
    head, *buttons = st.columns([2.4, 1.0, 1.0, 1.0], vertical_alignment="center")
    with head:
        st.html(title(t("Claim card"), t("what was compared, under which conditions, and what it does not support")))
    for column, (code, name) in zip(buttons, LANGUAGES.items(), strict=False):
        column.download_button(
            f"Markdown, {name}", partial(_markdown, card, code), f"{entry.name}-card-{code}.md",
            "text/markdown", key=f"exp.card.{code}", on_click="ignore", width="stretch", icon=":material/download:",
            help=t("The card as a Markdown file."),
        )  # fmt: skip
    buttons[2].download_button(
        "JSON", lambda: to_json(card), f"{entry.name}-card.json", "application/json", key="exp.card.json",
        on_click="ignore", width="stretch", icon=":material/download:", help=t("The card for programs."),
    )  # fmt: skip
    st.html(scroll(card_html(told), CARD_HEIGHT))


def _markdown(card: Card, language: str) -> bytes:
    return to_markdown(card, language).encode()


def downloads(entry: Entry, t: Translate) -> None:
    """Every run in the forms of other tools; each file is made when its button is pressed."""
    st.html(title(t("Files of all runs"), t("made when you press; each holds every run of the experiment")))
    columns = st.columns(len(FORMATS))
    for column, name in zip(columns, FORMATS, strict=True):
        label, help_text = TOLD[name]
        column.download_button(
            t(label), partial(zipped, entry.path, name), f"{entry.name}-{name}.zip", "application/zip",
            key=f"exp.export.{name}", on_click="ignore", width="stretch", icon=":material/download:",
            help=t(help_text),
        )  # fmt: skip
    spec = entry.path / "spec.toml"
    if spec.is_file():
        text = spec.read_text(encoding="utf-8")
        st.html(title(t("The spec"), t("python -m experiments run makes the same experiment without a page")))
        st.code(text, language=None, wrap_lines=True)  # colours of a language are too pale for AA in the light theme
    st.html(f'<p class="bs-quiet">{esc(t("Folder: {name}", name=entry.name))}</p>')


def zipped(folder: Path, name: str) -> bytes:
    """Every run in one format, as a ZIP file. The workload once, since all runs share it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for run in load_runs(folder)[: 1 if name == "workload" else None]:
            for ending, data in FORMATS[name](run).items():
                archive.writestr(f"{stem_of(run)}.{ending}", data)
    return packed.getvalue()
