"""A decode run: steps in which every running request decodes and nothing else can happen, at the cost of a few columns.

Most steps of a busy engine are like that. The general path touches every ``Sequence`` twice a step; a run notes the
sampled tokens as one column, and writes them back into the sequences when somebody wants to read those (``settle``).
It knows beforehand in which step a row fills its last block and in which one a row reaches its length, so a step looks
at no other row. Whatever else comes up (a stop token, a missing one, no block left, a waiting request that could be let
in) the run refuses with nothing changed; the scheduler settles and drops it, and the general path decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.admission import admit_waiting
from scheduler.allocation import ALLOCATORS
from scheduler.chunking import PREFILL_MIXES
from scheduler.events import StepEvent
from scheduler.explain import Explainer
from scheduler.fragmentation import SHORT_OF_MEMORY
from scheduler.guard import OwnAllocator
from scheduler.lifecycle import Lifecycle
from scheduler.on_demand import DecodeSnapshot, DecodeStep, put
from scheduler.plan import Draft, StepView
from scheduler.proposals import Deferral
from scheduler.snapshot import StepSnapshot
from scheduler.step import StepResult

SHORTEST_RUN: Final = 4
"""Steps before the first end by length that make a run worth its beginning."""

COLUMNS_KEPT: Final = 64
"""Columns kept before they are written back, so that no settling takes long and memory does not grow."""

PAGED: Final = "paged"
"""The one allocation whose requests grow while they run, a page at a time."""


def begin(
    life: Lifecycle,
    view: Callable[[], StepView],
    explainer: Explainer,
    before: StepSnapshot,
    deferral: Deferral | None,
) -> DecodeRun | None:
    """The run that can follow the present state, which ``before`` shows; None when other things are in sight.

    deferral: why the queue waited in the last step, the first guess at why it will.
    """
    policy, num_rows = before.policy, len(life.running)
    if (
        not num_rows
        or life.num_decoding != num_rows
        or num_rows > policy.max_num_batched_tokens
        or life.ended.any_for_step
        or policy.batching != "continuous"
        or policy.enable_prefix_caching  # a block that fills up would have to be registered with its tokens
        or life.waiting.asks_in_every_step
        or isinstance(ALLOCATORS[policy.allocation], OwnAllocator)
        or _who_fits_is_open(life, before, deferral)
    ):
        return None
    run = DecodeRun(life, view, explainer, before, deferral)
    return run if run.is_worth_it else None


def _who_fits_is_open(life: Lifecycle, before: StepSnapshot, deferral: Deferral | None) -> bool:
    """Whether each step must find out anew who would fit page by page: that depends on every computed token."""
    if deferral is None or deferral.reason not in SHORT_OF_MEMORY:
        return False
    return life.num_reserving > 0 or before.policy.allocation != PAGED


class DecodeRun:
    """One run, from ``begin`` until it refuses or somebody else changes the scheduler's state.

    Invariants. Membership, order and policy do not change while it lasts. Block tables and pool are always up to date;
    token ids, token counts and counters of the books are those of the last ``settle``. Steps count from 0, rows are in
    order of admission.
    """

    def __init__(
        self,
        life: Lifecycle,
        view: Callable[[], StepView],
        explainer: Explainer,
        before: StepSnapshot,
        deferral: Deferral | None,
    ) -> None:
        rows = list(life.running)
        self.deferral = deferral
        self._life = life
        self._view = view
        self._explainer = explainer
        self._before = before
        self._rows = rows
        self._ids = before.running.request_id
        self._phases = PREFILL_MIXES[before.policy.prefill_mix](rows)
        self._queue_is_settled = False
        self._watched = frozenset().union(*{seq.stop_ids for seq in rows}, (None,))
        self._ends_at = min([seq.max_tokens - seq.num_output_tokens for seq in rows]) - 1
        self._full_at: dict[int, list[int]] = {}
        for place, seq in enumerate(rows):
            self._full_at.setdefault(seq.capacity - seq.num_computed_tokens, []).append(place)
        # As everywhere, the limit yields to a request that runs alone.
        self._usable_blocks = before.block_limit if len(rows) > 1 else before.num_blocks
        self._num_used_blocks = before.num_used_blocks
        self._tables = before.running.block_ids
        self._fed = tuple([seq.token_ids[-1] for seq in rows])
        self._events: tuple[StepEvent, ...] = ()
        self._step: DecodeStep
        self._planned = 0
        self._num_settled = 0
        self._columns: list[tuple[int, ...]] = []
        self._last_token_time = before.time

    @property
    def is_worth_it(self) -> bool:
        """Whether it can last a while, and blocks go to requests that take them page by page, or to nobody."""
        if self._ends_at < SHORTEST_RUN:
            return False
        in_time = [places for step, places in self._full_at.items() if step <= self._ends_at]
        growing = {self._rows[place].allocation for places in in_time for place in places}
        return not growing or (growing == {PAGED} and self._before.policy.allocation == PAGED)

    def schedule(self, step_id: int, now: float) -> DecodeStep | None:
        """The next step; None, with nothing changed, when something else than decodes is due."""
        index = self._planned
        full = self._full_at.get(index)
        if full is not None or not self._queue_is_settled:
            if not self._queue_waits(full or [], now):
                return None
            if full is not None:
                self._grow(full, index)
        self._planned = index + 1
        self._step = step = DecodeStep.__new__(DecodeStep)
        put(step, "step_id", step_id)
        put(step, "sampling_ids", self._ids)
        put(step, "source", (self._before, index, self._fed, self._tables, now, self._events))
        return step

    def update(self, result: StepResult, now: float) -> DecodeSnapshot | None:
        """The state after the step; None, with nothing changed, when a token is missing or a request ends."""
        tokens: tuple[int, ...] = tuple(map(result.sampled.get, self._ids))  # type: ignore[arg-type]  # None is watched
        if self._planned > self._ends_at or not self._watched.isdisjoint(tokens):
            return None
        self._columns.append(tokens)
        self._fed = tokens
        self._last_token_time = now
        snapshot = DecodeSnapshot.__new__(DecodeSnapshot)
        source = (self._step, tokens, self.deferral, self._num_used_blocks, now, result.timings, self._events)
        put(snapshot, "source", source)
        if self._events:
            self._life.log.drain()
            self._events = ()
        if len(self._columns) == COLUMNS_KEPT:
            self.settle()
        return snapshot

    def settle(self) -> None:
        """Write what the run has noted into sequences and books. The run may go on afterwards."""
        rows, books = self._rows, self._life.books
        made, computed = len(self._columns), self._planned - self._num_settled
        if computed:
            for seq in rows:
                seq.num_computed_tokens += computed
        if made:
            for seq, tokens in zip(rows, zip(*self._columns, strict=True), strict=True):
                seq.token_ids += tokens
                seq.num_tokens += made
                seq.num_output_tokens += made
                seq.last_token_time = self._last_token_time
        books.steps += made
        books.decode_tokens += computed * len(rows)
        books.output_tokens += made * len(rows)
        self._columns = []
        self._num_settled = self._planned

    @property
    def num_planned(self) -> int:
        """Steps of the run so far, one in flight included."""
        return self._planned

    def num_sure(self) -> int:
        """Steps from here on that are decodes like the last, whatever is asked: nobody reaches its length, every row
        that fills its block finds another, and nobody who waits is let in.

        The last follows from the answer of the queue in the first step. While a run lasts rows, budget and slots stay
        the same and free blocks only become fewer, by as many as the promises to rows do: who did not fit, does not.
        """
        if not self._planned or self._planned != len(self._columns) + self._num_settled:
            return 0
        steps, free = self._ends_at - self._planned, self._usable_blocks - self._num_used_blocks
        rows, size = len(self._rows), self._life.pool.block_size
        return max(0, steps if (steps // size + 1) * rows <= free else min(steps, (free // rows - 1) * size))

    def skip(self, num_steps: int, now: float) -> None:
        """Take so many steps at once, at most ``num_sure``; each row gets its last token again in each of them.

        For those who count steps instead of computing them: the state afterwards is that of taking them one by one.
        now: end of the last.
        """
        self.settle()
        end = self._planned + num_steps
        while (index := min(self._full_at, default=end)) < end:
            self._grow(self._full_at[index], index)
        for seq, token in zip(self._rows, self._fed, strict=True):
            seq.token_ids += (token,) * num_steps
            seq.num_tokens += num_steps
            seq.num_output_tokens += num_steps
            seq.num_computed_tokens += num_steps
            seq.last_token_time = now
        books, num_tokens = self._life.books, num_steps * len(self._rows)
        books.steps += num_steps
        books.decode_tokens += num_tokens
        books.output_tokens += num_tokens
        self._planned = self._num_settled = end
        self._last_token_time = now

    def _queue_waits(self, full: list[int], now: float) -> bool:
        """Whether there is a block for each row at ``full`` and nobody who waits can be let in beside them.

        The queue is asked in the first step, and later when blocks were given out, if blocks are what it waits for. So
        its length costs nothing.
        """
        if full and len(full) > self._usable_blocks - self._num_used_blocks:
            return False
        if self._queue_is_settled:
            return True
        rows, view = self._rows, self._view()
        draft = Draft(view)
        for phase in self._phases:
            if phase.admit:
                admit_waiting(view, draft)
            elif phase.decodes:
                for place in full:
                    draft.grow(rows[place], 1)
                draft.tokens.update(dict.fromkeys(self._ids, 1))
                draft.budget -= len(rows)
        deferral = draft.deferral
        if len(draft.running) > len(rows) or _who_fits_is_open(self._life, self._before, deferral):
            return False
        self.deferral = deferral
        self._queue_is_settled = deferral is None or deferral.whole_queue
        self._explainer.explain(deferral, [], now)
        self._explainer.explain_blocked([], now)
        self._events = self._life.log.since(0)
        return True

    def _grow(self, full: list[int], index: int) -> None:
        """Give a page to each row at ``full``, in order of the rows, since that decides the block ids."""
        life, rows, tables = self._life, self._rows, list(self._tables)
        for place in full:
            life.add_page(rows[place])
            tables[place] = rows[place].block_table
        self._tables = tuple(tables)
        self._num_used_blocks += len(full)
        del self._full_at[index]
        full_again = index + life.pool.block_size
        others = self._full_at.get(full_again)
        self._full_at[full_again] = full if others is None else sorted(others + full)
