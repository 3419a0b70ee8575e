"""The scrubber under the charts: the kept history as a strip, a slider by step, and ways to what is worth a look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from dashboard import choice, moment, past
from dashboard.charts.strip import JUMP
from dashboard.elements import vega
from dashboard.engine import Engine
from dashboard.frame import Frame
from dashboard.i18n import N_, Translate
from dashboard.moment import Problem
from dashboard.narrow_style import SCRUBBER
from dashboard.past import Kept, Moment
from dashboard.strip import span, thumb_table

STRIP: Final = "strip"
SLIDER: Final = "scrub"
DRAWN: Final = "scrub.drawn"
"""Number of the slider that was drawn last: what a browser still says of an older one is no choice."""
STEPS: Final = ((-10, "Shift+Left"), (-1, "Left"), (1, "Right"), (10, "Shift+Right"))
"""Iterations that a button moves by, and its key."""
NO_EARLIER: Final = N_("No preemption, change of policy or restart earlier than this is kept.")
NO_LATER: Final = N_("No preemption, change of policy or restart since.")
NO_GAP: Final = N_("No request has had a second token in the kept history.")
NO_PREEMPTION: Final = N_("No preemption in the kept history.")
NO_CHANGE: Final = N_("No change of policy in the kept history.")


def scrubber(running: Engine, spec: Mapping[str, Any], shown: Frame, newest: Frame, t: Translate) -> None:
    """Always the same elements. shown: the picture above; newest: the live one."""
    with st.container(key=SCRUBBER):
        left, right = st.columns([1.6, 1.0])
        with left:
            _strip(running, spec, shown, t)
            _slider(running, newest, t)
        with right:
            _steps(running, t)
            _jumps(running, shown, newest, t)


def _strip(running: Engine, spec: Mapping[str, Any], shown: Frame, t: Translate) -> None:
    at = moment.looking()
    tables = {**at.strip, "thumb": thumb_table(shown)} if at else running.hub.strip()
    vega(spec, tables, t("kept history"), key=STRIP, on_select=lambda: _clicked(running), selection_mode=JUMP)


def _clicked(running: Engine) -> None:
    picked = st.session_state[STRIP].selection.get(JUMP) or []
    kept = running.hub.kept()
    if picked and kept:
        _go_to(running, kept, int(picked[0]["n"]) - kept[0].n)


def _slider(running: Engine, newest: Frame, t: Translate) -> None:
    at, kept = moment.looking(), running.hub.kept()
    length = span(len(kept))
    back = max(1 - length, at.n - at.anchor) if at else 0
    key = _slider_key(length, back)
    st.slider(
        t("Iterations back"), 1 - length, 0, back, key=key,
        on_change=_slid, args=(running, key, at.anchor if at else None),
        label_visibility="collapsed", format="%d",
        help=t("0 = where this page last left the engine. With the keyboard: left and right, one iteration each."),
    )  # fmt: skip


def _slider_key(length: int, back: int) -> str:
    """A new one where the slider is to stand elsewhere than the hand left it, or has another length.

    Its place is given as the value it begins with. Written into its state, as other controls have it, a browser that
    ticks before it has heard of it would report the far end of the slider as somebody's choice.
    """
    number = st.session_state.get(DRAWN, 0)
    if st.session_state.get(f"{SLIDER}.{length}.{number}", back) != back:
        number += 1
    st.session_state[DRAWN] = number
    return f"{SLIDER}.{length}.{number}"


def _slid(running: Engine, key: str, anchor: int | None) -> None:
    kept = running.hub.kept()
    if not kept or key != f"{SLIDER}.{span(len(kept))}.{st.session_state.get(DRAWN)}":
        return
    end = kept[-1].n if anchor is None else anchor
    back = st.session_state[key]
    if back == 0 and anchor is None:
        return
    _go_to(running, kept, end + back - kept[0].n, anchor=end)


def _go_to(running: Engine, kept: tuple[Kept, ...], place: int, anchor: int | None = None) -> None:
    """Show the step at that place of the kept history; past its newest end: live."""
    if place >= len(kept):
        moment.look_at(running.hub, None)
        return
    moment.look_at(running.hub, kept[max(0, place)].moment, anchor)


def _place(kept: tuple[Kept, ...]) -> int:
    """Where the page stands; before the first when its step has gone, at the newest when it is live."""
    at = moment.looking()
    return len(kept) - 1 if at is None else max(-1, at.n - kept[0].n)


def go_by(running: Engine, delta: int) -> None:
    """So many kept iterations on (or back, below 0); from live only back. Those of one are on keys, see ``keys``."""
    kept = running.hub.kept()
    if not kept or (moment.looking() is None and delta > 0):
        return
    _go_to(running, kept, max(0, _place(kept) + delta))


def _to_event(running: Engine, forward: bool) -> None:
    kept = running.hub.kept()
    if not kept:
        return
    here = _place(kept)
    places = sorted({i for i, _ in past.events(kept, running.client.marks)})
    ahead = [i for i in places if (i > here if forward else i < here)]
    if ahead:
        _go_to(running, kept, min(ahead) if forward else max(ahead))
    else:
        moment.tell(Problem(NO_LATER if forward else NO_EARLIER, {}))


def _to_worst_gap(running: Engine) -> None:
    kept = running.hub.kept()
    place = past.worst_gap(kept)
    if place is None:
        moment.tell(Problem(NO_GAP, {}))
    else:
        _go_to(running, kept, place)
        choice.choose(kept[place].gap_of)


def _newest(running: Engine, kind: str, missing: str) -> Kept | None:
    """Go to the newest event of that kind, and say where that is; where none is kept, tell so."""
    kept = running.hub.kept()
    places = [i for i, k in past.events(kept, running.client.marks) if k == kind]
    if not places:
        moment.tell(Problem(missing, {}))
        return None
    _go_to(running, kept, places[-1])
    return kept[places[-1]]


def _to_last_preemption(running: Engine) -> None:
    """Its victim is singled out; of several the one that already is, else the first. Another one, singled out before,
    would leave those dark that the jump is about."""
    there = _newest(running, "preemption", NO_PREEMPTION)
    if there is not None and choice.chosen() not in there.snapshot.step.preempted:
        choice.choose(there.snapshot.step.preempted[0])


def _to_last_change(running: Engine) -> None:
    _newest(running, "policy", NO_CHANGE)


def _live(running: Engine) -> None:
    moment.look_at(running.hub, None)


def _steps(running: Engine, t: Translate) -> None:
    columns = st.columns(6)
    for column, delta, shortcut in zip(
        columns, (-10, -1, 1, 10), ("Shift+Left", None, None, "Shift+Right"), strict=False
    ):
        column.button(
            f"{'−' if delta < 0 else '+'}{abs(delta)}", key=f"past.{delta}", on_click=go_by, args=(running, delta),
            shortcut=shortcut, width="stretch", help=_step_help(delta, t),
        )  # fmt: skip
    columns[4].button(
        "◂ ▽", key="past.event.back", on_click=_to_event, args=(running, False), width="stretch",
        help=t("To the event before: a preemption, a change of policy, a restart."),
    )  # fmt: skip
    columns[5].button(
        "▽ ▸", key="past.event.on", on_click=_to_event, args=(running, True), width="stretch",
        help=t("To the next event: a preemption, a change of policy, a restart."),
    )  # fmt: skip


def _step_help(delta: int, t: Translate) -> str:
    n = abs(delta)
    shift, arrow = "Shift " if n > 1 else "", "←" if delta < 0 else "→"
    words = t("{n} iterations back", n=n) if delta < 0 else t("{n} iterations on", n=n)
    return f"{words} ({shift}{arrow})"


def _jumps(running: Engine, shown: Frame, newest: Frame, t: Translate) -> None:
    gap, victim, change, copy, live = st.columns([1.05, 1.1, 1.1, 0.9, 1.35])
    gap.button(
        t("Worst gap"), key="past.gap", on_click=_to_worst_gap, args=(running,), width="stretch",
        help=t(
            "To the longest time between two tokens of one request; pauses do not count. The request is highlighted."
        ),
    )  # fmt: skip
    victim.button(
        t("Last eviction"), key="past.preemption", on_click=_to_last_preemption, args=(running,), width="stretch",
        help=t("To the newest preemption that is kept. The request that was evicted is highlighted."),
    )  # fmt: skip
    change.button(
        t("Last change"), key="past.policy", on_click=_to_last_change, args=(running,), width="stretch",
        help=t("To the first iteration under the policy set last; changes of pace do not count."),
    )  # fmt: skip
    with copy.popover(
        t("Link"), width="stretch", help=t("An address that shows this iteration again while it is kept.")
    ):
        here = Moment(shown.snapshot.run_id, shown.snapshot.step.step_id)
        st.code(moment.link(here if shown.n >= 0 else None), language=None, wrap_lines=True)
    at = moment.looking()
    live.button(
        t("Live (+{n})", n=f"{newest.n - at.n:,}") if at else t("Live"), key="past.live", on_click=_live,
        args=(running,), width="stretch", disabled=at is None, type="primary" if at else "secondary",
        help=f"{t('Back to what the engine does now.')} (L)",
    )  # fmt: skip
