"""Steps and snapshots of a decode run: worked out when somebody reads them.

A step in which every running request decodes differs from the one before by one token a row. Such a step is kept as
what it is counted from: the snapshot before the run, the steps since, the tokens and the block tables, none of which
changes afterwards. Whoever reads a field gets the value the general path would have built; what nobody reads costs
nothing.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from scheduler.columns import RunningTable
from scheduler.events import StepEvent
from scheduler.proposals import Deferral
from scheduler.snapshot import MemoryUse, StepSnapshot, Totals
from scheduler.step import ScheduleStep, StepTimings
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

    Filled from the start: step_id, sampling_ids. source: the snapshot before the run; place in the run, from 0; tokens
    to feed and block tables, in order of the rows; time; events.
    """

    __slots__ = ("source",)
    source: tuple[StepSnapshot, int, tuple[int, ...], tuple[tuple[int, ...], ...], float, tuple[StepEvent, ...]]

    def _fill(self) -> None:
        before, index, fed, tables, time, events = self.source
        ids = self.sampling_ids
        positions = [start + index for start in before.running.num_computed_tokens]
        ScheduleStep.__init__(
            self,
            step_id=self.step_id,
            policy_version=before.policy.version,
            time=time,
            num_scheduled_tokens=dict.fromkeys(ids, 1),
            kinds=dict.fromkeys(ids, "decode"),
            token_ids=dict(zip(ids, zip(fed, strict=True), strict=True)),
            positions_start=dict(zip(ids, positions, strict=True)),
            block_tables=dict(zip(ids, tables, strict=True)),
            sampling_ids=ids,
            events=events,
        )


class DecodeSnapshot(OnDemand, StepSnapshot):
    """The ``StepSnapshot`` after a ``DecodeStep``, which differs from the one before the run by a few counts a step.

    source: the step; tokens sampled in it, in order of the rows; why the queue waits; blocks in use; time; timings;
    events.
    """

    __slots__ = ("source",)
    source: tuple[DecodeStep, tuple[int, ...], Deferral | None, int, float, StepTimings, tuple[StepEvent, ...]]

    def _fill(self) -> None:
        step, tokens, deferral, used, time, timings, events = self.source
        before, index, _, tables, _, _ = step.source
        num_steps = index + 1
        num_tokens = num_steps * len(before.running)
        running = _running(before.running, num_steps, tables)
        memory = _memory(before, running, used, num_tokens)
        StepSnapshot.__init__(
            self,
            step_id=step.step_id,
            time=time,
            policy=before.policy,
            num_scheduled_tokens=step.num_scheduled_tokens,
            num_padding_tokens=step.num_padding_tokens,
            kinds=step.kinds,
            new_tokens=dict(zip(step.sampling_ids, tokens, strict=True)),
            running=running,
            waiting=with_reasons(before.waiting, deferral, before.block_limit - used),
            num_waiting=before.num_waiting,
            num_waiting_tokens=before.num_waiting_tokens,
            preempted=(),
            resumed=(),
            new=(),
            finished=(),
            events=events,
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
            timings=timings,
            memory=memory,
            num_host_blocks=before.num_host_blocks,
            num_used_host_blocks=before.num_used_host_blocks,
            cached_block_ids=before.cached_block_ids,
            shared_block_ids=before.shared_block_ids,
        )


def _running(before: RunningTable, num_steps: int, tables: tuple[tuple[int, ...], ...]) -> RunningTable:
    """The table ``num_steps`` tokens a row later."""
    count = len(before)
    return _changed(
        before,
        num_output_tokens=tuple([made + num_steps for made in before.num_output_tokens]),
        num_computed_tokens=tuple([computed + num_steps for computed in before.num_computed_tokens]),
        num_scheduled_tokens=(1,) * count,
        num_padding_tokens=(0,) * count,
        kind=("decode",) * count,
        block_ids=tables,
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
