"""One press of a button acts once.

In Streamlit 1.67 a pressed button is noted in the browser and sent by a timer of 0 ms, which then forgets it. When the
browser is busy, the timer by which a fragment asks to be drawn again may come in between: its message carries every
noted state, the press included, and the press is sent a second time with its own message. With several fragments that
tick, one press acted up to four times. The press's own message always follows, so in the message of a ticking fragment
a press is none.
"""

from __future__ import annotations

from typing import Final

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

TRIGGERS: Final = frozenset({"trigger_value", "string_trigger_value", "chat_input_value", "json_trigger_value"})
"""Kinds of widget state that tell of one moment and not of a state: presses, and what is sent like one."""

_request_rerun: Final = AppSession.request_rerun


def without_early_presses(client_state: ClientState | None) -> ClientState | None:
    """What a browser sent, less the presses in it when a ticking fragment sent it."""
    if client_state is None or not client_state.is_auto_rerun:
        return client_state
    states = client_state.widget_states.widgets
    kept = [state for state in states if state.WhichOneof("value") not in TRIGGERS]
    if len(kept) == len(states):
        return client_state
    cleaned = ClientState()
    cleaned.CopyFrom(client_state)
    del cleaned.widget_states.widgets[:]
    cleaned.widget_states.widgets.extend(kept)
    return cleaned


def _request_once(session: AppSession, client_state: ClientState | None) -> None:
    _request_rerun(session, without_early_presses(client_state))


def act_once() -> None:
    """Hold every session of this process to it. Called once, before the first page is served."""
    AppSession.request_rerun = _request_once  # type: ignore[method-assign, assignment]
