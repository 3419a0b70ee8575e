"""Controls that show what the engine has in force, while several pages and the engine itself change it.

A browser sends the state of all its controls with every tick, as it knows them at that moment. A value written into a
control by the server is not in that state yet, and the old one in it would count as a choice made by hand: it would be
put in force, written back into the control, and so swing between the two for seconds. So a control that is to show
another value than its own gets a new key, and what still comes for an old key is no choice.
"""

from __future__ import annotations

from typing import Any

import streamlit as st


def _current(name: str) -> str:
    generation = st.session_state.setdefault("generations", {}).get(name, 0)
    return f"{name}~{generation}" if generation else name


def follow(name: str, truth: Any) -> str:
    """The key of the control ``name``, whose state is ``truth``. It stays while the hand at the control and the engine
    agree: a new one would take the keyboard's focus from it."""
    key = _current(name)
    if key in st.session_state and st.session_state[key] != truth:
        generations = st.session_state["generations"]
        generations[name] = generations.get(name, 0) + 1
        key = _current(name)
    if key not in st.session_state:
        st.session_state[key] = truth
    return key


def is_current(name: str, key: str) -> bool:
    """Whether a change of the control with this key was made on what it shows now."""
    return key == _current(name)
