"""The engine loop on virtual time: when a step may run, what is published, and that nothing spins."""

from __future__ import annotations

import pytest
from fakes import Bench, FakeRunner, next_letter

from model_runner.messages import ENGINE_FAILED, Abort, Preempt, Resync, SetPolicy, Shutdown, Step, Submit
from model_runner.transport import Incoming
from scheduler import SamplingParams, SchedulerPolicy, StepResult, StepTimings

PROMPT = (10, 20, 30)


def submit(number=1, max_tokens=5, prompt=PROMPT, **fields) -> Submit:
    sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    return Submit(number, f"r{number}", sampling, prompt_token_ids=prompt, **fields)


def expected_tokens(prompt, count):
    known = list(prompt)
    for _ in range(count):
        known.append(next_letter(len(known), known[-1]))
    return known[len(prompt) :]


def steps(bench):
    return [s for s in bench.published if not s.heartbeat]


def test_a_request_runs_to_its_end_and_its_text_arrives_whole():
    bench = Bench()
    bench.transport.send(submit(max_tokens=6))
    bench.run_for(2.0)
    assert bench.tokens["r1"] == expected_tokens(PROMPT, 6)
    assert bench.texts["r1"] == "".join(map(chr, expected_tokens(PROMPT, 6)))
    assert bench.published[-1].step.totals.finished == 1
    assert bench.published[-1].phase == "idle"


def test_sequence_numbers_have_no_hole_and_engine_time_never_goes_back():
    bench = Bench()
    bench.transport.send(submit(max_tokens=20))
    bench.run_for(3.0)
    assert [s.seq for s in bench.published] == list(range(1, len(bench.published) + 1))
    times = [s.engine_time for s in bench.published]
    assert times == sorted(times)


def test_an_idle_engine_beats_twice_a_second_and_sleeps_between():
    bench = Bench()
    bench.run_for(10.0)
    assert 20 <= len(bench.published) <= 22
    assert all(s.heartbeat and s.phase == "idle" for s in bench.published)
    assert len(bench.transport.waits) <= 25


def test_paused_engine_runs_no_step_and_its_clock_stands_still():
    bench = Bench(SchedulerPolicy(paused=True))
    bench.transport.send(submit())
    bench.turns(1)
    before = bench.published[-1].engine_time
    bench.run_for(20.0)
    assert bench.runner.steps == []
    assert bench.published[-1].phase == "paused"
    assert bench.published[-1].engine_time == before
    assert bench.published[-1].step.num_waiting == 1


@pytest.mark.parametrize("held", [{"paused": True}, {"single_step": True}])
def test_step_commands_run_exactly_that_many_iterations_while_held(held):
    bench = Bench(SchedulerPolicy(**held))
    bench.transport.send(submit(max_tokens=30))
    bench.turns(2)
    bench.transport.send(Step(2, 3))
    bench.run_for(5.0)
    assert bench.reply.ok
    assert len(steps(bench)) == 3
    bench.transport.send(Step(3, 1))
    bench.run_for(5.0)
    assert len(steps(bench)) == 4
    assert bench.published[-1].phase == "paused"


def test_step_commands_that_cannot_run_are_refused_with_the_reason():
    bench = Bench()
    for number, (count, word) in enumerate([(1, "held"), (0, "count"), (10**9, "count")], 1):
        bench.transport.send(Step(number, count))
        bench.turns(1)
        assert not bench.reply.ok
        assert word in bench.reply.reasons[0]


def test_single_step_with_nothing_to_step_lets_the_engine_clock_run_so_that_traffic_arrives():
    bench = Bench(SchedulerPolicy(single_step=True))
    bench.run_for(4.0)
    assert bench.published[-1].engine_time >= 3.5


def test_pace_delays_steps_but_is_no_engine_time_and_no_latency():
    bench = Bench(SchedulerPolicy(step_delay_ms=1000.0), FakeRunner(step_s=0.01))
    bench.transport.send(submit(max_tokens=5))
    start = bench.now.seconds
    bench.run_for(10.0)
    ran = steps(bench)
    assert len(ran) == 5
    assert ran[-1].wall_time - start >= 4.0
    assert ran[-1].engine_time == pytest.approx(0.05)
    record = next(r for s in bench.published for r in s.step.records)
    assert record.end_time - record.arrival_time == pytest.approx(0.05)
    assert all(s.step_s < 0.02 for s in ran)


