"""A change of policy asked for on the page: sent, answered, and kept for the echo and for undo."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard.desk import Desk
from dashboard.values import policy_diff
from scheduler import SchedulerPolicy


def apply(desk: Desk, edit: Callable[[SchedulerPolicy], SchedulerPolicy]) -> None:
    """Put an edited policy in force and keep the engine's answer for the echo. An edit that changed nothing, such as
    the second press of a button, leaves the echo and the way back as they are."""
    st.session_state.pop("step.problem", None)
    change = desk.change(edit)
    if change.reply.accepted and not policy_diff(change.before, change.wanted):
        return
    st.session_state["echo"] = (change.reply, policy_diff(change.before, change.wanted))
    if change.reply.accepted:
        st.session_state["undo"] = change.before
