"""The worker dies, or is restarted: no request is lost, none is answered twice, no token comes twice."""

from __future__ import annotations

import os
import signal
import time

import pytest
from helpers import QUIET, TOY, ended, fake_client, length, letters, live, wait_until, worker_pids

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.journal import MAX_UNFINISHED
from scheduler import SamplingParams, SchedulerPolicy

pytestmark = pytest.mark.process


def kill_worker(client) -> str:
    run_id = client.latest.run_id
    (pid,) = worker_pids()
    os.kill(pid, signal.SIGKILL)
    return run_id


def live_again(client, after: str) -> None:
    wait_until(lambda: client.latest.run_id != after and client.state.phase in ("running", "idle", "paused"))


def test_kill_9_under_load_again_and_again_every_request_equals_its_lone_run():
    with fake_client("--step-s", "0.01", policy=SchedulerPolicy(max_num_seqs=4)) as client:
        live(client)
        prompts = [tuple(range(n, n + 3 + n % 7)) for n in range(12)]
        ids = [client.submit(prompt, length(60)).request_id for prompt in prompts]
        for kill in range(4):
            step_id = client.latest.step.step_id
            wait_until(lambda step_id=step_id: client.latest.step.step_id > step_id + 10)
            run_id = kill_worker(client)
            started = time.monotonic()
            wait_until(lambda: client.state.phase in ("down", "restarting"), 2.0)
            live_again(client, run_id)
            assert time.monotonic() - started < 10
            assert client.state.restarts == kill + 1
        ended(client, ids)
        for request_id, prompt in zip(ids, prompts, strict=True):
            view = client.request(request_id)
            assert view.tokens == letters(prompt, 60)
            assert view.text == bytes(view.tokens).decode()
            assert (view.outcome, view.reason) == ("finished", "length")
            assert view.num_restarts >= 1
        ends = [r.request_id for s in client.history() for r in s.step.records]
        assert sorted(ends) == sorted(ids)


def test_f68_a_restart_is_a_new_run_with_a_mark_and_steps_of_one_run_only_rise():
    with fake_client("--step-s", "0.005") as client:
        live(client)
        request_id = client.submit((1, 2), length(100)).request_id
        wait_until(lambda: client.latest.step.step_id >= 30)
        first = kill_worker(client)
        ended(client, [request_id])
        runs = list(dict.fromkeys(s.run_id for s in client.history()))
        assert runs[0] == first
        assert len(runs) == 2
        (mark,) = [mark for mark in client.marks if mark.kind == "restart"]
        assert mark.run_id == runs[1]
        assert "SIGKILL" in mark.text
        for run_id in runs:
            step_ids = [s.step.step_id for s in client.history() if s.run_id == run_id]
            assert step_ids == sorted(set(step_ids))


def lone_runs(config, requests):
    """Each request alone in an engine of its own size: the truth for what must come out in company."""
    found = []
    with RunnerClient(config, SchedulerPolicy(max_num_seqs=1), traffic=QUIET) as client:
        live(client)
        for prompt, sampling in requests:
            request_id = client.submit(prompt, sampling, chat=False).request_id
            ended(client, [request_id])
            found.append(client.request(request_id).tokens)
    return found


def test_real_model_kill_9_greedy_and_seeded_requests_equal_their_lone_runs():
    requests = [(f"prompt number {n} of a few", length(40)) for n in range(4)]
    requests += [(f"another prompt {n}", length(40, temperature=0.9, seed=n)) for n in range(4)]
    expected = lone_runs(TOY, requests)
    policy = SchedulerPolicy(max_num_batched_tokens=24, step_delay_ms=5.0)
    with RunnerClient(TOY, policy, traffic=QUIET) as client:
        live(client)
        ids = [client.submit(prompt, sampling, chat=False).request_id for prompt, sampling in requests]
        wait_until(lambda: sum(len(client.request(i).tokens) for i in ids) > 60)
        run_id = kill_worker(client)
        live_again(client, run_id)
        assert client.latest.step.policy.max_num_batched_tokens == 24
        ended(client, ids)
        assert [client.request(i).tokens for i in ids] == expected


