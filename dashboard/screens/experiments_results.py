"""What came out: the folders there are, and of the chosen one every finding, the claim card, and files to take away."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import engine
from dashboard.charts.experiment_specs import experiment_spec
from dashboard.elements import guarded, title, vega
from dashboard.experiments import tables, workshop
from dashboard.experiments.entry import Entry
from dashboard.experiments.findings import Findings
from dashboard.experiments.told import fact, refused
from dashboard.experiments.words import metric_name
from dashboard.i18n import N_, Translate, translator
from dashboard.screens.experiments_card import claim, downloads
from dashboard.screens.experiments_plane import plane
from dashboard.screens.experiments_state import RESULT, begun, draw_all_anew
from dashboard.views import experiments as views
from dashboard.views.markup import esc, plain, scroll
from dashboard.visit import Visit, is_presenter, presenter_only
from experiments.runs.spec import SpecError

WAIT_S: Final = 1.0
TABLE_HEIGHT: Final = 330
PARTS: Final = {
    "overview": N_("Differences"), "whose": N_("Whose improvement"), "microscope": N_("Chunk microscope"),
    "waste": N_("Waste"), "plane": N_("Goodput plane"), "rosetta": N_("Rosetta"), "card": N_("Claim card"),
    "files": N_("Files"),
}  # fmt: skip
PART: Final = "exp.r.part"


def draw(seen: Visit) -> None:
    """For everybody; only the presenter can go on with one that was interrupted."""
    results(seen.language, seen.theme_name)


@st.fragment
def results(language: str, theme_name: str) -> None:
    """The list, and the chosen folder."""
    draw_all_anew()
    t, shop = translator(language), workshop.shared()
    entries = {entry.name: entry for entry in shop.entries() if entry.manifest is not None}
    if not entries:
        st.info(t("No experiment was made yet. The presenter begins one under Begin one; it stays after a restart."))
        return
    if st.session_state.get(RESULT) not in entries:
        st.session_state[RESULT] = next(iter(entries))
    pick, again, rest = st.columns([3.6, 0.9, 0.9], vertical_alignment="bottom")
    pick.selectbox(
        t("Experiment"), list(entries), key=RESULT, format_func=lambda name: _named(entries[name], t),
        help=t("The newest first. Their folders lie in the cache folder of this machine and can be copied away."),
    )  # fmt: skip
    again.button(t("Refresh"), key="exp.refresh", width="stretch", help=t("The list and the results as they are now."))
    entry = entries[st.session_state[RESULT]]
    unfinished = entry.progress is not None and entry.progress.done < entry.progress.total
    if is_presenter():
        rest.button(
            t("Go on"), key="exp.resume", on_click=_resume, args=(entry.name,), width="stretch",
            disabled=not unfinished or shop.job is not None,
            help=t("Makes the runs that are missing, after a cancel, a crash or a restart."),
        )  # fmt: skip
    _state(entry, language)
    _found(entry, language, theme_name)


def _named(entry: Entry, t: Translate) -> str:
    assert entry.manifest is not None
    spec, at = entry.manifest.spec, entry.name
    when = f"{at[0:4]}-{at[4:6]}-{at[6:8]} {at[9:11]}:{at[11:13]} UTC"
    done = f"{entry.progress.done}/{entry.progress.total}" if entry.progress else "–"
    return f"{when} · {views.kind_word(spec.kind, t)} · {spec.name or at} · {done}"


def _state(entry: Entry, language: str) -> None:
    t, progress = translator(language), entry.progress
    words = views.progress_words(progress, t)
    told = f'<p class="bs-quiet">{esc(words)}</p>'
    if progress is not None and progress.state in ("failed", "interrupted") and progress.message:
        told += views.notes([fact(progress.message, language)])
    st.html(told)


def _found(entry: Entry, language: str, theme_name: str) -> None:
    t = translator(language)
    try:
        found = workshop.shared().findings.get(entry)
    except SpecError as error:
        st.error(t("The results cannot be read: {reason}", reason=plain(refused(error, language))))
        return
    if found is None:
        _wait(language)
        return
    if not found.arms:
        st.info(t("No run is finished yet."))
        return
    parts = _parts(found)
    if st.session_state.get(PART) not in parts:
        st.session_state[PART] = parts[0]
    part = st.segmented_control(
        t("Which finding"), parts, key=PART, format_func=lambda name: t(PARTS[name]), required=True,
        label_visibility="collapsed", help=t("Which part of the results is shown."),
    ) or parts[0]  # fmt: skip
    guarded(lambda: _part(part, entry, found, language, theme_name), part)


@st.fragment(run_every=WAIT_S)
def _wait(language: str) -> None:
    """Findings are made in another thread; look again each second."""
    t = translator(language)
    st.info(t("The results are being computed: resampling takes some seconds."))
    entry = workshop.shared().entry(st.session_state.get(RESULT, ""))
    if entry is not None and workshop.shared().findings.is_made(entry):
        st.rerun()


def _parts(found: Findings) -> list[str]:
    there = {
        "overview": found.comparison, "whose": found.factorial, "microscope": found.microscope,
        "waste": found.ledger, "plane": found.plane, "rosetta": found.rosetta, "card": found.card, "files": True,
    }  # fmt: skip
    return [name for name, part in there.items() if part]


def _part(part: str, entry: Entry, found: Findings, language: str, theme_name: str) -> None:
    t = translator(language)
    draw_part = {"overview": _overview, "whose": _whose, "microscope": _microscope, "waste": _waste}.get(part)
    if draw_part is not None:
        draw_part(found, theme_name, language)
    elif part == "plane":
        plane(found, theme_name, language)
    elif part == "rosetta" and found.rosetta is not None:
        more = t("the last run of {arm}; equal names are not equal things", arm=found.after)
        st.html(title(t("The same run under each tool's definitions"), more))
        st.html(scroll(views.rosetta_table(found.rosetta, t, language), 480))
    elif part == "card" and found.card is not None:
        claim(found.card, found.plain_cards[language], entry, language)
    else:
        downloads(entry, t)


def _overview(found: Findings, theme_name: str, language: str) -> None:
    t, comparison = translator(language), found.comparison
    assert comparison is not None
    more = t("in per cent of {before}; a bar is the interval of 95 %, a diamond the mean", before=found.before)
    st.html(title(t("{after} against {before}", after=found.after, before=found.before), more))
    data = tables.difference_data(comparison, t)
    vega(experiment_spec("differences", theme_name, language), data, t("change of each number, with its interval"))
    left, right = st.columns([1.5, 1.0])
    with left:
        st.html(
            title(
                t("All numbers"),
                t(
                    "a verdict needs an interval without 0; 1 of 20 is one by chance. Samples: of the run that has "
                    "fewest"
                ),
            )
        )
        st.html(scroll(views.all_metrics(comparison, t, language), TABLE_HEIGHT))
    with right:
        st.html(title(t("What got worse")) + views.worse(comparison, t))
        st.html(title(t("How requests ended")) + views.outcomes(comparison, t))
        st.html(views.notes(fact(text, language) for text in (*found.notes, *found.problems)) or "<span></span>")


def _whose(found: Findings, theme_name: str, language: str) -> None:
    t, factorial = translator(language), found.factorial
    assert factorial is not None
    names = list(factorial.attributions)
    if st.session_state.get("exp.r.metric") not in names:
        st.session_state["exp.r.metric"] = names[0]
    metric = st.segmented_control(
        t("Number"), names, key="exp.r.metric", format_func=lambda name: metric_name(name, t), required=True,
        label_visibility="collapsed", help=t("Whose gain is shared out."),
    ) or names[0]  # fmt: skip
    each = factorial.attributions[metric]
    more = t("Shapley shares: they add up to the gain exactly")
    st.html(title(t("From none of the four decisions to all of them: {what}", what=metric_name(metric, t)), more))
    vega(experiment_spec("shares", theme_name, language), tables.share_data(each, t), t("share of each decision"))
    left, right = st.columns([1.5, 1.0])
    with left:
        st.html(title(t("Main effects and interactions"), t("of one number; intervals of 95 %")))
        st.html(scroll(views.effects(each, t), TABLE_HEIGHT))
    with right:
        st.html(title(t("What a decision makes worse")) + views.harm(factorial, t))
        left_out = [f"{metric_name(name, t)}: {fact(why, language)}" for name, why in factorial.left_out.items()]
        invalid = t("Optimistic admission needs paged allocation: the four arms with the one and without the other "
                    "do not exist, and the arm without both stands for them.")  # fmt: skip
        st.html(f'<p class="bs-quiet">{esc(invalid)}</p>' + views.notes(left_out))


def _microscope(found: Findings, theme_name: str, language: str) -> None:
    t, scope = translator(language), found.microscope
    assert scope is not None
    more = t("prompts of at least {n} tokens are long; crosses are intervals of 95 %, cut at 0: no time is below it",
             n=f"{scope.long_tokens:,}")  # fmt: skip
    st.html(title(t("What the size of a chunk trades"), more))
    data = tables.microscope_data(scope, t)
    vega(experiment_spec("microscope", theme_name, language), data, t("long prompts against the others"))
    st.html(f'<p class="bs-plan"><b>{views.knee_words(scope, t, language)}</b></p>')
    st.html(scroll(views.microscope_table(scope, t), 200))


def _waste(found: Findings, theme_name: str, language: str) -> None:
    t = translator(language)
    more = t("both bars of a pair are on one scale; means over the runs of an arm")
    st.html(title(t("Where tokens, time and memory went"), more))
    data = tables.ledger_data(found.ledger, found.before, found.after, t, language)
    vega(experiment_spec("ledger", theme_name, language), data, t("waste before and after"))
    st.html(scroll(views.ledger_table(found.ledger, found.before, found.after, t, language), TABLE_HEIGHT))


@presenter_only
def _resume(name: str) -> None:
    language = st.session_state.get("language", "en")
    t, shop = translator(language), workshop.shared()
    hold = bool(st.session_state.get("exp.f.hold", True))
    try:
        workshop.holding(engine.shared().desk, hold, lambda then: shop.resume(name, then))
        begun()
    except workshop.BusyError:
        st.session_state["exp.told"] = t("Another experiment runs; two at once would measure each other.")
    except SpecError as error:
        st.session_state["exp.told"] = refused(error, language)
