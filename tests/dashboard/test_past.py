"""A picture of the past is the picture that was shown then."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from dashboard.frame import Frame
from dashboard.hub import FOLLOW_AFTER, OLD_FRAMES, Hub
from dashboard.moment import ENDED, GONE, HOLE, NO_RUN, NOT_YET, NOTHING, resolve
from dashboard.past import GapBook, Moment, Past, decides, events, worst_gap
from model_runner.views import Mark
from scheduler import SchedulerPolicy
from tests.dashboard.fakes import FakeClient


def busy(num_blocks: int = 16) -> FakeClient:
    """A client whose requests come, go, and evict one another."""
    client = FakeClient(SchedulerPolicy(max_num_seqs=3, max_num_batched_tokens=16), num_blocks=num_blocks)
    for i, (prompt, output) in enumerate([(20, 16), (9, 30), (7, 24), (5, 8), (12, 20), (6, 9)]):
        client.add(f"r{i}", prompt, output)
    return client


def hub_of(client: FakeClient) -> Hub:
    return Hub(client)  # type: ignore[arg-type]


def picture(frame: Frame) -> tuple[object, ...]:
    """All that a page draws of a frame."""
    return frame.data, frame.marks, frame.figures, frame.evictions, frame.costs, frame.recent, frame.snapshot, frame.n


def test_the_picture_of_a_past_step_is_the_one_that_was_live_then():
    client = busy()
    hub = hub_of(client)
    then = {}
    for _ in range(60):
        client.run(1)
        then[client.latest.step.step_id] = picture(hub.frame())
    assert any(client.history()[i].step.preempted for i in range(60)), "the case needs preemptions"
    for step_id, shown in then.items():
        assert picture(hub.frame_at(Moment("run-1", step_id))) == shown, step_id


def test_the_past_is_the_same_when_the_steps_were_taken_many_at_once():
    client = busy()
    slow, fast = hub_of(client), hub_of(client)
    for _ in range(50):
        client.run(1)
        fast.frame()
    slow.frame()
    for step_id in (1, 17, 33, 50):
        assert picture(slow.frame_at(Moment("run-1", step_id))) == picture(fast.frame_at(Moment("run-1", step_id)))


def test_a_picture_of_the_past_is_made_once_for_all_pages_and_few_are_held():
    client = busy()
    client.run(60)
    hub = hub_of(client)
    hub.frame()
    first = hub.frame_at(Moment("run-1", 5))
    assert hub.frame_at(Moment("run-1", 5)) is first
    for step_id in range(10, 10 + OLD_FRAMES):
        hub.frame_at(Moment("run-1", step_id))
    assert hub.frame_at(Moment("run-1", 5)) is not first


def test_what_the_client_has_let_go_is_not_held(monkeypatch):
    client = busy()
    client.run(40)
    hub = hub_of(client)
    hub.frame()
    client.run(1)
    everything = client.history()
    monkeypatch.setattr(client, "history", lambda last=None: everything[-(last or 10) :][-10:])
    hub.frame()
    assert [k.facts.step_id for k in hub.kept()] == list(range(32, 42))
    assert hub.frame_at(Moment("run-1", 31)) is None
    assert hub.frame_at(Moment("run-2", 40)) is None


def test_a_picture_that_is_looked_at_outlives_its_step(monkeypatch):
    client = busy()
    client.run(20)
    hub = hub_of(client)
    hub.frame()
    shown = hub.frame_at(Moment("run-1", 3))
    client.run(1)
    everything = client.history()
    monkeypatch.setattr(client, "history", lambda last=None: everything[-(last or 10) :][-10:])
    hub.frame()
    assert hub.frame_at(Moment("run-1", 3)) is shown


def test_wide_steps_are_held_for_a_shorter_time():
    client = busy()
    client.run(30)
    hub = hub_of(client)
    hub.frame()
    ring = Past(max_steps=1000, max_cells=20)
    for kept in hub.kept():
        ring.add(kept)
    assert 1 <= sum(len(k.facts.cells) for k in ring.all()) <= 20
    assert ring.all() == hub.kept()[-len(ring) :]
    assert ring.find(hub.kept()[0].moment) is None
    assert ring.find(ring.all()[0].moment) is ring.all()[0]


def sizes(value: object, seen: set[int], shared: tuple[type, ...]) -> int:
    """Bytes of a value and of all it holds, each thing once; things of the types ``shared`` left out."""
    if id(value) in seen or isinstance(value, shared):
        return 0
    seen.add(id(value))
    held = sys.getsizeof(value)
    if isinstance(value, dict):
        return held + sum(sizes(v, seen, shared) for pair in value.items() for v in pair)
    if isinstance(value, list | tuple):
        return held + sum(sizes(v, seen, shared) for v in value)
    names = [n for cls in type(value).__mro__ for n in getattr(cls, "__slots__", ())]
    return held + sum(sizes(getattr(value, n), seen, shared) for n in names if hasattr(value, n))


def test_a_step_costs_a_few_kilobytes_beside_its_snapshot():
    client = busy(num_blocks=64)
    client.run(60)
    hub = hub_of(client)
    hub.frame()
    seen: set[int] = set()
    shared = (type(client.latest), type(client.latest.step), str)
    each = sum(sizes(k, seen, shared) for k in hub.kept()) / 60
    assert each < 4_000


def test_the_worst_gap_is_the_longest_time_between_two_tokens_of_one_request():
    client = busy()
    client.run(60)
    hub = hub_of(client)
    hub.frame()
    kept = hub.kept()
    last: dict[str, float] = {}
    gaps = {}
    for snapshot in client.history():
        for request_id in snapshot.step.new_tokens:
            if request_id in last:
                gaps[(snapshot.step.step_id, request_id)] = snapshot.engine_time - last[request_id]
            last[request_id] = snapshot.engine_time
    place = worst_gap(kept)
    (step_id, _), longest = max(gaps.items(), key=lambda item: item[1])
    assert kept[place].gap_s == pytest.approx(longest)
    assert kept[place].facts.step_id == step_id
    assert longest > 0.15, "somebody was evicted and waited"
    assert worst_gap(kept[:2]) is None


def test_a_gap_does_not_reach_over_a_restart():
    client = busy()
    book = GapBook()
    client.run(3)
    for snapshot in client.history():
        book.add(snapshot)
    client.start_run("run-2", SchedulerPolicy())
    client.add("r0", 4, 5)
    client.run(1)
    assert book.add(client.latest) == (0.0, "")


def test_preemptions_changes_of_policy_and_restarts_are_found_where_they_happened():
    client = busy()
    client.run(30)
    client.set_policy(replace(client.policy, max_num_seqs=2))
    client.run(10)
    client.set_policy(replace(client.policy, step_delay_ms=50.0))
    client.run(2)
    client.start_run("run-2", SchedulerPolicy())
    client.add("s0", 4, 9)
    client.run(3)
    hub = hub_of(client)
    hub.frame()
    kept = hub.kept()
    found = events(kept, client.marks)
    preempted = [i for i, s in enumerate(client.history()) if s.step.preempted]
    assert [i for i, kind in found if kind == "preemption"] == preempted
    assert [kept[i].moment for i, kind in found if kind == "policy"] == [Moment("run-1", 31)]
    assert [kept[i].moment for i, kind in found if kind == "restart"] == [Moment("run-2", 1)]
    assert not decides(Mark("policy", "run-1", 3, 0.0, 2, "paused False -> True"))


@pytest.mark.parametrize(
    ("asked", "shown", "why"),
    [
        (Moment("run-1", 5), Moment("run-1", 5), None),
        (Moment("", 7), Moment("run-2", 7), None),
        (Moment("", 8), None, NOT_YET),
        (Moment("run-1", 3), Moment("run-1", 4), GONE),
        (Moment("run-1", 99), Moment("run-1", 9), ENDED),
        (Moment("run-2", 2), Moment("run-2", 3), HOLE),
        (Moment("run-9", 2), None, NO_RUN),
    ],
)
def test_what_is_asked_for_and_not_kept_is_said_and_the_nearest_shown(asked, shown, why):
    client = busy()
    client.run(9)
    client.start_run("run-2", SchedulerPolicy())
    client.add("s0", 4, 9)
    client.run(7)
    hub = hub_of(client)
    hub.frame()
    kept = [k for k in hub.kept()[3:] if k.moment != Moment("run-2", 2)]
    found, problem = resolve(kept, asked)
    assert found == shown
    assert (problem.template if problem else None) == why


def test_nothing_kept_is_said():
    found, problem = resolve([], Moment("", 5))
    assert found is None
    assert problem.template == NOTHING


class _Observed(FakeClient):
    """A client that keeps as few steps as this, and tells of each."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self._kept = kept
        self.observer = lambda snapshot: None

    def observe(self, observer) -> None:
        self.observer = observer

    def history(self, last: int | None = None):
        return super().history(min(self._kept, last or self._kept))

    def run(self, steps: int = 1):
        step = super().run(steps)
        self.observer(self.latest)
        return step


def test_no_step_is_missed_while_no_page_is_open():
    client = _Observed(kept=2 * FOLLOW_AFTER)
    hub = hub_of(client)
    hub.keep_up()
    client.add("long", 4, 100)
    for rounds in range(1, 6):
        for _ in range(FOLLOW_AFTER):
            client.run()
        end = time.monotonic() + 20
        while len(hub.kept()) < FOLLOW_AFTER or hub.kept()[-1].n < (rounds - 0.5) * FOLLOW_AFTER:
            assert time.monotonic() < end, "nobody took the steps"
            time.sleep(0.005)
    frame = hub.frame()
    assert frame is not None
    assert frame.n == 5 * FOLLOW_AFTER - 1, "every step has its place"
    summary = hub.epochs.summary()
    assert summary is not None
    assert summary.missed_steps == 0