def test_the_worker_after_a_kill_computes_in_the_number_type_of_the_first():
    """Chosen by measuring, it could come out otherwise, and requests that go on would get other tokens."""
    with RunnerClient(RunnerConfig(model="toy", device="cpu", num_blocks=96), traffic=QUIET) as client:
        live(client)
        first = client.latest.info
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: client.latest.info.pid != first.pid, 60)
        again = client.latest.info
        assert (again.dtype, again.threads, again.start_timings) == (first.dtype, first.threads, first.start_timings)


def test_restart_with_another_block_size_loses_no_request_and_repeats_no_token():
    with fake_client("--step-s", "0.005") as client:
        live(client)
        ids = [client.submit((n, n + 1), length(80)).request_id for n in range(10)]
        wait_until(lambda: len(client.request(ids[0]).tokens) > 10)
        run_id = client.latest.run_id
        client.restart(RunnerConfig(model="toy", block_size=8, num_blocks=50))
        live_again(client, run_id)
        assert client.latest.info.block_size == 8
        assert client.latest.step.block_size == 8
        ended(client, ids)
        assert [client.request(i).tokens for i in ids] == [letters((n, n + 1), 80) for n in range(10)]
        assert client.state.restarts == 0


def test_seed_of_a_request_that_brought_none_survives_a_restart():
    config = TOY
    with RunnerClient(config, SchedulerPolicy(step_delay_ms=10.0), traffic=QUIET) as client:
        live(client)
        request_id = client.submit(
            "once upon", SamplingParams(max_tokens=40, temperature=1.0, ignore_eos=True)
        ).request_id
        wait_until(lambda: len(client.request(request_id).tokens) >= 10)
        kill_worker(client)
        ended(client, [request_id])
        view = client.request(request_id)
        again = client.submit("once upon", length(40, temperature=1.0, seed=view.seed)).request_id
        ended(client, [again])
        assert client.request(again).tokens == view.tokens


def test_policy_survives_a_kill_and_is_echoed_with_its_version_and_step():
    with fake_client() as client:
        live(client)
        client.submit((1, 2), length(300))
        reply = client.set_policy(SchedulerPolicy(max_num_seqs=3))
        assert reply.accepted
        wait_until(lambda: client.latest.step.policy.version == reply.version)
        wait_until(lambda: any(mark.kind == "policy" for mark in client.marks))
        (mark,) = [mark for mark in client.marks if mark.kind == "policy"]
        assert "max_num_seqs 8 -> 3" in mark.text
        run_id = kill_worker(client)
        live_again(client, run_id)
        policy = client.latest.step.policy
        assert (policy.max_num_seqs, policy.version) == (3, reply.version)
        refused = client.set_policy(SchedulerPolicy(max_num_seqs=-1))
        assert not refused.accepted
        assert "max_num_seqs" in refused.reasons[0]


def test_while_nothing_is_live_requests_and_policies_are_kept_and_aborts_take_effect():
    with fake_client() as client:
        kept = client.submit((1, 2, 3), length(5)).request_id
        dropped = client.submit((1, 2, 3), length(5)).request_id
        assert client.request(kept).state == "queued"
        assert client.abort(dropped).kind == "aborted"
        assert client.set_policy(SchedulerPolicy(max_num_seqs=2)).accepted
        live(client)
        ended(client, [kept])
        assert client.request(kept).tokens == letters((1, 2, 3), 5)
        assert client.request(dropped).outcome == "aborted"
        assert client.request(dropped).tokens == ()
        assert client.latest.step.policy.max_num_seqs == 2
        assert client.abort(kept).kind == "already_finished"
        assert client.abort("r999").kind == "unknown"


def test_abort_ends_running_and_waiting_and_no_token_follows():
    with fake_client("--step-s", "0.005", policy=SchedulerPolicy(max_num_seqs=2)) as client:
        live(client)
        ids = [client.submit((n,), length(200)).request_id for n in range(5)]
        wait_until(lambda: len(client.request(ids[0]).tokens) > 3)
        assert client.abort(ids[0]).kind == "aborted"
        ended(client, ids[:1])
        assert client.abort().kind == "aborted"
        ended(client, ids)
        assert {client.request(i).outcome for i in ids} == {"aborted"}
        wait_until(lambda: client.state.phase == "idle")
        assert client.latest.step.num_used_blocks == 0


