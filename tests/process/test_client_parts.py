"""The client's parts without a process: history, journal and the watch for stalls, each within its bounds."""

from __future__ import annotations

import msgspec
from fakes import Bench, VirtualTime
from helpers import length

from model_runner.health import StallWatch
from model_runner.history import History
from model_runner.journal import Journal
from model_runner.messages import Abort, LoadProgress, Reply, Submit
from model_runner.situation import Situation
from scheduler import SchedulerPolicy


def snapshots(count=30, policy=None, **pool):
    bench = Bench(policy, **pool)
    bench.transport.send(Submit(1, "r1", length(count), prompt_token_ids=(1, 2, 3)))
    bench.run_for(3.0)
    return bench.published


def test_history_keeps_steps_only_within_count_and_bytes_and_shares_nothing_mutable():
    history = History(max_steps=10)
    for snapshot in snapshots():
        history.add(snapshot, 100)
    assert [s.step.step_id for s in history.steps()] == list(range(21, 31))
    assert [s.step.step_id for s in history.steps(3)] == [28, 29, 30]
    assert history.steps(0) == ()
    assert history.latest.heartbeat
    small = History(max_bytes=350)
    for snapshot in snapshots():
        small.add(snapshot, 100)
    assert len(small.steps()) == 3


def test_requests_of_another_model_start_again_and_those_of_the_same_go_on():
    journal = Journal()
    outcome = journal.add(Submit(0, "", length(5), "some text"), "user")
    (first,) = journal.unsent("a", 10)
    assert (first.prompt_text, first.prior_output_token_ids) == ("some text", ())
    journal.sent(outcome.request_id)
    assert journal.unsent("a", 10) == []
    journal.answered(outcome.request_id, Reply(1, True, 1, prompt_token_ids=(7, 8)))
    first_step = next(s for s in snapshots() if not s.heartbeat)
    step = msgspec.structs.replace(first_step, text_deltas={outcome.request_id: "x"})
    journal.apply(step)
    assert journal.worker_lost() == 1
    (same,) = journal.unsent("a", 10)
    assert same.prompt_token_ids == (7, 8)
    assert len(same.prior_output_token_ids) == 1
    assert journal.view(outcome.request_id, {}).text == "x"
    (other,) = journal.unsent("b", 10)
    assert (other.prompt_text, other.prompt_token_ids) == ("some text", None)
    assert other.prior_output_token_ids == ()
    assert journal.view(outcome.request_id, {}).text == ""


def test_age_of_a_request_goes_on_over_a_worker_and_leaves_out_what_its_engine_was_held():
    now = VirtualTime()
    journal = Journal(monotonic=now)
    request_id = journal.add(Submit(0, "", length(5), None, (1,)), "user").request_id
    now.seconds += 2.0  # no worker yet
    assert journal.unsent("a", 10)[0].age_s == 2.0
    journal.sent(request_id)
    held = msgspec.structs.replace(snapshots()[0], engine_time=7.0)
    journal.apply(held)
    now.seconds += 60.0  # paused: the engine's clock stood at 7 s
    journal.worker_lost()
    now.seconds += 1.5
    assert journal.unsent("a", 10)[0].age_s == 2.0 + 7.0 + 1.5


def test_journal_keeps_only_the_newest_that_ended():
    journal = Journal(kept_ended=3)
    for _ in range(10):
        request_id = journal.add(Submit(0, "", length(1), None, (1,)), "user").request_id
        journal.answered(request_id, Reply(1, False, 1, ("no",)))
    assert [view.request_id for view in journal.views(100, {})] == ["r8", "r9", "r10"]
    assert journal.num_unfinished == journal.num_unsent == 0


def stuck(policy, seconds=5.0):
    bench = Bench(policy)
    watch = StallWatch()
    bench.transport.send(Submit(1, "r1", length(5), prompt_token_ids=(1, 2, 3)))
    bench.turns(1)
    bench.run_for(seconds)
    for snapshot in bench.published:
        watch.observe(snapshot, snapshot.wall_time)
    return bench, watch


def test_r17_work_without_progress_is_a_stall_with_the_pool_equation_in_words():
    bench, watch = stuck(SchedulerPolicy(admission_paused=True))
    text = watch.verdict(bench.now.seconds)
    assert "0 used + 64 free = 64" in text
    assert "0 running, 1 waiting" in text
    assert "r1 is first" in text
    bench.transport.send(Abort(2, None))
    bench.run_for(1.0)
    watch.observe(bench.published[-1], bench.now.seconds)
    assert watch.verdict(bench.now.seconds) == ""


def test_r17_a_missing_heartbeat_is_a_stall_and_a_pause_is_none():
    bench, watch = stuck(SchedulerPolicy(paused=True))
    assert watch.verdict(bench.now.seconds) == ""
    assert "no snapshot for" in watch.verdict(bench.now.seconds + 3.0)
    bench, watch = stuck(SchedulerPolicy())
    assert watch.verdict(bench.now.seconds) == ""


def test_a_step_that_takes_long_is_no_stall_and_the_engine_says_before_it_that_it_runs():
    bench, watch = Bench(), StallWatch()
    bench.turns(1)
    bench.transport.send(Submit(1, "r1", length(5), prompt_token_ids=(1, 2, 3)))
    bench.turns(1)
    before, after = bench.published[-2:]
    assert (before.heartbeat, before.phase, before.step.num_waiting) == (True, "running", 1)
    assert not after.heartbeat
    watch.observe(before, 10.0)
    assert (watch.verdict(11.0), watch.long_step(11.0)) == ("", "")
    assert (watch.verdict(13.0), watch.long_step(13.0)) == ("", "the iteration after 0 has been computed for 3.0 s")
    watch.observe(after, 13.0)
    assert watch.long_step(13.0) == ""


def test_of_a_dead_workers_lines_only_those_are_kept_that_may_explain_its_end():
    situation = Situation()
    warning = "WARNING scheduler.custom: rule.py was not loaded: no name"
    assert situation.keep([warning]) == ""
    situation.died("the worker was killed by SIGKILL", 3)
    situation.refresh(None, None)
    assert (situation.state.phase, situation.state.detail) == ("down", ())
    assert situation.state.message == "the worker was killed by SIGKILL; 3 requests go on with the next"
    assert situation.keep([warning, "MemoryError: no room"]) == "MemoryError: no room"
    situation.listens()
    situation.refresh(None, LoadProgress("run-2", "load", 0.5, "layer 3"))
    assert (situation.state.phase, situation.state.progress) == ("restarting", 0.5)
    assert "3 requests go on" in situation.state.message
    situation.refresh(("idle", ""), LoadProgress("run-2", "load", 0.5, "layer 3"))
    assert (situation.state.phase, situation.state.progress) == ("idle", None)
