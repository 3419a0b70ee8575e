"""What a run of the page has said reaches the browser whole, even when the next run begins before it was sent.

In Streamlit 1.67 a fragment that begins to run drops from the queue to the browser what was said of it before. Where
that was said by a run of the whole page, its message "finished" stays in the queue, and the browser takes away all of
the fragment that it was not sent; the next tick puts it up anew, in other places. On a busy machine charts were
replaced so, and where a later message named a place that had gone, the page went blank for good (in 8 of 39 drawings
with one of two cores taken away). Here a fragment drops nothing. A run of the whole page still does: it says
everything again.
"""

from __future__ import annotations

from typing import Final

from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

_clear: Final = ForwardMsgQueue.clear


def _clear_for_whole_runs(
    queue: ForwardMsgQueue, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
) -> None:
    if not fragment_ids_this_run:
        _clear(queue, retain_lifecycle_msgs, fragment_ids_this_run)
        return
    # From here on no message is merged into one from before: the browser would take it for a part of the run before.
    queue._delta_index_map = {}


def deliver_whole() -> None:
    """Hold the queues of all sessions of this process to it. Called once, before the first page is served."""
    ForwardMsgQueue.clear = _clear_for_whole_runs  # type: ignore[method-assign, assignment]
