"""Fault F66: threads of ours never touch Streamlit's session; the page reads a client that others write to."""

from __future__ import annotations

import itertools
import threading

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import engine
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient, engine_with
from tests.dashboard.page_script import MAIN


@pytest.mark.parametrize("reruns", [10, pytest.param(1000, marks=pytest.mark.soak)])
def test_f66_reruns_beside_a_publisher_raise_nothing_and_keep_the_session(monkeypatch, reruns):
    client = FakeClient(SchedulerPolicy(max_num_seqs=4, max_num_batched_tokens=64))
    shared = engine_with(client)
    monkeypatch.setattr(engine, "shared", lambda: shared)
    over, failed = threading.Event(), []

    def publish() -> None:
        try:
            for i in itertools.count():
                client.add(f"r{i}", 3 + i % 9, 4)
                client.run(2)
                if over.wait(0.01):
                    return
        except Exception as error:
            failed.append(error)

    client.run(1)
    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        at = AppTest.from_file(str(MAIN), default_timeout=120)
        at.query_params["lang"] = "ko"
        shown = []
        for _ in range(reruns):
            at.run()
            assert not at.exception
            assert at.session_state["language"] == "ko"
            shown.append(client.latest.step.step_id)
    finally:
        over.set()
        publisher.join()
    assert not failed
    assert shown[-1] > shown[0], "the publisher must have run beside the page"
