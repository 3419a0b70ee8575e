"""The scheduler: the only writer of requests and blocks. It asks for proposals and applies them once a step."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from scheduler import static_batching as _static_batching  # noqa: F401  registers batching "static"
from scheduler.admission import ORDERS, must_fit
from scheduler.allocation import most_blocks_ever
from scheduler.block_pool import InvariantError, KVBlockPool
from scheduler.chunking import cut_reason
from scheduler.continuous import BATCHINGS
from scheduler.events import Number, StepEvent
from scheduler.metrics import Books, record_of
from scheduler.outcomes import AbortOutcome, AddOutcome, PolicyOutcome
from scheduler.plan import Admit, Deferral, Draft, Evict, Grow, Release, StepView
from scheduler.policy import SchedulerPolicy, limit_problems, problems
from scheduler.preemption import REQUEUES
from scheduler.queue import WaitingQueue
from scheduler.request import Request
from scheduler.sequence import Sequence, State
from scheduler.snapshot import RequestRecord, StepSnapshot, Totals
from scheduler.step import ScheduleStep, StepResult
from scheduler.tables import RunningColumns, WaitingColumns
from scheduler.validation import request_problem

REMEMBERED_IDS = 10_000
"""Ended requests whose abort is answered "already_finished"; older ones are "unknown"."""


class Scheduler:
    """Decides, one iteration at a time, which tokens are computed. One thread, one step in flight at most.

    policy: in force from the first step. num_blocks, block_size: the KV pool, >= 1. max_model_len: tokens of prompt
    and output together, >= 2. eos_token_ids: end every request that does not ignore them. clock: seconds, never going
    back. snapshot_waiting_limit: rows of the waiting table at most, None = all. vocab_size: token ids must be below
    it, None = not checked. refuse_conflicts: False lets contradicting limits pass (``policy.limit_problems``), for
    replaying foreign workloads; a request may then wait for ever, with the reason shown.

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
    ) -> None:
        for name, value, least in (
            ("num_blocks", num_blocks, 1),
            ("block_size", block_size, 1),
            ("max_model_len", max_model_len, 2),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} is {value!r}, expected a whole number of at least {least}")
        self._max_model_len = max_model_len
        self._refuse_conflicts = refuse_conflicts
        wrong = self._policy_problems(policy)
        if wrong:
            raise ValueError("; ".join(wrong))
        self.pool = KVBlockPool(num_blocks, block_size)
        self._policy = policy
        self._next_policy: SchedulerPolicy | None = None
        self._eos = frozenset(eos_token_ids)
        self._vocab_size = vocab_size
        self._clock = clock
        self._books = Books()
        self._live: dict[str, Sequence] = {}
        self._running: list[Sequence] = []
        self._waiting = WaitingQueue(ORDERS[policy.admission_order])
        self._ended_ids: dict[str, None] = {}
        self._free_slots: list[int] = []
        self._num_slots = 0
        self._last_rank = 0
        self._front_rank = 0
        self._step_id = 0
        self._event_step = 1
        self._in_flight: ScheduleStep | None = None
        self._deferral: Deferral | None = None
        self._newly_queued: list[Sequence] = []
        self._last_deferred: tuple[str, str, str] = ("", "", "")
        self._events: list[StepEvent] = []
        self._records: list[RequestRecord] = []
        self._ended_for_step: list[str] = []
        self._ended_for_snapshot: list[str] = []
        self._running_columns = RunningColumns()
        self._waiting_columns = WaitingColumns(snapshot_waiting_limit)

    # What a driver may read.

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy in force."""
        return self._policy

    @property
    def has_unfinished(self) -> bool:
        """True while a request has not ended."""
        return bool(self._live)

    @property
    def has_work(self) -> bool:
        """True when ``schedule`` might plan something, or has ended ids to pass on to the runner."""
        return bool(self._live or self._ended_for_step)

    @property
    def running_ids(self) -> tuple[str, ...]:
        """Running requests in order of admission."""
        return tuple(seq.request_id for seq in self._running)

    @property
    def waiting_ids(self) -> tuple[str, ...]:
        """Waiting requests, head first. Costs O(n): not for every step of a long queue."""
        return tuple(seq.request_id for seq in self._waiting)

    @property
    def computed_tokens(self) -> dict[str, int]:
        """num_computed_tokens of each request that has not ended."""
        return {request_id: seq.num_computed_tokens for request_id, seq in self._live.items()}

    @property
    def block_tables(self) -> dict[str, tuple[int, ...]]:
        """Blocks of each running request, in order of position."""
        return {seq.request_id: seq.block_table for seq in self._running}

    @property
    def totals(self) -> Totals:
        """The counters so far."""
        return self._books.totals()

    def sequences(self) -> tuple[list[Sequence], list[Sequence], dict[str, Sequence]]:
        """(running, waiting, all live by id): copies of the lists, for ``invariants`` only; not to be written."""
        return list(self._running), list(self._waiting), dict(self._live)

    # What a driver may ask for. Bad input is an outcome, never an exception.

    def add(self, request: Request) -> AddOutcome:
        """Queue a request, or reject it with a reason that names field, value and limit.

        Rejected is what can never run: malformed, longer than ``max_model_len``, or needing more blocks than the pool
        has (faults F01 to F08). max_tokens None, and one above what ``max_model_len`` leaves, become what is left.
        """
        now = self._clock()
        self._books.submitted += 1
        reason = request_problem(request, max_model_len=self._max_model_len, vocab_size=self._vocab_size)
        if not reason and request.request_id in self._live:
            reason = f"request_id is {request.request_id!r}, which belongs to a request that has not ended"
        if not reason:
            max_tokens, reason = self._output_limit(request)
        if reason:
            self._reject(request, reason, now)
            return AddOutcome(False, reason)
        self._last_rank += 1
        sampling = request.sampling
        seq = Sequence(
            request,
            max_tokens=max_tokens,
            arrival_time=now if request.arrival_time is None else float(request.arrival_time),
            rank=self._last_rank,
            stop_ids=frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else self._eos),
        )
        self._live[seq.request_id] = seq
        self._ended_ids.pop(seq.request_id, None)
        self._waiting.put(seq)
        self._newly_queued.append(seq)
        self._event("queued", seq.request_id, now, num_prompt_tokens=seq.num_prompt_tokens, max_tokens=seq.max_tokens)
        return AddOutcome(True)

    def abort(self, request_id: str) -> AbortOutcome:
        """End a request wherever it is; its blocks are free at once. In flight it simply gets no token."""
        seq = self._live.get(request_id) if isinstance(request_id, str) else None
        if seq is None:
            known = isinstance(request_id, str) and request_id in self._ended_ids
            return AbortOutcome("already_finished" if known else "unknown")
        self._end(seq, "aborted", "abort", self._clock())
        return AbortOutcome("aborted")

    def set_policy(self, policy: SchedulerPolicy) -> PolicyOutcome:
        """Put a policy in force from the next step on, or refuse it whole, naming each field at fault.

        Between steps it is in force at once; with a step in flight, after that step's ``update``. A policy equal to
        the one in force keeps its version. Every accepted change leaves each accepted request able to finish.
        """
        newest = self._next_policy or self._policy
        wrong = self._policy_problems(policy)
        if wrong:
            self._event("policy_refused", "", self._clock(), "; ".join(wrong), version=newest.version)
            return PolicyOutcome(False, newest.version, wrong)
        if replace(policy, version=newest.version) == newest:
            return PolicyOutcome(True, newest.version)
        self._next_policy = replace(policy, version=newest.version + 1)
        version = self._next_policy.version
        if self._in_flight is None:
            self._apply_policy()
        return PolicyOutcome(True, version)

    def schedule(self) -> ScheduleStep:
        """Plan the next step and commit it once. Empty when nothing can run.

        A step whose result never came is given up first: its tokens are planned again.
        """
        if self._in_flight is not None:
            self._give_up(self._in_flight)
        self._apply_policy()
        now = self._clock()
        self._step_id += 1
        self._event_step = self._step_id
        self._settle_held(now)
        view = self._view()
        draft = Draft(view)
        BATCHINGS[self._policy.batching](view, draft)
        step = self._commit(draft, now)
        self._in_flight = step
        return step

    def update(self, result: StepResult) -> StepSnapshot:
        """Take the sampled tokens of the step in flight, end what is complete, and return the state.

        A result of any other step changes nothing (fault F46). Tokens for requests that ended meanwhile are dropped.
        """
        step = self._in_flight
        now = self._clock()
        if step is None or result.step_id != step.step_id:
            return self._snapshot(None, {}, now, result)
        self._in_flight = None
        new_tokens = self._deliver(step, result, now)
        self._settle_held(now)
        self._books.steps += 1
        snapshot = self._snapshot(step, new_tokens, now, result)
        self._event_step = self._step_id + 1
        self._apply_policy()
        return snapshot

    def peek(self) -> StepSnapshot:
        """The state between steps. Drains the events and records gathered since the last snapshot."""
        return self._snapshot(None, {}, self._clock(), StepResult(self._step_id, {}))

    # Adding, ending, policy.

    def _policy_problems(self, policy: SchedulerPolicy) -> tuple[str, ...]:
        wrong = problems(policy)
        if wrong or not self._refuse_conflicts:
            return wrong
        return limit_problems(policy, self._max_model_len)

    def _output_limit(self, request: Request) -> tuple[int, str]:
        """(max_tokens in force, reason why the pool cannot hold the request)."""
        pool, length = self.pool, len(request.prompt_token_ids)
        asked = request.sampling.max_tokens
        most = self._max_model_len - length
        pool_leaves = max(1, pool.num_blocks * pool.block_size - length + 1)
        most = min(most, pool_leaves if asked is None else asked)
        needed = most_blocks_ever(length, most, pool.block_size)
        if needed > pool.num_blocks:
            return 0, (
                f"prompt_token_ids has {length} tokens and max_tokens is {most}: that is up to {needed} KV blocks of "
                f"{pool.block_size} tokens, the pool has {pool.num_blocks}"
            )
        prior = len(request.prior_output_token_ids)
        if prior >= most:
            return 0, f"prior_output_token_ids has {prior} tokens, expected fewer than max_tokens ({most})"
        return most, ""

    def _reject(self, request: Any, reason: str, now: float) -> None:
        self._books.rejected += 1
        request_id = request.request_id if isinstance(request, Request) else ""
        if not isinstance(request_id, str):
            request_id = ""
        self._event("rejected", request_id[:256], now, reason)
        prompt = getattr(request, "prompt_token_ids", ())
        self._records.append(
            RequestRecord(
                request_id=request_id[:256],
                outcome="rejected",
                reason=reason,
                num_prompt_tokens=len(prompt) if isinstance(prompt, tuple) else 0,
                num_output_tokens=0,
                arrival_time=now,
                first_scheduled_time=None,
                first_token_time=None,
                last_token_time=None,
                end_time=now,
                num_preemptions=0,
                preempted_s=0.0,
                recompute_tokens=0,
                padding_tokens=0,
                policy_version=0,
            )
        )

    def _end(self, seq: Sequence, outcome: str, reason: str, now: float) -> None:
        """The one way out, from every state: blocks, slot, lists, counters, event, record."""
        if seq.state is State.RUNNING:
            self._leave_batch(seq)
            self._running.remove(seq)
        else:
            self._waiting.take(seq)
        seq.state = State.ENDED
        del self._live[seq.request_id]
        self._ended_ids[seq.request_id] = None
        if len(self._ended_ids) > REMEMBERED_IDS:
            del self._ended_ids[next(iter(self._ended_ids))]
        self._ended_for_step.append(seq.request_id)
        self._ended_for_snapshot.append(seq.request_id)
        if outcome == "finished":
            self._books.finished += 1
        else:
            self._books.aborted += 1
        self._records.append(record_of(seq, outcome, reason, now))
        self._event(
            outcome,
            seq.request_id,
            now,
            reason,
            num_output_tokens=seq.num_output_tokens,
            num_preemptions=seq.num_preemptions,
        )

    def _leave_batch(self, seq: Sequence) -> None:
        """Take blocks and slot of a running request. The caller takes it off the running list."""
        self.pool.free(seq.request_id, seq.block_table)
        seq.block_table = ()
        seq.capacity = 0
        seq.num_computed_tokens = 0
        seq.static_length = seq.static_position = 0
        heapq.heappush(self._free_slots, seq.slot)
        seq.slot = -1
        self._running_columns.members_changed = True

    def _apply_policy(self) -> None:
        new, old = self._next_policy, self._policy
        if new is None:
            return
        self._policy, self._next_policy = new, None
        changes: dict[str, Number] = {
            item.name: f"{getattr(old, item.name)} -> {getattr(new, item.name)}"
            for item in fields(new)
            if item.name != "version" and getattr(old, item.name) != getattr(new, item.name)
        }
        self._event("policy_changed", "", self._clock(), "", **changes, version=new.version)
        if new.admission_order != old.admission_order:
            self._waiting.reorder(ORDERS[new.admission_order])
        if new.batching != "static":
            for seq in self._running:
                seq.static_length = seq.static_position = 0

    def _settle_held(self, now: float) -> None:
        """End held rows whose batch is over, or that are held by a policy no longer in force."""
        held = [seq for seq in self._running if seq.held]
        if held and (self._policy.batching != "static" or len(held) == len(self._running)):
            for seq in held:
                self._end(seq, "finished", seq.end_reason, now)

    def _give_up(self, step: ScheduleStep) -> None:
        self._in_flight = None
        for request_id, start in step.positions_start.items():
            seq = self._live.get(request_id)
            if seq is None or seq.state is not State.RUNNING:
                continue
            seq.high_water = max(seq.high_water, seq.num_computed_tokens)
            seq.num_computed_tokens = start
            if seq.static_length:
                done = step.num_scheduled_tokens.get(request_id, 0) + step.num_padding_tokens.get(request_id, 0)
                seq.static_position -= done

    # Planning and committing.

    def _view(self) -> StepView:
        pool, limit = self.pool, self._policy.kv_block_limit
        return StepView(
            policy=self._policy,
            running=self._running,
            waiting=self._waiting,
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            block_limit=pool.num_blocks if limit is None else min(limit, pool.num_blocks),
            num_used_blocks=pool.num_used_blocks,
            max_model_len=self._max_model_len,
        )

    def _commit(self, draft: Draft, now: float) -> ScheduleStep:
        new: list[Sequence] = []
        resumed: list[Sequence] = []
        for action in draft.actions:
            match action:
                case Grow():
                    self._give_blocks(self._live[action.request_id], action.num_blocks)
                case Evict():
                    self._evict(action, now)
                case Admit():
                    seq = self._live[action.request_id]
                    (resumed if seq.state is State.PREEMPTED else new).append(seq)
                    self._admit(seq, action, draft.tokens.get(action.request_id, 0), now)
                case Release():
                    seq = self._live[action.request_id]
                    self._end(seq, "finished", seq.end_reason, now)
        step = self._step(draft, now, new, resumed)
        self._deferral = draft.deferral
        self._explain_waiting(draft, now)
        if self._policy.batching == "static" and len(self._waiting):
            self._books.idle_slot_steps += max(0, self._policy.max_num_seqs - len(self._running))
        return step

    def _step(self, draft: Draft, now: float, new: list[Sequence], resumed: list[Sequence]) -> ScheduleStep:
        tokens, padding = draft.tokens, draft.padding
        token_ids: dict[str, tuple[int, ...]] = {}
        starts: dict[str, int] = {}
        tables: dict[str, tuple[int, ...]] = {}
        kinds: dict[str, str] = {}
        sampling: list[str] = []
        live, books = self._live, self._books
        for request_id, count in tokens.items():
            seq = live[request_id]
            start = seq.num_computed_tokens
            end = start + count
            starts[request_id] = start
            tables[request_id] = seq.block_table
            seq.num_computed_tokens = end
            if end == seq.num_tokens:
                sampling.append(request_id)
            if count == 1 and start >= seq.context_end and start >= seq.high_water:
                token_ids[request_id] = (seq.token_ids[-1],)
                kinds[request_id] = "decode"
                books.decode_tokens += 1
            else:
                token_ids[request_id] = tuple(seq.token_ids[start:end])
                kinds[request_id] = books.count_computed(seq, start, count)
                if end < seq.num_tokens and not seq.static_length:
                    self._event(
                        "chunked",
                        request_id,
                        now,
                        cut_reason(draft.view, count),
                        num_scheduled_tokens=count,
                        num_tokens_left=seq.num_tokens - end,
                    )
            if seq.static_length:
                seq.static_position += count
        for request_id, count in padding.items():
            seq = live[request_id]
            books.padding_tokens += count
            seq.padding_tokens += count
            seq.static_position += count
            if request_id not in tokens:
                starts[request_id] = seq.num_computed_tokens
                tables[request_id] = seq.block_table
                kinds[request_id] = "padding"
        finished, self._ended_for_step = tuple(self._ended_for_step), []
        return ScheduleStep(
            step_id=self._step_id,
            policy_version=self._policy.version,
            time=now,
            num_scheduled_tokens=tokens,
            num_padding_tokens=padding,
            kinds=kinds,
            token_ids=token_ids,
            positions_start=starts,
            block_tables=tables,
            sampling_ids=tuple(sampling),
            new=tuple([seq.request_id for seq in new]),
            resumed=tuple([seq.request_id for seq in resumed]),
            preempted=tuple(draft.evicted),
            finished=finished,
            new_requests=tuple([seq.request for seq in new]),
        )

    def _give_blocks(self, seq: Sequence, count: int) -> None:
        seq.block_table += self.pool.allocate(seq.request_id, count)
        seq.capacity = len(seq.block_table) * self.pool.block_size
        self._running_columns.blocks_changed = True

    def _admit(self, seq: Sequence, action: Admit, num_tokens: int, now: float) -> None:
        self._waiting.take(seq)
        since = seq.arrival_time if seq.preempted_at is None else seq.preempted_at
        kind = "resumed" if seq.state is State.PREEMPTED else "admitted"
        if seq.preempted_at is not None:
            seq.preempted_s += now - seq.preempted_at
            seq.preempted_at = None
        if seq.first_scheduled_time is None:
            seq.first_scheduled_time = now
            seq.policy_version = self._policy.version
        seq.state = State.RUNNING
        seq.static_length = action.static_length
        seq.slot = heapq.heappop(self._free_slots) if self._free_slots else self._new_slot()
        self._running.append(seq)
        self._running_columns.members_changed = True
        self._give_blocks(seq, action.num_blocks)
        self._event(
            kind,
            seq.request_id,
            now,
            num_blocks=action.num_blocks,
            num_scheduled_tokens=num_tokens,
            waited_s=now - since,
        )

    def _new_slot(self) -> int:
        self._num_slots += 1
        return self._num_slots - 1

    def _evict(self, eviction: Evict, now: float) -> None:
        seq = self._live[eviction.request_id]
        seq.high_water = max(seq.high_water, seq.num_computed_tokens)
        self._leave_batch(seq)
        self._running.remove(seq)
        seq.state = State.PREEMPTED
        seq.num_preemptions += 1
        seq.fruitless_evictions += 1
        seq.preempted_at = now
        if REQUEUES[self._policy.preemption_requeue].front:
            self._front_rank -= 1
            seq.rank = self._front_rank
        else:
            self._last_rank += 1
            seq.rank = self._last_rank
            seq.order_time = now
        self._waiting.put(seq)
        self._books.preemptions += 1
        self._event(
            "preempted",
            seq.request_id,
            now,
            self._policy.preemption_victim,
            for_request_id=eviction.for_request_id,
            freed_blocks=eviction.freed_blocks,
            recompute_tokens=eviction.recompute_tokens,
        )

    def _explain_waiting(self, draft: Draft, now: float) -> None:
        """One deferred event for the head when its reason changes, and one for each newcomer that has to wait."""
        deferral = draft.deferral
        newly, self._newly_queued = self._newly_queued, []
        if deferral is None:
            self._last_deferred = ("", "", "")
            return
        current = (deferral.request_id, deferral.reason, deferral.blocked_by)
        if current != self._last_deferred:
            self._defer(deferral.request_id, deferral.reason, deferral.blocked_by, deferral, now)
            self._last_deferred = current
        reason, blocked_by = deferral.reason, deferral.blocked_by
        if not deferral.whole_queue:
            reason, blocked_by = "head_of_line", deferral.request_id
        for seq in newly:
            if seq.state is State.WAITING and seq.request_id != deferral.request_id:
                self._defer(seq.request_id, reason, blocked_by, deferral, now)

    def _defer(self, request_id: str, reason: str, blocked_by: str, deferral: Deferral, now: float) -> None:
        self._event(
            "deferred",
            request_id,
            now,
            reason,
            needed_blocks=deferral.needed_blocks,
            free_blocks=deferral.free_blocks,
            blocked_by=blocked_by,
            watermark_blocks=deferral.watermark_blocks,
            budget_left=deferral.budget_left,
        )

    # Taking results.

    def _deliver(self, step: ScheduleStep, result: StepResult, now: float) -> dict[str, int]:
        live, sampled = self._live, result.sampled
        delivered: dict[str, int] = {}
        complete: list[tuple[Sequence, str]] = []
        for request_id in step.sampling_ids:
            seq = live.get(request_id)
            token = sampled.get(request_id)
            if seq is None or token is None or seq.num_computed_tokens != seq.num_tokens:
                continue
            delivered[request_id] = token
            seq.token_ids.append(token)
            seq.num_tokens += 1
            seq.num_output_tokens += 1
            seq.last_token_time = now
            seq.fruitless_evictions = 0
            if seq.first_token_time is None:
                seq.first_token_time = now
                self._running_columns.members_changed = True
            if seq.num_output_tokens >= seq.max_tokens:
                complete.append((seq, "length"))
            elif token in seq.stop_ids and seq.num_output_tokens >= seq.min_tokens:
                complete.append((seq, "stop"))
        self._books.output_tokens += len(delivered)
        for seq, reason in complete:
            if seq.static_length:
                seq.held, seq.end_reason = True, reason
                self._running_columns.members_changed = True
            else:
                self._end(seq, "finished", reason, now)
        return delivered

    # Looking.

    def _event(self, kind: str, request_id: str, now: float, reason: str = "", **numbers: Number) -> None:
        self._events.append(StepEvent(self._event_step, now, kind, request_id, reason, numbers))

    def _snapshot(
        self, step: ScheduleStep | None, new_tokens: dict[str, int], now: float, result: StepResult
    ) -> StepSnapshot:
        pool, view = self.pool, self._view()
        running, waiting = self._running, self._waiting
        empty: dict[str, Any] = {}
        tokens = empty if step is None else step.num_scheduled_tokens
        padding = empty if step is None else step.num_padding_tokens
        kinds = empty if step is None else step.kinds
        events, self._events = tuple(self._events), []
        records, self._records = tuple(self._records), []
        ended, self._ended_for_snapshot = tuple(self._ended_for_snapshot), []
        table = self._running_columns.build(running, tokens, padding, kinds)
        return StepSnapshot(
            step_id=self._step_id,
            time=now,
            policy=self._policy,
            num_scheduled_tokens=tokens,
            num_padding_tokens=padding,
            kinds=kinds,
            new_tokens=new_tokens,
            running=table,
            waiting=self._waiting_columns.build(
                waiting,
                self._deferral,
                lambda seq: must_fit(view, seq),
                view.block_limit - view.num_used_blocks,
                self._policy.version,
            ),
            num_waiting=len(waiting),
            num_waiting_tokens=waiting.num_tokens,
            preempted=() if step is None else step.preempted,
            resumed=() if step is None else step.resumed,
            new=() if step is None else step.new,
            finished=ended,
            events=events,
            records=records,
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            block_limit=view.block_limit,
            num_used_blocks=pool.num_used_blocks,
            num_free_blocks=pool.num_free_blocks,
            kv_cache_usage=pool.usage,
            allocated_tokens=pool.num_used_blocks * pool.block_size,
            filled_tokens=sum(table.num_computed_tokens),
            totals=self._books.totals(),
            timings=result.timings,
        )


__all__ = ["InvariantError", "Scheduler"]