def test_a_command_interrupts_the_pace():
    bench = Bench(SchedulerPolicy(step_delay_ms=60_000.0))
    bench.transport.send(submit(max_tokens=3))
    bench.turns(2)
    bench.transport.at(bench.now.seconds + 1.0, SetPolicy(2, SchedulerPolicy(step_delay_ms=0.0)))
    bench.run_for(3.0)
    assert bench.published[-1].step.totals.finished == 1


def test_a_policy_is_in_force_from_the_step_that_the_reply_names():
    bench = Bench()
    bench.transport.send(submit(max_tokens=50))
    bench.turns(5)
    bench.transport.send(SetPolicy(2, SchedulerPolicy(max_num_seqs=1)))
    bench.turns(3)
    reply = bench.reply
    assert reply.ok
    governed = [s for s in steps(bench) if s.step.policy.version == reply.version]
    assert governed[0].step.step_id == reply.step_id
    assert governed[0].step.policy.max_num_seqs == 1


def test_an_illegal_policy_is_refused_by_field_and_changes_nothing():
    bench = Bench()
    bench.transport.send(SetPolicy(1, SchedulerPolicy(max_num_seqs=0)))
    bench.turns(1)
    assert not bench.reply.ok
    assert "max_num_seqs" in bench.reply.reasons[0]
    assert bench.scheduler.policy.max_num_seqs == 8


def test_a_change_while_nothing_runs_is_shown_at_once():
    bench = Bench()
    bench.run_for(0.6)
    count = len(bench.published)
    bench.transport.send(SetPolicy(1, SchedulerPolicy(max_num_seqs=3)))
    bench.turns(1)
    assert len(bench.published) == count + 1
    assert bench.published[-1].step.policy.max_num_seqs == 3


def test_work_that_cannot_run_does_not_spin():
    bench = Bench(SchedulerPolicy(admission_paused=True))
    bench.transport.send(submit())
    bench.run_for(10.0, limit=100)
    assert bench.published[-1].step.num_waiting == 1
    bench.transport.send(SetPolicy(2, SchedulerPolicy()))
    bench.run_for(2.0)
    assert bench.published[-1].step.totals.finished == 1


def test_f16_memory_error_of_the_runner_is_a_runner_error_and_not_an_overload():
    bench = Bench(runner=FakeRunner(error_at=3, error=MemoryError("no room")))
    bench.transport.send(submit(max_tokens=10))
    bench.run_for(5.0, limit=100)
    last = bench.published[-1]
    assert last.phase == "failed"
    assert "runner error" in last.error
    assert "MemoryError" in last.error
    assert "no room" in last.error
    assert len(bench.tokens["r1"]) == 2
    assert last.step.totals.submitted == 1
    assert last.step.totals.rejected == 0
    bench.transport.send(submit(2))
    bench.turns(1)
    assert bench.reply.kind == ENGINE_FAILED


def test_bytes_that_are_no_command_are_answered_and_the_engine_goes_on():
    bench = Bench()
    bench.transport.inbox.append(Incoming(b"x", None, "command: not readable"))
    bench.transport.send(submit())
    bench.run_for(1.0)
    assert bench.transport.replies[0].ok is False
    assert bench.published[-1].step.totals.finished == 1


def test_bad_requests_are_answered_with_field_and_value_and_hurt_nobody():
    bench = Bench()
    bad = [
        (Submit(1, "a", SamplingParams(max_tokens=1)), "exactly one"),
        (Submit(2, "b", SamplingParams(max_tokens=1), prompt_token_ids=()), "prompt"),
        (Submit(3, "c", SamplingParams(max_tokens=1), prompt_token_ids=(99_999,)), "99999"),
        (Submit(4, "d", SamplingParams(max_tokens=0), prompt_token_ids=(1,)), "max_tokens"),
        (Submit(5, "", SamplingParams(max_tokens=1), prompt_token_ids=(1,)), "request_id"),
        (Submit(6, "e", SamplingParams(temperature=float("nan")), prompt_token_ids=(1,)), "temperature"),
        (Submit(7, "f", SamplingParams(max_tokens=1), prompt_token_ids=(1,) * 500), "prompt"),
    ]
    bench.transport.send(submit(100, max_tokens=8))
    for command, _ in bad:
        bench.transport.send(command)
    bench.run_for(2.0)
    by_id = {reply.command_id: reply for reply in bench.transport.replies}
    for command, word in bad:
        assert not by_id[command.command_id].ok
        assert word in by_id[command.command_id].reasons[0]
    assert bench.tokens["r100"] == expected_tokens(PROMPT, 8)


