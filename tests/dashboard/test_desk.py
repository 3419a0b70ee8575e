"""Quick changes build on each other, although snapshots show them a step later."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from dashboard.desk import Desk
from model_runner.views import PolicyReply
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient


class LateClient(FakeClient):
    """Shows a policy only once a step has been published with it, as the real client does."""

    @property
    def policy(self) -> SchedulerPolicy:
        return self.latest.step.policy if self.latest else super().policy


@pytest.fixture
def client():
    late = LateClient(SchedulerPolicy(max_num_seqs=4))
    late.run(1)
    return late


def test_a_second_change_before_the_next_step_keeps_the_first(client):
    desk = Desk(client)
    desk.change(lambda p: replace(p, max_num_seqs=12))
    assert client.policy.max_num_seqs == 4, "not published yet"
    assert desk.policy.max_num_seqs == 12
    change = desk.change(lambda p: replace(p, max_num_batched_tokens=64))
    assert change.before.max_num_seqs == 12
    client.run(1)
    assert (client.policy.max_num_seqs, client.policy.max_num_batched_tokens) == (12, 64)
    assert desk.policy == client.policy


def test_a_refused_change_leaves_the_truth(client):
    desk = Desk(client)
    change = desk.change(lambda p: replace(p, max_num_seqs=0))
    assert not change.reply.accepted
    assert desk.policy.max_num_seqs == 4


def test_a_change_that_died_with_its_engine_is_not_shown_as_in_force(client):
    desk = Desk(client)
    desk.change(lambda p: replace(p, max_num_seqs=12))
    client.start_run("run-2", SchedulerPolicy(max_num_seqs=4))
    client.run(1)
    assert desk.policy.max_num_seqs == 4


def test_a_page_drawn_during_a_change_waits_for_it(client, monkeypatch):
    """A control drawn with the policy from before would undo the choice that is on its way."""
    desk, asked, answer, seen = Desk(client), threading.Event(), threading.Event(), []
    put = client.set_policy

    def slowly(policy: SchedulerPolicy) -> PolicyReply:
        asked.set()
        assert answer.wait(10)
        return put(policy)

    monkeypatch.setattr(client, "set_policy", slowly)

    def draw() -> None:
        desk.settle()
        seen.append(desk.policy.max_num_seqs)

    change = threading.Thread(target=desk.change, args=(lambda p: replace(p, max_num_seqs=12),))
    drawing = threading.Thread(target=draw)
    change.start()
    assert asked.wait(10)
    drawing.start()
    assert desk.policy.max_num_seqs == 4, "a tick does not wait"
    answer.set()
    change.join(10)
    drawing.join(10)
    assert seen == [12]
