"""Elements that several pages draw in the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from dashboard.i18n import Translate
from dashboard.views.markup import esc
from dashboard.views.status import notices
from model_runner.views import ClientState

_log = logging.getLogger(__name__)


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


def vega(spec: Mapping[str, Any], data: Mapping[str, bytes], alt: str) -> None:
    """A chart whose specification stays, with the data of this tick."""
    st.vega_lite_chart(spec={**spec, "datasets": dict(data)}, width="stretch", theme=None, alt=alt)