def test_a_seed_is_drawn_for_a_request_that_brings_none_and_reported():
    bench = Bench()
    bench.transport.send(submit(1))
    bench.transport.send(
        Submit(2, "own", SamplingParams(max_tokens=1, seed=7), prompt_token_ids=PROMPT),
    )
    bench.turns(1)
    drawn, own = bench.transport.replies
    assert isinstance(drawn.seed, int)
    assert own.seed == 7
    assert drawn.prompt_token_ids == PROMPT


def test_prior_tokens_count_and_are_not_delivered_again():
    bench = Bench()
    whole = expected_tokens(PROMPT, 8)
    bench.transport.send(submit(1, max_tokens=8, prior_output_token_ids=tuple(whole[:3])))
    bench.run_for(2.0)
    assert bench.tokens["r1"] == whole[3:]
    assert bench.texts["r1"] == "".join(map(chr, whole[3:]))


def test_a_request_that_outlived_a_worker_keeps_its_arrival_and_its_record_names_the_tokens_of_before():
    bench = Bench()
    bench.run_for(1.0)
    bench.transport.send(submit(1, max_tokens=8, prior_output_token_ids=(97, 98), age_s=30.0))
    sent_at = bench.clock()
    bench.run_for(3.0)
    (record,) = [record for snapshot in bench.published for record in snapshot.step.records]
    assert record.arrival_time == pytest.approx(sent_at - 30.0, abs=0.5)
    assert (record.num_output_tokens, record.num_prior_output_tokens) == (8, 2)


@pytest.mark.parametrize(
    ("sampling", "prior", "reason"),
    [
        (SamplingParams(max_tokens=2), (97, 98), "length"),
        (SamplingParams(max_tokens=9), (97, 257), "stop"),
        (SamplingParams(max_tokens=9, stop_token_ids=(98,)), (97, 98), "stop"),
    ],
)
def test_a_request_whose_prior_tokens_are_all_of_it_ends_without_another_token(sampling, prior, reason):
    bench = Bench()
    bench.transport.send(Submit(1, "r1", sampling, prompt_token_ids=PROMPT, prior_output_token_ids=prior))
    bench.run_for(1.0)
    assert (bench.reply.ok, bench.reply.kind, bench.reply.reasons) == (True, "finished", (reason,))
    assert bench.tokens == {}


def test_abort_all_reaches_running_and_waiting_and_unknown_ids_are_named():
    bench = Bench(SchedulerPolicy(max_num_seqs=2))
    for number in range(1, 6):
        bench.transport.send(submit(number, max_tokens=100))
    bench.turns(4)
    bench.transport.send(Abort(10, None))
    bench.turns(1)
    count = len(bench.tokens.get("r1", []))
    bench.run_for(2.0)
    assert bench.published[-1].step.totals.aborted == 5
    assert len(bench.tokens["r1"]) == count
    bench.transport.send(Abort(11, "nobody"))
    bench.turns(1)
    assert bench.reply.kind == "unknown"


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_a_request_is_evicted_in_the_step_that_the_reply_names_and_goes_on_with_its_tokens(mode):
    bench = Bench(SchedulerPolicy(preemption_mode=mode))
    bench.transport.send(submit(1, max_tokens=30))
    bench.transport.send(submit(2, max_tokens=30, prompt=(7, 8)))
    bench.turns(5)
    bench.transport.send(Preempt(3, "r1"))
    bench.run_for(3.0)
    assert (bench.reply.ok, bench.reply.kind) == (True, "preempted")
    assert {s.step.step_id: s.step.preempted for s in steps(bench) if s.step.preempted} == {
        bench.reply.step_id: ("r1",)
    }
    (event,) = [e for s in steps(bench) for e in s.step.events if e.kind == "preempted"]
    assert (event.reason, event.numbers["mode"]) == ("requested", mode)
    assert bench.tokens == {"r1": expected_tokens(PROMPT, 30), "r2": expected_tokens((7, 8), 30)}


