"""One step of the general path: ask every decision in turn, then carry the plan out."""

from __future__ import annotations

from dataclasses import replace

from scheduler import static_batching as _static_batching  # noqa: F401  registers batching "static"
from scheduler.admission import left_out
from scheduler.allocation import ALLOCATORS
from scheduler.assembly import assemble
from scheduler.continuous import BATCHINGS
from scheduler.explain import Explainer
from scheduler.fragmentation import fitting_paged
from scheduler.lifecycle import Lifecycle
from scheduler.plan import Draft, StepView
from scheduler.policy import SchedulerPolicy, offers_prefix_cache
from scheduler.policy_switch import PolicySwitch
from scheduler.preemption import evict_requested
from scheduler.proposals import Deferral
from scheduler.refusals import Refusals
from scheduler.step import ScheduleStep


class Planner:
    """Plans steps and commits each once.

    deferral: why the queue waited in the last step, None = nobody had to. to_preempt: running requests that the next
    step evicts because somebody asked for it, in the order of asking.
    """

    def __init__(self, life: Lifecycle, policies: PolicySwitch, refusals: Refusals, max_model_len: int) -> None:
        self._life = life
        self._policies = policies
        self._refusals = refusals
        self._max_model_len = max_model_len
        self.explainer = Explainer(life.log)
        self.deferral: Deferral | None = None
        self.to_preempt: dict[str, None] = {}

    def view(self) -> StepView:
        """The state as the decisions may read it."""
        policy, life, pool = self._policies.in_force, self._life, self._life.pool
        limit = policy.kv_block_limit
        return StepView(
            policy=policy,
            running=life.running,
            waiting=life.waiting,
            num_blocks=pool.num_blocks,
            block_size=pool.block_size,
            block_limit=pool.num_blocks if limit is None else min(limit, pool.num_blocks),
            num_used_blocks=pool.num_used_blocks,
            max_model_len=self._max_model_len,
            num_free_host_blocks=life.host.num_free_blocks,
            refusals=self._refusals,
            shared=pool.shared,
            prefix=pool if offers_prefix_cache(policy) else None,
            free_map=bytes(pool.free_map) if ALLOCATORS[policy.allocation].contiguous else b"",
        )

    def plan(self, step_id: int, now: float) -> ScheduleStep:
        """The next step, already carried out but for the computing. Its events are those of planning it."""
        life, policy = self._life, self._policies.in_force
        first_event = len(life.log)
        life.end_held(policy.batching, now)
        life.waiting.next_step()
        draft = self._decide(policy)
        self._refusals.report(life.log, life.books, now)
        new, resumed = life.apply(draft.actions, draft.tokens, policy, now)
        life.note_passed(draft.passed)
        step = assemble(draft, life, step_id, now, new, resumed)
        self._explain(draft, now)
        if policy.batching == "static" and len(life.waiting):
            life.books.idle_slot_steps += max(0, policy.max_num_seqs - len(life.running))
        if len(life.log) > first_event:
            step = replace(step, events=life.log.since(first_event))
        return step

    def _decide(self, policy: SchedulerPolicy) -> Draft:
        draft = Draft(self.view())
        if self.to_preempt:
            evict_requested(draft.view, draft, self.to_preempt)
            self.to_preempt = {}
        BATCHINGS[policy.batching](draft.view, draft)
        if draft.deferral is not None and (draft.view.free_map or self._life.num_reserving):
            draft.deferral = replace(draft.deferral, fits_paged=fitting_paged(draft.view, draft))
        return draft

    def _explain(self, draft: Draft, now: float) -> None:
        life = self._life
        self.deferral = draft.deferral or left_out(draft)
        newly_queued, life.newly_queued = life.newly_queued, []
        self.explainer.explain(self.deferral, newly_queued, now)
        self.explainer.explain_blocked(draft.blocked, now)
