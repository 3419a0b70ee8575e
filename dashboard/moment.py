"""Which step this browser looks at: the present one, or one of the past; and the address that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import streamlit as st

from dashboard import choice, location
from dashboard.i18n import N_, Translate
from dashboard.past import Kept, Moment, place_of

if TYPE_CHECKING:
    from dashboard.frame import Frame
    from dashboard.hub import Hub
    from model_runner.client import RunnerClient

__all__ = ["Looking", "Moment", "look_at", "looking", "shown_moment"]

STEP, RUN, REQUEST = "step", "run", "request"
"""Names of the fields of the address that say what is shown."""
_LOOKING, _PROBLEM, _ADDRESS, _SETTLED = "past.looking", "past.problem", "past.address", "past.settled"

BAD_STEP: Final = N_("?{field}={value}: a whole number from 1 on is needed, as in ?{field}=120. Shown: live.")
GONE: Final = N_(
    "Iteration {step} is not kept any more: kept are {count}, from {oldest} to {newest}. Shown: the oldest of them."
)
NOT_YET: Final = N_("Iteration {step} is still to come; the newest is {newest}. Shown: live.")
ENDED: Final = N_("Iteration {step} never was: that run ended at {newest}. Shown: its last one.")
HOLE: Final = N_("Iteration {step} was not received. Shown: the next one, {next}.")
NO_RUN: Final = N_(
    "Of the run {run} nothing is kept (the engine was started anew since, or never had it). Shown: live."
)
NOTHING: Final = N_("Nothing has been computed yet that could be shown. Shown: live.")
NO_REQUEST: Final = N_("?request={value}: no request of that name is known here any more.")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, as a template and its values."""

    template: str
    values: Mapping[str, str]

    def words(self, t: Translate) -> str:
        """In the reader's language; not escaped."""
        return t(self.template, **self.values)


@dataclass(frozen=True, slots=True)
class Looking:
    """A look at the past. n: place of the step. anchor: place of the newest step when this browser last moved: until it
    moves again, strip and slider stand still. strip: the tables of the strip then.
    """

    moment: Moment
    n: int
    anchor: int
    strip: Mapping[str, bytes]


def looking() -> Looking | None:
    """None while this browser follows the engine."""
    found: Looking | None = st.session_state.get(_LOOKING)
    return found


def shown_moment() -> Moment | None:
    """The step this browser looks at; None while it follows the engine."""
    found = looking()
    return found.moment if found else None


def look_at(hub: Hub, moment: Moment | None, anchor: int | None = None) -> None:
    """Go to a kept step, or back to live with None. A step that is not kept leaves the page where it is.

    anchor: see ``Looking``; the newest step when not given. A slider that moves keeps its own, so as not to jump.
    """
    st.session_state.pop(_PROBLEM, None)
    newest = hub.frame()
    if moment is None or newest is None:
        st.session_state.pop(_LOOKING, None)
        return
    frame, before = hub.frame_at(moment), looking()
    if frame is None:
        return
    if before is not None and before.anchor == anchor:
        st.session_state[_LOOKING] = replace(before, moment=moment, n=frame.n)
    else:
        end = newest.n if anchor is None else anchor
        st.session_state[_LOOKING] = Looking(moment, frame.n, end, hub.strip(fresh=True))


def tell(problem: Problem | None) -> None:
    """Show this beside the state of the engine until the page moves."""
    if problem is not None:
        st.session_state[_PROBLEM] = problem


def problem() -> Problem | None:
    """What is to be told."""
    found: Problem | None = st.session_state.get(_PROBLEM)
    return found


