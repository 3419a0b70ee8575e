"""One page has one address: what the page wrote into it last, until somebody goes back or forward in the browser.

In Streamlit 1.67 every message of a browser carries the address it shows, and the run that answers it takes that for
``query_params``. A busy browser reads late what the page wrote; its ticks and presses meanwhile carry the address from
before. Taken for true, it led the page back to where it had been, and whatever was written next was built on it: a page
opened by a button lost its name from the address. So the address is read and written here only, and what a message
carries counts only when the page is new or the message comes from going back or forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

_ADDRESS: Final = "location"


def is_navigation() -> bool:
    """Whether this run answers somebody who went back or forward in the browser."""
    context = get_script_run_ctx(suppress_warning=True)
    return bool(context is not None and context.is_history_navigation)


def address() -> Mapping[str, str]:
    """The fields of the address of this page."""
    known: Mapping[str, str] | None = st.session_state.get(_ADDRESS)
    if known is None or is_navigation():
        st.session_state[_ADDRESS] = known = {name: st.query_params[name] for name in st.query_params}
    return known


def field(name: str) -> str:
    """One field of the address; "" where it has none of that name."""
    return address().get(name, "")


def write(**fields: str) -> None:
    """Put fields into the address; "" takes one out."""
    known = address()
    wanted = {name: value for name, value in {**known, **fields}.items() if value or name not in fields}
    if wanted != known:
        st.session_state[_ADDRESS] = wanted
        st.query_params.from_dict(wanted)