def test_only_what_runs_can_be_evicted():
    bench = Bench(SchedulerPolicy(max_num_seqs=1))
    bench.transport.send(submit(1, max_tokens=30))
    bench.transport.send(submit(2, max_tokens=30))
    bench.turns(3)
    for request_id, kind in (("r2", "not_running"), ("r9", "unknown")):
        bench.transport.send(Preempt(3, request_id))
        bench.turns(1)
        assert (bench.reply.ok, bench.reply.kind) == (False, kind)
    bench.run_for(3.0)
    assert bench.published[-1].step.totals.preemptions == 0


def test_times_of_a_runner_that_takes_them_are_kept_and_copying_blocks_is_no_computing():
    class TimedRunner(FakeRunner):
        def execute(self, step):
            result = super().execute(step)
            timings = StepTimings(execute_s=0.004 * (not step.is_empty), swap_out_s=0.006 * bool(step.swapped_out))
            return StepResult(result.step_id, result.sampled, timings)

    bench = Bench(SchedulerPolicy(preemption_mode="swap"), TimedRunner())
    bench.transport.send(submit(1, max_tokens=30))
    bench.turns(4)
    bench.transport.send(Preempt(2, "r1"))
    bench.run_for(2.0)
    (moved,) = [s for s in steps(bench) if s.step.swapped_out]
    assert (moved.step.timings.swap_out_s, moved.step.timings.execute_s) == (0.006, 0.0)
    assert bench.tokens["r1"] == expected_tokens(PROMPT, 30)


def test_resync_brings_what_was_missed_and_states_of_that_very_moment():
    bench = Bench()
    bench.transport.send(submit(1, max_tokens=40))
    bench.turns(10)
    bench.transport.send(submit(2, max_tokens=40))
    bench.transport.send(Abort(3, "r1"))
    bench.transport.send(Resync(4, 5))
    bench.turns(1)
    index = next(i for i, reply in enumerate(bench.transport.replies) if reply.command_id == 4)
    reply, missed = bench.transport.replies[index], bench.transport.missed_replies[index]
    assert [s.seq for s in missed] == list(range(6, missed[-1].seq + 1))
    known = [t for s in bench.published if s.seq <= missed[-1].seq for t in s.step.new_tokens.values()]
    states = {state.request_id: state for state in reply.states}
    assert list(states["r1"].output_token_ids) == known
    assert states["r1"].ended == "aborted"
    assert states["r2"].ended == ""


def test_f46_the_result_of_another_step_changes_nothing():
    class LateRunner(FakeRunner):
        """Answers the second step with the first one's result."""

        def execute(self, step):
            result = super().execute(step)
            self.first = getattr(self, "first", result)
            return self.first if len(self.steps) == 2 else result

    bench = Bench(runner=LateRunner())
    bench.transport.send(submit(1, max_tokens=6))
    bench.run_for(3.0, limit=200)
    tokens = bench.tokens.get("r1", [])
    assert tokens == expected_tokens(PROMPT, len(tokens))


def test_shutdown_ends_the_loop_after_a_last_snapshot():
    bench = Bench()
    bench.transport.send(submit())
    bench.transport.at(bench.now.seconds + 3.0, Shutdown(9))
    bench.engine.run()
    assert bench.published[-1].phase == "stopping"
    assert bench.reply.ok


def test_a_command_that_breaks_the_handler_is_answered_and_hurts_nobody(monkeypatch):
    bench = Bench()
    bench.transport.send(submit(1, max_tokens=5))
    bench.turns(2)

    def broken(command, step_id):
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(bench.engine._handler, "submit", broken)
    bench.transport.send(submit(2))
    bench.run_for(1.0)
    assert "nobody foresaw this" in bench.reply.reasons[0]
    assert bench.tokens["r1"] == expected_tokens(PROMPT, 5)


def test_what_a_command_waited_for_the_running_step_counts_as_queue_time():
    bench = Bench()
    handler = bench.engine._handler
    handler._monotonic = bench.now
    sent_at = bench.now.seconds
    bench.now.advance(0.25)
    bench.transport.send(submit(1, max_tokens=2, sent_at=sent_at, age_s=1.0))
    bench.run_for(1.0)
    (record,) = (record for snapshot in bench.published for record in snapshot.step.records)
    assert record.first_scheduled_time - record.arrival_time == pytest.approx(1.25)
