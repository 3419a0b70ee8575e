"""The scheduler: the only writer of requests and blocks. It asks for proposals and applies them once a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from scheduler import steady
from scheduler.allocation import output_limit
from scheduler.assembly import deliver, give_up
from scheduler.block_pool import KVBlockPool
from scheduler.event_log import EventLog
from scheduler.fragmentation import MemoryGauge
from scheduler.lifecycle import Lifecycle
from scheduler.metrics import Books
from scheduler.outcomes import AbortOutcome, AddOutcome, PolicyOutcome, PreemptOutcome
from scheduler.planner import Planner
from scheduler.policy import SchedulerPolicy, limit_problems
from scheduler.policy_switch import PolicySwitch
from scheduler.refusals import Refusals
from scheduler.request import Request
from scheduler.sequence import Sequence, State
from scheduler.snapshot import MemoryUse, ResumeRecord, StepSnapshot, Totals
from scheduler.step import ScheduleStep, StepResult, StepTimings
from scheduler.swap import HostSpace
from scheduler.tables import SnapshotBuilder
from scheduler.validation import check_size, request_problem


class Scheduler:
    """Decides, one iteration at a time, which tokens are computed. One thread, one step in flight at most.

    policy: in force from the first step. num_blocks, block_size: the KV pool, >= 1. max_model_len: tokens of prompt
    and output together, >= 2. eos_token_ids: end every request that does not ignore them. clock: seconds, never going
    back. snapshot_waiting_limit: rows of the waiting table at most, None = all. vocab_size: token ids must be below
    it, None = not checked. num_host_blocks: pool of preemption "swap", None = as many as num_blocks, 0 = no swap.
    refuse_conflicts: False lets contradicting limits pass (``policy.limit_problems``), for replaying foreign
    workloads; a request may then wait for ever, with the reason shown.

    Raises ValueError for an illegal policy or size. Nothing raises for bad requests: see ``add``.
    """

    def __init__(
        self,
        policy: SchedulerPolicy,
        *,
        num_blocks: int,
        block_size: int,
        max_model_len: int,
        eos_token_ids: Iterable[int] = (),
        clock: Callable[[], float] = time.monotonic,
        snapshot_waiting_limit: int | None = None,
        vocab_size: int | None = None,
        refuse_conflicts: bool = True,
        num_host_blocks: int | None = None,
    ) -> None:
        check_size("num_blocks", num_blocks, 1)
        check_size("block_size", block_size, 1)
        check_size("max_model_len", max_model_len, 2)
        if num_host_blocks is not None:
            check_size("num_host_blocks", num_host_blocks, 0)
        else:
            num_host_blocks = num_blocks
        if snapshot_waiting_limit is not None:
            check_size("snapshot_waiting_limit", snapshot_waiting_limit, 0)
        self._max_model_len = max_model_len
        self.pool = KVBlockPool(num_blocks, block_size)
        self._eos = frozenset(eos_token_ids)
        self._vocab_size = vocab_size
        self._clock = clock
        self._log = EventLog()
        self._books = Books()
        self._refusals = Refusals()

        def conflicts(policy: SchedulerPolicy) -> tuple[str, ...]:
            return limit_problems(policy, max_model_len, num_host_blocks) if refuse_conflicts else ()

        self._policies = PolicySwitch(policy, conflicts, self._log, clock)
        host = HostSpace(num_host_blocks, block_size)
        self._life = Lifecycle(policy, self.pool, host, self._log, self._books, self._refusals)
        self._planner = Planner(self._life, self._policies, self._refusals, max_model_len)
        self._snapshots = SnapshotBuilder(snapshot_waiting_limit)
        self._gauge = MemoryGauge()
        self._step_id = 0
        self._in_flight: ScheduleStep | None = None
        self._run: steady.DecodeRun | None = None

    # What a driver may read.

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force."""
        return self._policies.in_force

    @property
    def has_unfinished(self) -> bool:
        """True while a request has not ended."""
        return bool(self._life.live)

    @property
    def has_work(self) -> bool:
        """True when ``schedule`` might plan something, or has ended ids to pass on to the runner."""
        return bool(self._life.live) or self._life.ended.any_for_step

    @property
    def running_ids(self) -> tuple[str, ...]:
        """Running requests in order of admission."""
        return tuple(seq.request_id for seq in self._life.running)

    @property
    def waiting_ids(self) -> tuple[str, ...]:
        """Waiting requests, head first. Costs O(n): not for every step of a long queue."""
        return tuple([seq.request_id for seq in self._life.waiting.first(None)])

    @property
    def computed_tokens(self) -> dict[str, int]:
        """num_computed_tokens of each request that has not ended."""
        self._settle()
        return {request_id: seq.num_computed_tokens for request_id, seq in self._life.live.items()}

    @property
    def block_tables(self) -> dict[str, tuple[int, ...]]:
        """Blocks of each running request, in order of position."""
        return {seq.request_id: seq.block_table for seq in self._life.running}

    @property
    def memory_use(self) -> MemoryUse:
        """Where the token slots of the pool are now. Costs O(running)."""
        self._settle()
        computed = [seq.num_computed_tokens for seq in self._life.running]
        return self._gauge.measure(self._planner.view(), computed, self._life.num_reserving)

    @property
    def totals(self) -> Totals:
        """The counters so far."""
        self._settle()
        return self._books.totals()

    @property
    def host_pool(self) -> KVBlockPool:
        """The host blocks of swapped requests."""
        return self._life.host.pool

    def sequences(self) -> tuple[list[Sequence], list[Sequence], dict[str, Sequence]]:
        """(running, waiting, all live by id): copies of the lists, for ``invariants`` only; not to be written."""
        self._settle()
        return list(self._life.running), self._life.waiting.first(None), dict(self._life.live)

    # What a driver may ask for. Bad input is an outcome, never an exception.

    def add(self, request: Request) -> AddOutcome:
        """Queue a request, or reject it with a reason that names field, value and limit.

        Rejected is what can never run: malformed, longer than ``max_model_len``, or needing more blocks than the pool
        has (faults F01 to F08). max_tokens None, and one above what ``max_model_len`` leaves, become what is left.
        """
        self._end_run()
        now = self._clock()
        self._books.submitted += 1
        max_tokens = 0
        reason = request_problem(request, max_model_len=self._max_model_len, vocab_size=self._vocab_size)
        if not reason and request.request_id in self._life.live:
            reason = f"request_id is {request.request_id!r}, which belongs to a request that has not ended"
        if not reason:
            max_tokens, reason = output_limit(request, self.pool, self._max_model_len)
        if reason:
            self._life.reject(request, reason, now)
            return AddOutcome(False, reason)
        self._life.enter(request, max_tokens, self._eos, now)
        return AddOutcome(True)

    def abort(self, request_id: str) -> AbortOutcome:
        """End a request wherever it is; its blocks are free at once. In flight it simply gets no token."""
        self._end_run()
        if not isinstance(request_id, str):
            return AbortOutcome("unknown")
        seq = self._life.live.get(request_id)
        if seq is None:
            return AbortOutcome("already_finished" if request_id in self._life.ended else "unknown")
        self._life.end(seq, "aborted", "abort", self._clock())
        return AbortOutcome("aborted")

    def preempt(self, request_id: str) -> PreemptOutcome:
        """Evict a running request in the next step, by the preemption mode in force ("never": by recompute).

        Nobody is let in during that step, as after every eviction. It queues again as the policy says.
        """
        self._end_run()
        seq = self._life.live.get(request_id) if isinstance(request_id, str) else None
        if seq is None:
            return PreemptOutcome("unknown")
        if seq.state is not State.RUNNING or seq.held:
            return PreemptOutcome("not_running")
        self._planner.to_preempt[request_id] = None
        return PreemptOutcome("preempted")

    def set_policy(self, policy: SchedulerPolicy) -> PolicyOutcome:
        """Put a policy in force from the next step on, or refuse it whole, naming each field at fault.

        Between steps it is in force at once; with a step in flight, after that step's ``update``. A policy equal to
        the one in force keeps its version. Every accepted change leaves each accepted request able to finish.
        """
        self._end_run()
        outcome = self._policies.ask(policy)
        if self._in_flight is None:
            self._policies.apply(self._life)
        return outcome

    def schedule(self) -> ScheduleStep:
        """Plan the next step and commit it once. Empty when nothing can run.

        A step whose result never came is given up first: its tokens are planned again.
        """
        if self._in_flight is not None:
            self._end_run()
            self._give_up(self._in_flight)
        now = self._clock()
        self._step_id = self._log.step_id = self._step_id + 1
        run = self._run
        step: ScheduleStep | None = None if run is None else run.schedule(self._step_id, now)
        if step is None:
            self._end_run()
            self._policies.apply(self._life)
            step = self._planner.plan(self._step_id, now)
        self._in_flight = step
        return step

    def update(self, result: StepResult) -> StepSnapshot:
        """Take the sampled tokens of the step in flight, end what is complete, and return the state.

        A result of any other step changes nothing (fault F46). Tokens for requests that ended meanwhile are dropped.
        """
        step = self._in_flight
        if step is None or result.step_id != step.step_id:
            return self.peek()
        now = self._clock()
        self._in_flight = None
        run = self._run
        snapshot: StepSnapshot | None = None if run is None else run.update(result, now)
        if snapshot is None:
            self._end_run()
            snapshot = self._finish(step, result, now)
        self._log.step_id = self._step_id + 1
        if self._policies.following is not None:
            self._policies.apply(self._life)
        return snapshot

    def _finish(self, step: ScheduleStep, result: StepResult, now: float) -> StepSnapshot:
        new_tokens = deliver(step, result, self._life, now)
        resumes = self._life.resumes.settle(step, result.timings, self._life.live, now)
        self._life.end_held(self._policies.in_force.batching, now)
        self._books.steps += 1
        self._refusals.next_step()
        snapshot = self._snapshot(step, new_tokens, now, result.timings, resumes)
        self._begin_run(snapshot)
        return snapshot

    def peek(self) -> StepSnapshot:
        """The state between steps. Drains the events and records gathered since the last snapshot."""
        self._end_run()
        return self._snapshot(None, {}, self._clock(), StepTimings())

    # Its own business.

    def _settle(self) -> None:
        if self._run is not None:
            self._run.settle()

    def _begin_run(self, snapshot: StepSnapshot) -> None:
        planner = self._planner
        if self._policies.following is None and not planner.to_preempt:
            self._run = steady.begin(self._life, planner.view, planner.explainer, snapshot, planner.deferral)

    def _end_run(self) -> None:
        if self._run is not None:
            self._run.settle()
            self._planner.deferral = self._run.deferral
            self._run = None

    def _give_up(self, step: ScheduleStep) -> None:
        self._in_flight = None
        self._life.resumes.give_up()
        self._refusals.next_step()
        give_up(step, self._life)

    def _snapshot(
        self,
        step: ScheduleStep | None,
        new_tokens: dict[str, int],
        now: float,
        timings: StepTimings,
        resumes: tuple[ResumeRecord, ...] = (),
    ) -> StepSnapshot:
        self._refusals.report(self._log, self._books, now)
        view, deferral = self._planner.view(), self._planner.deferral
        return self._snapshots.build(self._life, view, self._step_id, step, new_tokens, deferral, now, timings, resumes)
