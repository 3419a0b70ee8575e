"""Steps and snapshots of a decode run: worked out when somebody reads them.

A step in which every running request decodes differs from the one before by one token a row. Such a step is kept as
what it is counted from: the snapshot before the run, the steps since, the tokens and the block tables, none of which
changes afterwards. Whoever reads a field gets the value the general path would have built; what nobody reads costs
nothing.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from scheduler.plan import Deferral
from scheduler.snapshot import MemoryUse, RunningTable, StepSnapshot, Totals
from scheduler.step import ScheduleStep
from scheduler.tables import with_reasons

T = TypeVar("T")

put: Final = object.__setattr__
"""Fills a slot of a frozen object: its maker's privilege."""


class OnDemand:
    """A frozen dataclass with slots that fills all its fields when the first of the missing ones is read.

    Python calls ``__getattr__`` for an empty slot only, so from then on it is as quick as the plain class. Equality,
    ``fields``, ``replace``, pickling and MessagePack read the fields like everybody else.
    """

    __slots__ = ()

    def _fill(self) -> None:
        """Fill all fields, by the plain class's ``__init__``."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self._fill()
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        names = self.__dataclass_fields__
        if names != getattr(other, "__dataclass_fields__", None):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # like the plain classes, which hold dicts


class DecodeStep(OnDemand, ScheduleStep):
    """A ``ScheduleStep`` in which every running request decodes its next token and nothing else happens.

    Filled from the start: step_id, time, sampling_ids, events. _before: the snapshot before the run. _index: place in
    the run, from 0. _fed: the tokens to feed, _tables: the block tables, in order of the rows.
    """

    __slots__ = ("_before", "_fed", "_index", "_tables")
    _before: StepSnapshot
    _fed: tuple[int, ...]
    _index: int
    _tables: tuple[tuple[int, ...], ...]

    def _fill(self) -> None:
        ids, index, before = self.sampling_ids, self._index, self._before
        positions = [start + index for start in before.running.num_computed_tokens]
        ScheduleStep.__init__(
            self,
            step_id=self.step_id,
            policy_version=before.policy.version,
            time=self.time,
            num_scheduled_tokens=dict.fromkeys(ids, 1),
            kinds=dict.fromkeys(ids, "decode"),
            token_ids=dict(zip(ids, zip(self._fed, strict=True), strict=True)),
            positions_start=dict(zip(ids, positions, strict=True)),
            block_tables=dict(zip(ids, self._tables, strict=True)),
            sampling_ids=ids,
            events=self.events,
        )


class DecodeSnapshot(OnDemand, StepSnapshot):
    """The ``StepSnapshot`` after a ``DecodeStep``, which differs from the one before the run by a few counts a step.

    Filled from the start: time, timings, events. _tokens: sampled in this step, in order of the rows. _deferral: why
    the queue waits. _num_used_blocks: blocks in use after the step.
    """

    __slots__ = ("_deferral", "_num_used_blocks", "_step", "_tokens")
    _deferral: Deferral | None
    _num_used_blocks: int
    _step: DecodeStep
    _tokens: tuple[int, ...]

    def _fill(self) -> None:
        step, used = self._step, self._num_used_blocks
        before, num_steps = step._before, step._index + 1
        num_tokens = num_steps * len(before.running)
        running = _running(step, num_steps)
        memory = _memory(before, running, used, num_tokens)
        StepSnapshot.__init__(
            self,
            step_id=step.step_id,
            time=self.time,
            policy=before.policy,
            num_scheduled_tokens=step.num_scheduled_tokens,
            num_padding_tokens=step.num_padding_tokens,
            kinds=step.kinds,
            new_tokens=dict(zip(step.sampling_ids, self._tokens, strict=True)),
            running=running,
            waiting=with_reasons(before.waiting, self._deferral, before.block_limit - used),
            num_waiting=before.num_waiting,
            num_waiting_tokens=before.num_waiting_tokens,
            preempted=(),
            resumed=(),
            new=(),
            finished=(),
            events=self.events,
            records=(),
            num_blocks=before.num_blocks,
            block_size=before.block_size,
            block_limit=before.block_limit,
            num_used_blocks=used,
            num_free_blocks=before.num_blocks - used,
            kv_cache_usage=used / before.num_blocks,
            allocated_tokens=used * before.block_size,
            filled_tokens=memory.filled,
            totals=_totals(before.totals, num_steps, num_tokens),
            timings=self.timings,
            memory=memory,
            num_host_blocks=before.num_host_blocks,
            num_used_host_blocks=before.num_used_host_blocks,
            cached_block_ids=before.cached_block_ids,
            shared_block_ids=before.shared_block_ids,
        )


def _running(step: DecodeStep, num_steps: int) -> RunningTable:
    """The table before the run, ``num_steps`` tokens a row later."""
    before = step._before.running
    count = len(before)
    return _changed(
        before,
        num_output_tokens=tuple([made + num_steps for made in before.num_output_tokens]),
        num_computed_tokens=tuple([computed + num_steps for computed in before.num_computed_tokens]),
        num_scheduled_tokens=(1,) * count,
        num_padding_tokens=(0,) * count,
        kind=("decode",) * count,
        block_ids=step._tables,
    )


def _totals(before: Totals, num_steps: int, num_tokens: int) -> Totals:
    return _changed(
        before,
        steps=before.steps + num_steps,
        decode_tokens=before.decode_tokens + num_tokens,
        output_tokens=before.output_tokens + num_tokens,
    )


def _memory(before: StepSnapshot, running: RunningTable, num_used_blocks: int, num_tokens: int) -> MemoryUse:
    """Each token of the run fills a slot. What is empty is the rest of last blocks where nobody has blocks to spare."""
    old, size = before.memory, before.block_size
    filled = old.filled + num_tokens
    internal = empty = num_used_blocks * size - filled
    if old.reserved:
        internal = sum([-count % size for count in running.num_computed_tokens])
    return MemoryUse(filled, empty - internal, internal, old.external, old.unusable_block_ids)


def _changed(item: T, **changes: Any) -> T:
    """``dataclasses.replace`` for plain fields, in half its time."""
    names = item.__dataclass_fields__  # type: ignore[attr-defined]
    return type(item)(**{name: getattr(item, name) for name in names} | changes)
