"""The request that all pictures of a page single out: chosen from a list, by a click on any picture of it, by a jump or
by an address.

It is kept apart from the list that shows it. A browser sends the state of its controls with every tick, as it knows
them; a click written into the list's own state would be undone by the next tick that does not know of it yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from dashboard.following import follow, is_current

LIST: Final = "chosen"
"""Name of the control that lists the requests, on every page."""
_CHOICE: Final = "choice"
MAX_ID: Final = 256


def chosen() -> str:
    """The id, or ""."""
    return str(st.session_state.get(_CHOICE, ""))


def choose(request_id: str) -> None:
    """Single this one out; "" = none."""
    st.session_state[_CHOICE] = request_id[:MAX_ID]


def turn(request_id: str) -> None:
    """A click on a picture of it: single it out, or no longer when it is."""
    choose("" if request_id == chosen() else request_id)


def listed(label: str, ids: Sequence[str], **looks: Any) -> None:
    """Draw the list. An option is the bare id: a browser sends what an option looks like, and one that changes is gone.

    looks: arguments of ``st.selectbox`` that say how it looks.
    """
    now = chosen()
    options = [now, *ids] if now and now not in ids else list(ids)
    control = follow(LIST, now or None)
    start = options.index(control.start) if control.start in options else None
    st.selectbox(label, options, index=start, key=control.key, on_change=_listed, args=(control.key,), **looks)


def _listed(key: str) -> None:
    if is_current(LIST, key):
        choose(st.session_state[key] or "")
