"""Experiments: begin one, watch it, read what came out, race two policies from the live step, and ask what if."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import streamlit as st

from dashboard import engine
from dashboard.elements import guarded, trouble
from dashboard.experiments import workshop
from dashboard.experiments.entry import Entry
from dashboard.i18n import N_, Translate, translator
from dashboard.screens import experiments_race, experiments_results, experiments_start, experiments_whatif
from dashboard.screens.experiments_state import RESULT, keep
from dashboard.views import experiments as views
from dashboard.views.markup import esc, plain
from dashboard.visit import Visit, is_presenter, presenter_only, visit

TICK_S: Final = 1.0
SECTION: Final = "exp.section"
SECTIONS: Final[Mapping[str, tuple[str, Callable[[Visit], None], bool]]] = {
    "start": (N_("Begin one"), experiments_start.draw, False),
    "results": (N_("Results"), experiments_results.draw, True),
    "race": (N_("Fork and race"), experiments_race.draw, True),
    "whatif": (N_("What if"), experiments_whatif.draw, True),
}
"""Name -> (title, what draws it, whether the audience has it too)."""


def draw() -> None:
    """The way to the sections, what runs now, and the section."""
    seen = visit()
    t = seen.t
    keep()
    names = [name for name, (_, _, for_all) in SECTIONS.items() if for_all or seen.presenter]
    if st.session_state.get(SECTION) not in names:
        st.session_state[SECTION] = names[0]
    st.segmented_control(
        t("Part of the page"), names, key=SECTION, format_func=lambda name: t(SECTIONS[name][0]), required=True,
        label_visibility="collapsed", help=t("Begin an experiment, read results, race policies, or simulate."),
    )  # fmt: skip
    under_way(seen.language)
    SECTIONS[st.session_state[SECTION]][1](seen)


@st.fragment(run_every=TICK_S, key="experiments")
def under_way(language: str) -> None:
    """What runs now: always one line, a bar, and for the presenter a button."""
    running, shop, t = engine.shared(), workshop.shared(), translator(language)
    running.hub.frame()
    trouble(running.client.state, t, has_controls=is_presenter())
    job = shop.job
    name = job.name if job else ""
    entry = shop.entry(name) if name else None
    before = st.session_state.get("exp.job", "")
    st.session_state["exp.job"] = name
    if before and before != name:  # the list of results and its findings are drawn anew
        st.rerun()
    words, share = _progress(name, entry, t)
    left, right = st.columns([6.0, 1.0], vertical_alignment="center")
    with left:
        st.progress(share, text=plain(words))
    if is_presenter():
        right.button(
            t("Cancel"), key="exp.cancel", on_click=_cancel, disabled=job is None, width="stretch",
            help=t("The run under way is given up, finished ones stay; Go on makes the rest."),
        )  # fmt: skip
    guarded(lambda: st.html(_competes(t, is_running=job is not None)), "experiment")


def _progress(name: str, entry: Entry | None, t: Translate) -> tuple[str, float]:
    """The line and the bar."""
    if entry is None:
        return t("No experiment runs."), 0.0
    if name.endswith("-whatif"):
        come, total = workshop.shared().simulated(name)
        told = t("{done} of {total} requests have come", done=f"{come:,}", total=f"{total:,}") if total else ""
        return f"{t('What if')} · {told or t('the process is starting')}", come / (total or 1)
    words = views.progress_words(entry.progress, t)
    if entry.manifest:
        words = f"{entry.manifest.spec.name or views.kind_word(entry.manifest.spec.kind, t)} · {words}"
    return words, views.share_done(entry.progress)


def _competes(t: Translate, *, is_running: bool) -> str:
    desk = engine.shared().desk
    if not is_running:
        return '<p class="bs-quiet">&nbsp;</p>'
    if desk.policy.paused:
        return f'<p class="bs-quiet">{esc(t("The live engine is held meanwhile."))}</p>'
    words = t("The live engine computes at the same time and takes processor time from the runs: hold it for figures "
              "that can be compared.")  # fmt: skip
    return f'<p class="bs-quiet bs-unclear">{esc(words)}</p>'


@presenter_only
def _cancel() -> None:
    workshop.shared().cancel()


__all__ = ["RESULT", "SECTIONS", "draw"]
