"""One press acts once, whichever messages of the browser carry it."""

from __future__ import annotations

import pytest
from streamlit.proto.ClientState_pb2 import ClientState

from dashboard.presses import without_early_presses


def message(*, auto: bool) -> ClientState:
    sent = ClientState(fragment_id="f", is_auto_rerun=auto)
    sent.widget_states.widgets.add(id="slider").int_value = 3
    sent.widget_states.widgets.add(id="button").trigger_value = True
    sent.widget_states.widgets.add(id="keys").json_value = "{}"
    sent.widget_states.widgets.add(id="component").json_trigger_value = "[1]"
    return sent


def test_a_ticking_fragment_sends_states_and_no_presses():
    sent = message(auto=True)
    kept = without_early_presses(sent)
    assert [state.id for state in kept.widget_states.widgets] == ["slider", "keys"]
    assert kept.fragment_id == "f"
    assert kept.is_auto_rerun
    assert sent == message(auto=True)


@pytest.mark.parametrize("sent", [message(auto=False), ClientState(is_auto_rerun=True), None])
def test_every_other_message_is_left_as_it_is(sent):
    assert without_early_presses(sent) is sent
