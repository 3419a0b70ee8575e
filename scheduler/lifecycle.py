"""The requests and the legal moves between their states. Used by ``Scheduler`` alone, which is the only writer."""

from __future__ import annotations

import heapq
from typing import Any

from scheduler.allocation import in_force
from scheduler.block_pool import KVBlockPool
from scheduler.ended import EndedIds
from scheduler.event_log import EventLog
from scheduler.events import Number
from scheduler.metrics import Books, record_of, record_of_rejected
from scheduler.ordering import ORDERS
from scheduler.policy import SchedulerPolicy
from scheduler.preemption import REQUEUES
from scheduler.proposals import Action, Admit, Evict, Grow, Release
from scheduler.queue import WaitingQueue
from scheduler.refusals import Refusals
from scheduler.request import Request
from scheduler.resumes import ResumeLedger
from scheduler.sequence import Sequence, State
from scheduler.sharing import begin_behind_hit
from scheduler.swap import HostSpace


class Lifecycle:
    """Every request is in ``live`` and in exactly one of ``running`` (order of admission) and ``waiting``.

    Each method is one whole move: lists, blocks, slot, counters and event together, so that no move is half made.
    num_held, num_decoding, num_reserving: running requests with ``held``, ``decoding`` and ``reserving`` set.
    members_changed, blocks_changed: what the next snapshot must read anew.
    """

    def __init__(
        self,
        policy: SchedulerPolicy,
        pool: KVBlockPool,
        host: HostSpace,
        log: EventLog,
        books: Books,
        refusals: Refusals,
    ) -> None:
        self.pool = pool
        self.host = host
        self.resumes = ResumeLedger()
        self.log = log
        self.books = books
        self._refusals = refusals
        self.live: dict[str, Sequence] = {}
        self.running: list[Sequence] = []
        self.waiting = WaitingQueue(ORDERS[policy.admission_order], refusals)
        self.newly_queued: list[Sequence] = []
        self.ended = EndedIds()
        self.num_held = 0
        self.num_decoding = 0
        self.num_reserving = 0
        self.members_changed = True
        self.blocks_changed = True
        self._free_slots: list[int] = []
        self._num_slots = 0
        self._last_rank = 0
        self._front_rank = 0

    def enter(self, request: Request, max_tokens: int, eos: frozenset[int], now: float) -> None:
        """Queue an accepted request."""
        self._last_rank += 1
        sampling = request.sampling
        seq = Sequence(
            request,
            max_tokens=max_tokens,
            arrival_time=now if request.arrival_time is None else float(request.arrival_time),
            rank=self._last_rank,
            stop_ids=frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else eos),
        )
        self.live[seq.request_id] = seq
        self.ended.forget(seq.request_id)
        self.waiting.put(seq)
        self.newly_queued.append(seq)
        self.log.add("queued", seq.request_id, now, num_prompt_tokens=seq.num_prompt_tokens, max_tokens=seq.max_tokens)

    def reject(self, request: Any, reason: str, now: float) -> None:
        """Answer a request that is not taken: one event, one record."""
        self.books.rejected += 1
        record = record_of_rejected(request, reason, now)
        self.log.record(record)
        self.log.add("rejected", record.request_id, now, reason)

    def end(self, seq: Sequence, outcome: str, reason: str, now: float) -> None:
        """The one way out, from every state (faults F25, F34, F56). outcome: "finished" or "aborted"."""
        if seq.state is State.RUNNING:
            self._leave_batch(seq)
        else:
            self.waiting.take(seq)
            self.host.drop(seq)
        seq.state = State.ENDED
        del self.live[seq.request_id]
        self.ended.note(seq.request_id)
        if outcome == "finished":
            self.books.finished += 1
        else:
            self.books.aborted += 1
            self.resumes.aborted(seq.request_id)
        self.log.record(record_of(seq, outcome, reason, now))
        self.log.add(
            outcome,
            seq.request_id,
            now,
            reason,
            num_output_tokens=seq.num_output_tokens,
            num_preemptions=seq.num_preemptions,
        )

    def hold(self, seq: Sequence, reason: str) -> None:
        """Keep a complete row of a static batch until the batch ends; ``reason`` is why it is complete."""
        seq.held, seq.end_reason = True, reason
        self.num_held += 1
        self.members_changed = True

    def end_held(self, batching: str, now: float) -> None:
        """End held rows whose batch is over, or whose policy is no longer in force."""
        if not self.num_held:
            return
        held = [seq for seq in self.running if seq.held]
        if batching != "static" or len(held) == len(self.running):
            for seq in held:
                self.end(seq, "finished", seq.end_reason, now)

    def note_reserving(self, seq: Sequence) -> None:
        """Note that a running request may own blocks without a token, until it leaves the batch."""
        self.num_reserving += not seq.reserving
        seq.reserving = True

    def apply(
        self, actions: list[Action], tokens: dict[str, int], policy: SchedulerPolicy, now: float
    ) -> tuple[list[Sequence], list[Sequence]]:
        """Carry out a plan's actions in their order, which decides the block ids; returns (new, resumed)."""
        new: list[Sequence] = []
        resumed: list[Sequence] = []
        for action in actions:
            seq = self.live[action.request_id]
            match action:
                case Grow():
                    self._give_blocks(seq, action)
                case Evict():
                    self._evict(seq, action, policy, now)
                case Admit():
                    (resumed if seq.state is State.PREEMPTED else new).append(seq)
                    self._admit(seq, action, tokens.get(action.request_id, 0), policy, now)
                case Release():
                    self.end(seq, "finished", seq.end_reason, now)
        return new, resumed

    def lose_copy(self, seq: Sequence) -> None:
        """Take a swapped request's content for lost, because the step that should have copied it was given up."""
        seq.high_water = max(seq.high_water, seq.num_computed_tokens)
        seq.num_computed_tokens = seq.num_registered = 0
        if seq.host_block_ids:
            self.host.drop(seq)
            self.waiting.version += 1

    def note_passed(self, passed: dict[str, int]) -> None:
        """Keep how often each skipped request has been passed."""
        for request_id, count in passed.items():
            self.live[request_id].num_passed = count

    def add_page(self, seq: Sequence) -> None:
        """Give a running request the pool's next block."""
        seq.block_table += self.pool.allocate(seq.request_id, 1)
        seq.capacity += self.pool.block_size
        self.blocks_changed = True

    def _give_blocks(self, seq: Sequence, action: Grow | Admit) -> None:
        if isinstance(action, Admit) and action.cached_ids:
            self.pool.share(seq.request_id, action.cached_ids)
            seq.block_table = action.cached_ids
        if action.block_ids:
            self.pool.take(seq.request_id, action.block_ids)
            seq.block_table += action.block_ids
        else:
            lacking = action.num_blocks - (len(seq.block_table) if isinstance(action, Admit) else 0)
            seq.block_table += self.pool.allocate(seq.request_id, lacking)
        seq.capacity = len(seq.block_table) * self.pool.block_size
        self.blocks_changed = True

    def _leave_batch(self, seq: Sequence) -> None:
        self.pool.free(seq.request_id, seq.block_table)
        seq.allocation = ""
        seq.caching, seq.num_registered, seq.num_cached_tokens = False, 0, 0
        seq.block_table = ()
        seq.capacity = 0
        seq.num_computed_tokens = 0
        self.num_decoding -= seq.decoding
        seq.decoding = False
        self.num_reserving -= seq.reserving
        seq.reserving = False
        seq.static_length = seq.static_position = 0
        self.num_held -= seq.held
        heapq.heappush(self._free_slots, seq.slot)
        seq.slot = -1
        self.running.remove(seq)
        self.members_changed = True

    def _admit(self, seq: Sequence, action: Admit, num_tokens: int, policy: SchedulerPolicy, now: float) -> None:
        self.waiting.take(seq)
        kind, since = "admitted", seq.arrival_time
        if seq.preempted_at is not None:
            kind, since = "resumed", seq.preempted_at
            seq.preempted_s += now - seq.preempted_at
            seq.preempted_at = None
        if seq.first_scheduled_time is None:
            seq.first_scheduled_time = now
            seq.policy_version = policy.version
        seq.state = State.RUNNING
        seq.num_passed = 0
        seq.allocation = in_force(policy, self._refusals)
        seq.static_length = action.static_length
        seq.slot = self._take_slot()
        self.running.append(seq)
        self.members_changed = True
        self._give_blocks(seq, action)
        if policy.allocation != "paged":
            self.note_reserving(seq)
        begin_behind_hit(seq, action, policy, self.pool, self.books)
        self.log.add(
            kind,
            seq.request_id,
            now,
            num_blocks=action.num_blocks,
            num_scheduled_tokens=num_tokens,
            num_cached_tokens=seq.num_cached_tokens,
            waited_s=now - since,
        )
        moved = self.host.move_in(seq) if seq.host_block_ids else 0
        self.resumes.resumed(seq, moved, self.log.step_id, now)
        if moved:
            self.books.swapped_in_blocks += moved
            self._log_move("swapped_in", seq, moved, now)

    def _log_move(self, kind: str, seq: Sequence, num_blocks: int, now: float) -> None:
        free = self.host.num_free_blocks
        self.log.add(kind, seq.request_id, now, num_blocks=num_blocks, host_free_blocks=free)

    def _take_slot(self) -> int:
        if self._free_slots:
            return heapq.heappop(self._free_slots)
        self._num_slots += 1
        return self._num_slots - 1

    def _evict(self, seq: Sequence, eviction: Evict, policy: SchedulerPolicy, now: float) -> None:
        self.resumes.evicted(seq, eviction, self.log.step_id, now)
        computed = seq.num_computed_tokens
        seq.high_water = max(seq.high_water, computed)
        if eviction.moved_blocks:
            self.host.move_out(seq, eviction.moved_blocks)
        self._leave_batch(seq)
        if eviction.moved_blocks:
            seq.num_computed_tokens = computed
        seq.state = State.PREEMPTED
        seq.num_preemptions += 1
        seq.fruitless_evictions += 1
        useful = self.books.useful_tokens
        seq.idle_evictions = seq.idle_evictions + 1 if useful == seq.useful_tokens_seen else 0
        seq.useful_tokens_seen = useful
        seq.preempted_at = now
        if REQUEUES[policy.preemption_requeue].front:
            self._front_rank -= 1
            seq.rank = self._front_rank
        else:
            self._last_rank += 1
            seq.rank = self._last_rank
            seq.order_time = now
        self.waiting.put(seq)
        self.books.preemptions += 1
        numbers: dict[str, Number] = {
            "for_request_id": eviction.for_request_id,
            "freed_blocks": eviction.freed_blocks,
            "recompute_tokens": eviction.recompute_tokens,
            "mode": eviction.mode,
            "moved_blocks": eviction.moved_blocks,
        }
        if eviction.host_free_blocks is not None:
            numbers["host_free_blocks"] = eviction.host_free_blocks
        self.log.add("preempted", seq.request_id, now, eviction.reason or policy.preemption_victim, **numbers)
        if eviction.moved_blocks:
            self.books.swapped_out_blocks += eviction.moved_blocks
            self._log_move("swapped_out", seq, eviction.moved_blocks, now)