def resolve(kept: Sequence[Kept], moment: Moment) -> tuple[Moment | None, Problem | None]:
    """The kept step nearest to what was asked for (None = live), and why it is not that one."""
    if not kept:
        return None, Problem(NOTHING, {})
    wanted = replace(moment, run_id=moment.run_id or kept[-1].facts.run_id)
    steps = [k.facts.step_id for k in kept if k.facts.run_id == wanted.run_id]
    if not steps:
        return None, Problem(NO_RUN, {"run": wanted.run_id})
    values = {"step": f"{wanted.step_id:,}", "newest": f"{steps[-1]:,}"}
    place = place_of(kept, wanted)
    if place is None:
        if wanted.run_id == kept[-1].facts.run_id:
            return None, Problem(NOT_YET, values)
        return Moment(wanted.run_id, steps[-1]), Problem(ENDED, values)
    found = kept[place].moment
    if found == wanted:
        return found, None
    if wanted.step_id < steps[0]:
        return found, Problem(GONE, {**values, "count": f"{len(kept):,}", "oldest": f"{steps[0]:,}"})
    return found, Problem(HOLE, {**values, "next": f"{found.step_id:,}"})


def to_show(hub: Hub, newest: Frame) -> Frame:
    """The picture for this browser. Where the past it looked at is gone, it says so and goes to what is left."""
    moment = shown_moment()
    if moment is None:
        return newest
    frame = hub.frame_at(moment)
    if frame is None:
        _go_near(hub, moment)
        left = shown_moment()
        frame = hub.frame_at(left) if left else None
    return frame or newest


def _go_near(hub: Hub, moment: Moment) -> None:
    found, wrong = resolve(hub.kept(), moment)
    look_at(hub, found)
    tell(wrong)


def arrive(hub: Hub, client: RunnerClient, newest: Frame) -> None:
    """Obey the address when it is another one than this page wrote: on arrival, and when somebody goes back in the
    browser. That it is no old one which a busy browser still shows, ``dashboard/location.py`` sees to."""
    present = {k: v for k in (STEP, RUN, REQUEST) if (v := location.field(k))}
    if st.session_state.get(_ADDRESS) == present:
        return
    st.session_state[_ADDRESS] = present
    _obey_step(hub, present.get(STEP, ""), present.get(RUN, ""))
    _obey_request(client, newest, present.get(REQUEST, ""))
    if location.is_navigation():
        st.session_state[_SETTLED] = _wanted()


def _obey_step(hub: Hub, step: str, run: str) -> None:
    if not step:
        look_at(hub, None)
    elif not (step.isascii() and step.isdigit() and len(step) < 16 and int(step)):
        look_at(hub, None)
        tell(Problem(BAD_STEP, {"field": STEP, "value": step[:40]}))
    else:
        _go_near(hub, Moment(run[:80], int(step)))


def _obey_request(client: RunnerClient, newest: Frame, request_id: str) -> None:
    if not request_id:
        return
    kept = newest.snapshot.step
    here = request_id in newest.marks or request_id in kept.running.request_id or request_id in kept.waiting.request_id
    if here or client.request(request_id) is not None:
        choice.choose(request_id)
    elif problem() is None:  # what is wrong with the step comes first
        tell(Problem(NO_REQUEST, {"value": request_id[:40]}))


def _wanted() -> dict[str, str]:
    moment, chosen = shown_moment(), choice.chosen()
    wanted = {STEP: str(moment.step_id), RUN: moment.run_id} if moment else {}
    return {**wanted, REQUEST: chosen} if chosen else wanted


def keep_address() -> None:
    """Let the address say what is shown, so that a reload or a link shows it again.

    Going back to a step that is not kept any more shows another one; written into the address, that would be a new
    entry of the browser's history, and nobody could go further back.
    """
    known: Mapping[str, str] | None = st.session_state.get(_ADDRESS)
    wanted = _wanted()
    if known is None or wanted == known or wanted == st.session_state.get(_SETTLED):
        return
    st.session_state.pop(_SETTLED, None)
    st.session_state[_ADDRESS] = wanted
    location.write(**{name: wanted.get(name, "") for name in (STEP, RUN, REQUEST)})


def link(step: Moment | None = None) -> str:
    """The address of what is shown, whole; of ``step`` instead of the present where the page is live."""
    wanted = _wanted()
    if step is not None and STEP not in wanted:
        wanted = {STEP: str(step.step_id), RUN: step.run_id, **wanted}
    others = {k: v for k, v in location.address().items() if k not in (STEP, RUN, REQUEST)}
    return f"{st.context.url or ''}?{urlencode({**others, **wanted})}"
