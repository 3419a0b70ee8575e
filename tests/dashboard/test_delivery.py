"""What a run has said reaches the browser whole: Streamlit's own queue, driven as a session drives it."""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

from dashboard.delivery import deliver_whole


@pytest.fixture(autouse=True)
def delivered_whole(monkeypatch):
    monkeypatch.setattr(ForwardMsgQueue, "clear", ForwardMsgQueue.clear)  # put back after the test
    deliver_whole()


def session() -> ForwardMsg:
    msg = ForwardMsg()
    msg.new_session.SetInParent()
    return msg


def element(path: list[int], text: str, fragment: str = "") -> ForwardMsg:
    msg = ForwardMsg()
    msg.metadata.delta_path[:] = path
    msg.delta.fragment_id = fragment
    msg.delta.new_element.text.body = text
    return msg


def finished(status: str) -> ForwardMsg:
    return ForwardMsg(script_finished=ForwardMsg.ScriptFinishedStatus.Value(status))


def said(queue: ForwardMsgQueue) -> list[str]:
    return [m.delta.new_element.text.body if m.HasField("delta") else m.WhichOneof("type") for m in queue.flush()]


WHOLE = [
    session(),
    element([0, 0], "sidebar"),
    element([0, 1], "chart", "live"),
    element([0, 2], "words", "words"),
]


@pytest.mark.parametrize("status", ["FINISHED_SUCCESSFULLY", "FINISHED_EARLY_FOR_RERUN"])
def test_a_tick_drops_nothing_of_the_drawing_of_the_whole_page_that_waits_before_it(status):
    queue = ForwardMsgQueue()
    for msg in [*WHOLE, finished(status)]:
        queue.enqueue(msg)
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=["live"])
    queue.enqueue(session())
    queue.enqueue(element([0, 1], "next chart", "live"))
    assert said(queue) == [
        "new_session", "sidebar", "chart", "words", "script_finished", "new_session", "next chart",
    ]  # fmt: skip


def test_a_drawing_of_the_whole_page_takes_the_place_of_what_waits():
    queue = ForwardMsgQueue()
    for msg in [*WHOLE, finished("FINISHED_SUCCESSFULLY")]:
        queue.enqueue(msg)
    queue.clear(retain_lifecycle_msgs=True)
    assert [m.script_finished for m in queue.flush() if m.HasField("script_finished")] == [
        ForwardMsg.FINISHED_EARLY_FOR_RERUN
    ]


def test_sending_empties_the_queue():
    queue = ForwardMsgQueue()
    queue.enqueue(WHOLE[1])
    assert said(queue) == ["sidebar"]
    assert said(queue) == []
