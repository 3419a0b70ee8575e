"""Elements that several pages draw in the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import streamlit as st

from dashboard.i18n import Translate
from dashboard.views.markup import esc
from dashboard.views.status import notices
from dashboard.visit import PROJECTOR
from model_runner.views import ClientState

_log = logging.getLogger(__name__)

UPDATES_A_VIEW: Final = 600
"""New data that one chart in the browser takes before it is put up anew (two and a half minutes at 4 Hz)."""
STAGGER: Final = UPDATES_A_VIEW // 5
"""So many updates apart, for the charts of a page: never two at once, and together they hold about the same memory."""
_VIEWS: Final = "vega.views"


def guarded(draw: Callable[[], Any], name: str) -> None:
    """Draw one element; an error in it is shown in its place and the tick goes on."""
    try:
        draw()
    except Exception as error:
        _log.exception("element %s", name)
        st.html(f'<div class="bs-notice bs-bad">{esc(name)}: {esc(type(error).__name__)}: {esc(error, 300)}</div>')


def trouble(state: ClientState, t: Translate, *, has_controls: bool = True) -> None:
    """That the engine does not run, laid over what comes below it; nothing while it does. In each tick."""
    told = notices(state, t, has_controls=has_controls)
    guarded(lambda: st.html(f'<div class="bs-over">{told}</div>'), "notices")


def title(text: str, more: str = "") -> str:
    """The line above an element."""
    return f'<div class="bs-title">{esc(text)} <span>{esc(more)}</span></div>'


def vega(spec: Mapping[str, Any], data: Mapping[str, bytes], alt: str, **listening: Any) -> None:
    """A chart whose specification stays, with the data of this tick.

    listening: for a chart that hears clicks, Streamlit's key, on_select and selection_mode.

    In projector mode, where the style sheet zooms it, it is drawn as SVG, which stays sharp.

    Now and then it is put up anew. Vega keeps one entry for every row that ever passed a calculation (the operator
    "relay" of vega-dataflow 6), and lets go of them only with the whole view: about 40 kB a tick on the live page.
    """
    meta = dict(spec.get("usermeta", {}))
    if turn := _turn(alt, hash(frozenset(data.items()))):
        meta["turn"] = turn
    if st.session_state.get(PROJECTOR):
        meta["embedOptions"] = {**meta.get("embedOptions", {}), "renderer": "svg"}
    whole = {**spec, "usermeta": meta, "datasets": dict(data)}
    st.vega_lite_chart(spec=whole, width="stretch", theme=None, alt=alt, **listening)


def _turn(name: str, shown: int) -> int:
    """How often the chart of that name was put up anew in this browser. shown: tells its data apart from those before;
    the same data again cost the browser nothing."""
    views: dict[str, tuple[int, int]] = st.session_state.setdefault(_VIEWS, {})
    updates, before = views.get(name) or (-STAGGER * (len(views) % 5), shown)
    updates += shown != before
    views[name] = (updates, shown)
    return max(0, updates // UPDATES_A_VIEW)
