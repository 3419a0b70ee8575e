"""Static batching: a batch starts and ends whole, and pays for its padding and its stragglers."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import admission
from scheduler.allocation import blocks_for, place
from scheduler.chunking import threshold_of
from scheduler.continuous import BATCHINGS, make_room, resolve_standstill, walk_running
from scheduler.plan import Draft, StepView
from scheduler.proposals import Deferral
from scheduler.sequence import SequenceView


@BATCHINGS.register("static")
def static(view: StepView, draft: Draft) -> None:
    """Request-level scheduling, as Orca describes it for earlier systems.

    Prompts are padded on the left to the longest of the batch and computed in lockstep; a row that has all its tokens
    computes one padding token a step until the longest row ends. What ran before the switch to static ends first.
    """
    if not view.running:
        form_batch(view, draft)
        return
    if all(seq.static_length for seq in view.running):
        lockstep(view, draft, view.running)
    else:
        walk_running(view, draft, view.running)
    resolve_standstill(view, draft)
    head = view.waiting.head()
    if head is not None:
        draft.deferral = Deferral("static_batch_running", head.request_id, blocked_by=straggler(draft.running))


def straggler(running: Sequence[SequenceView]) -> str:
    """The row that may still make most tokens: the batch lasts at most as long as it does."""
    rows = [seq for seq in running if not seq.held]
    return max(rows, key=lambda seq: seq.max_tokens - seq.num_output_tokens).request_id if rows else ""


def form_batch(view: StepView, draft: Draft) -> None:
    """Take requests from the head of the queue while slots, budget and blocks allow, and start them together.

    The blocks that the rule asks for are counted together: the whole batch must fit at once.
    """
    draft.deferral = admission.closed(view, draft)
    if draft.deferral is not None:
        return
    trial = Draft(view)
    for seq in view.waiting:
        num_tokens = min(seq.num_tokens - seq.num_computed_tokens, view.policy.max_num_batched_tokens)
        verdict = _no_room_in_batch(view, trial.running, seq) or admission.memory_verdict(view, trial, seq, num_tokens)
        if verdict is not None:
            draft.deferral = verdict
            break
        needed = admission.must_fit(view, seq, num_tokens)
        trial.admit(seq, needed, first_block=place(view, trial, needed))
    if trial.running:
        _start(view, draft, trial.running)


def _no_room_in_batch(view: StepView, members: Sequence[SequenceView], seq: SequenceView) -> Deferral | None:
    policy = view.policy
    if len(members) >= policy.max_num_seqs:
        return Deferral("max_num_seqs", seq.request_id)
    longest = max(row.num_tokens for row in (*members, seq))
    rows = len(members) + 1
    tokens = rows if policy.enable_chunked_prefill else rows * longest
    if members and tokens > policy.max_num_batched_tokens:
        return Deferral("token_budget", seq.request_id, budget_left=policy.max_num_batched_tokens, whole_queue=False)
    return None


def _start(view: StepView, draft: Draft, members: Sequence[SequenceView]) -> None:
    length = max(seq.num_tokens for seq in members)
    for seq in members:
        step = _row_step(view, len(members), length, 0)
        real = max(0, step - (length - seq.num_tokens) - seq.num_computed_tokens)
        count = blocks_for(view, seq, seq.num_computed_tokens + real)
        draft.admit(seq, count, first_block=place(view, draft, count), static_length=length)
        _plan_row(draft, seq, real, step - real)


def lockstep(view: StepView, draft: Draft, rows: Sequence[SequenceView]) -> None:
    """Move every row of the batch on by the same number of padded positions.

    Only a budget lowered below the number of rows breaks the step; those furthest behind then go first.
    """
    for seq in sorted(rows, key=lambda row: row.static_position):
        if draft.budget <= 0:
            return
        if seq not in draft.running:
            continue
        if seq.held:
            draft.pad(seq, 1)
            continue
        if seq.static_position < seq.static_length:
            step = _row_step(view, len(rows), seq.static_length, seq.static_position)
            padding = seq.static_length - seq.num_tokens
            real = max(0, seq.static_position + step - padding - seq.num_computed_tokens)
        else:  # one token, and more only where those of a lost step must be computed again
            real = step = min(seq.num_tokens - seq.num_computed_tokens, _share(view, len(rows)))
        if seq.num_computed_tokens + real > seq.capacity and not make_room(view, draft, seq, real):
            continue
        _plan_row(draft, seq, real, step - real)


def _row_step(view: StepView, num_rows: int, length: int, position: int) -> int:
    """Padded positions one row moves on while the prompts are not done."""
    return min(length - position, _share(view, num_rows))


def _share(view: StepView, num_rows: int) -> int:
    """Tokens of one row at most: an equal share of the budget, and no more than a chunk."""
    share = max(1, view.policy.max_num_batched_tokens // num_rows)
    return min(share, threshold_of(view) or share)


def _plan_row(draft: Draft, seq: SequenceView, real: int, padding: int) -> None:
    if real:
        draft.plan(seq, real)
    if padding:
        draft.pad(seq, padding)
