"""Controls that show what the engine has in force, while several pages and the engine itself change it.

A browser sends the state of all its controls with every tick, as it knows them at that moment. A value written into a
control by the server is not in that state yet, and the old one in it would count as a choice made by hand: it would be
put in force, written back into the control, and so swing between the two for seconds. So a control that is to show
another value than its own gets a new key, and what still comes for an old key is no choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st


def _current(name: str) -> str:
    generation = st.session_state.setdefault("generations", {}).get(name, 0)
    return f"{name}~{generation}" if generation else name


@dataclass(frozen=True, slots=True)
class Followed:
    """How to draw a control. key: its present key. start: what it shows before the browser has said anything.

    The control must be given ``start`` as its own first value, and nothing may be written into its state: a browser
    that sends something while it is still putting the page up would report the control's first value as a choice.
    """

    key: str
    start: Any

    def among(self, values: Sequence[Any], truth: Any) -> Any:
        """``start``, or ``truth`` where the control no longer offers that."""
        return self.start if self.start in values else truth


def follow(name: str, truth: Any) -> Followed:
    """The control ``name``, whose state is ``truth``. Its key stays while the hand at the control and the engine agree:
    a new one would take the keyboard's focus from it."""
    key = _current(name)
    if key in st.session_state and st.session_state[key] != truth:
        generations = st.session_state["generations"]
        generations[name] = generations.get(name, 0) + 1
        key = _current(name)
    starts = st.session_state.setdefault("starts", {})
    if key not in st.session_state:
        starts[name] = truth
    return Followed(key, starts.get(name, truth))


def is_current(name: str, key: str) -> bool:
    """Whether a change of the control with this key was made on what it shows now."""
    return key == _current(name)