def test_a_worker_that_dies_while_requests_are_swapped_out_loses_none():
    """The host pool dies with the worker; its requests go on from the tokens they have."""
    policy = SchedulerPolicy(preemption_mode="swap", preemption_requeue="back", max_num_seqs=4)
    with fake_client("--step-s", "0.01", policy=policy, num_host_blocks=64) as client:
        live(client)
        prompts = [(n, n + 1, n + 2) for n in range(8)]
        ids = [client.submit(prompt, length(80)).request_id for prompt in prompts]
        wait_until(lambda: len(client.request(ids[3]).tokens) > 5)
        assert client.preempt(ids[7]).kind == "not_running"
        assert client.preempt("r999").kind == "unknown"
        assert client.preempt(ids[0]).kind == "preempted"
        assert client.preempt(ids[1]).kind == "preempted"
        wait_until(lambda: client.latest.step.num_used_host_blocks > 0)
        run_id = kill_worker(client)
        live_again(client, run_id)
        ended(client, ids)
        assert [client.request(i).tokens for i in ids] == [letters(prompt, 80) for prompt in prompts]
        assert client.latest.step.num_used_host_blocks == 0
        assert client.preempt(ids[0]).kind == "unknown"


def test_a_start_that_contradicts_the_policy_says_so_once_and_goes_on_when_the_policy_is_changed():
    with fake_client("--step-s", "0.01", policy=SchedulerPolicy(preemption_mode="swap")) as client:
        live(client)
        request_id = client.submit((1, 2, 3), length(60)).request_id
        client.restart(RunnerConfig(model="toy", block_size=4, num_blocks=64, num_host_blocks=0))
        wait_until(lambda: client.state.phase == "failed", 10.0)
        assert "preemption_mode" in client.state.message
        assert "num_host_blocks" in client.state.message
        assert client.state.restarts == 0
        assert client.set_policy(SchedulerPolicy()).accepted
        client.restart()
        ended(client, [request_id])
        assert client.request(request_id).tokens == letters((1, 2, 3), 60)


def test_the_journal_is_bounded_and_says_so():
    with fake_client("--hang-load") as client:
        outcomes = [client.submit((1,), length(1)) for _ in range(MAX_UNFINISHED + 1)]
        assert all(outcome.accepted for outcome in outcomes[:-1])
        assert not outcomes[-1].accepted
        assert str(MAX_UNFINISHED) in outcomes[-1].reasons[0]


def test_bad_requests_end_as_rejected_with_the_reason_or_are_refused_at_once():
    with fake_client() as client:
        live(client)
        assert not client.submit("").accepted
        too_long = client.submit((1,) * 600, length(5)).request_id
        bad_token = client.submit((999,), length(5)).request_id
        good = client.submit((1, 2), length(5)).request_id
        ended(client, [too_long, bad_token, good])
        assert client.request(too_long).outcome == "rejected"
        assert "600" in client.request(too_long).reason
        assert "999" in client.request(bad_token).reason
        assert client.request(good).tokens == letters((1, 2), 5)


def test_pause_step_and_resume_through_the_client():
    with fake_client(policy=SchedulerPolicy(paused=True)) as client:
        live(client)
        request_id = client.submit((1, 2), length(10)).request_id
        wait_until(lambda: client.latest.step.num_waiting == 1)
        assert client.step(3).accepted
        wait_until(lambda: len(client.request(request_id).tokens) == 3)
        time.sleep(0.7)
        assert len(client.request(request_id).tokens) == 3
        assert client.state.phase == "paused"
        client.set_policy(SchedulerPolicy())
        ended(client, [request_id])
        assert not client.step(1).accepted


def test_what_cannot_travel_is_refused_at_once_with_the_field_and_hurts_nobody():
    with fake_client() as client:
        live(client)
        for prompt, sampling, priority, word in (
            ("\ud800", length(3), 0, "surrogate"),
            ((10**30,), length(3), 0, "not sendable"),
            ((1.5,), length(3), 0, "prompt_token_ids"),
            ((1,), SamplingParams(max_tokens="many"), 0, "sampling.max_tokens"),
            ((1,), SamplingParams(seed=2**80), 0, "not sendable"),
            ((1,), length(3), "high", "priority"),
        ):
            outcome = client.submit(prompt, sampling, priority=priority)
            assert not outcome.accepted
            assert word in outcome.reasons[0]
        assert not client.step("x").accepted
        assert not client.set_policy(SchedulerPolicy(max_num_seqs=10**30)).accepted
        good = client.submit((1, 2), length(4)).request_id
        ended(client, [good])
        assert client.request(good).tokens == letters((1, 2), 4)
