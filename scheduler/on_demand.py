"""Steps and snapshots of a decode run: the columns are worked out when somebody reads them.

A step in which every running request decodes differs from the one before by one token a row. Such a step is kept as
what it is counted from: the snapshot before the run, the steps since, the tokens and the block tables, all of them
frozen. Whoever reads a field gets the value the general path would have built; a field nobody reads costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, ClassVar, Final

from scheduler.plan import Deferral
from scheduler.snapshot import MemoryUse, RunningTable, StepSnapshot, Totals, WaitingTable
from scheduler.step import ScheduleStep
from scheduler.tables import with_reasons

put: Final = object.__setattr__
"""Fills a slot of a frozen object: its maker's privilege."""


Maker = Callable[[Any], Any]
"""Works out one field of the object it is given."""


class OnDemand:
    """A frozen dataclass with slots, of which the empty ones are filled when they are first read.

    Python calls ``__getattr__`` for an empty slot only, so a field that was read once costs no more than in the plain
    class. Equality, ``fields``, ``replace``, pickling and MessagePack see all fields, filled.
    """

    __slots__ = ()
    _makers: ClassVar[Mapping[str, Maker]]

    def __getattr__(self, name: str) -> Any:
        maker = self._makers.get(name)
        if maker is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = maker(self)
        put(self, name, value)
        return value

    def __eq__(self, other: object) -> bool:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        try:
            return all(getattr(self, name) == getattr(other, name) for name in names)
        except AttributeError:
            return False

    __hash__ = None  # type: ignore[assignment]  # as the plain classes, which hold dicts


class DecodeStep(OnDemand, ScheduleStep):
    """A ``ScheduleStep`` in which every running request decodes its next token and nothing else happens.

    _before: the snapshot before the run. _index: this step's place in the run, from 0. _fed: the tokens to feed;
    _tables: the block tables; both in order of the rows.
    """

    __slots__ = ("_before", "_fed", "_index", "_tables")
    _before: StepSnapshot
    _fed: tuple[int, ...]
    _index: int
    _tables: tuple[tuple[int, ...], ...]


class DecodeSnapshot(OnDemand, StepSnapshot):
    """The ``StepSnapshot`` after a ``DecodeStep``. _tokens: sampled in it, in order of the rows."""

    __slots__ = ("_deferral", "_num_used_blocks", "_step", "_tokens")
    _deferral: Deferral | None
    _num_used_blocks: int
    _step: DecodeStep
    _tokens: tuple[int, ...]


def _positions(step: DecodeStep) -> dict[str, int]:
    running, index = step._before.running, step._index
    return dict(zip(running.request_id, [start + index for start in running.num_computed_tokens], strict=True))


def _running(snapshot: DecodeSnapshot) -> RunningTable:
    step = snapshot._step
    before, done = step._before.running, step._index + 1
    count = len(before)
    return replace(
        before,
        num_output_tokens=tuple([made + done for made in before.num_output_tokens]),
        num_computed_tokens=tuple([computed + done for computed in before.num_computed_tokens]),
        num_scheduled_tokens=(1,) * count,
        num_padding_tokens=(0,) * count,
        kind=("decode",) * count,
        block_ids=step._tables,
    )


def _waiting(snapshot: DecodeSnapshot) -> WaitingTable:
    free_blocks = snapshot.block_limit - snapshot._num_used_blocks
    return with_reasons(snapshot._step._before.waiting, snapshot._deferral, free_blocks)


def _tokens_since(snapshot: DecodeSnapshot) -> int:
    """Tokens computed, and as many made, since the snapshot before the run."""
    return (snapshot._step._index + 1) * len(snapshot._step._before.running)


def _memory(snapshot: DecodeSnapshot) -> MemoryUse:
    before, size = snapshot._step._before.memory, snapshot.block_size
    filled = before.filled + _tokens_since(snapshot)
    internal = empty = snapshot._num_used_blocks * size - filled
    if before.reserved:
        internal = sum([-count % size for count in snapshot.running.num_computed_tokens])
    return replace(before, filled=filled, reserved=empty - internal, internal=internal)


def _totals(snapshot: DecodeSnapshot) -> Totals:
    step = snapshot._step
    return step._before.totals.after_decodes(step._index + 1, _tokens_since(snapshot))


def _empty(*names: str) -> dict[str, Maker]:
    """Fields that are () in such a step."""
    return dict.fromkeys(names, lambda item: ())


def _as_before(*names: str) -> dict[str, Maker]:
    """Fields of a snapshot that no step of a run changes."""
    return {name: attrgetter(f"_step._before.{name}") for name in names}


def _of_the_step(*names: str) -> dict[str, Maker]:
    """Fields that a snapshot and its step have in common."""
    return {name: attrgetter(f"_step.{name}") for name in names}


DecodeStep._makers = {
    "policy_version": lambda step: step._before.policy.version,
    "num_scheduled_tokens": lambda step: dict.fromkeys(step.sampling_ids, 1),
    "num_padding_tokens": lambda step: {},
    "kinds": lambda step: dict.fromkeys(step.sampling_ids, "decode"),
    "token_ids": lambda step: dict(zip(step.sampling_ids, zip(step._fed, strict=True), strict=True)),
    "positions_start": _positions,
    "block_tables": lambda step: dict(zip(step.sampling_ids, step._tables, strict=True)),
    "sampling_ids": lambda step: step._before.running.request_id,
    **_empty("new", "resumed", "preempted", "swapped_out", "swapped_in", "finished", "new_requests", "events"),
}

DecodeSnapshot._makers = {
    **_of_the_step("step_id", "num_scheduled_tokens", "num_padding_tokens", "kinds"),
    **_as_before("policy", "num_waiting", "num_waiting_tokens", "num_blocks", "block_size", "block_limit"),
    **_as_before("num_host_blocks", "num_used_host_blocks", "cached_block_ids", "shared_block_ids"),
    **_empty("preempted", "resumed", "new", "finished", "events", "records"),
    **_empty("swapped_out", "swapped_in", "resumes"),
    "new_tokens": lambda snapshot: dict(zip(snapshot._step.sampling_ids, snapshot._tokens, strict=True)),
    "running": _running,
    "waiting": _waiting,
    "num_used_blocks": lambda snapshot: snapshot._num_used_blocks,
    "num_free_blocks": lambda snapshot: snapshot.num_blocks - snapshot._num_used_blocks,
    "kv_cache_usage": lambda snapshot: snapshot._num_used_blocks / snapshot.num_blocks,
    "allocated_tokens": lambda snapshot: snapshot._num_used_blocks * snapshot.block_size,
    "filled_tokens": lambda snapshot: snapshot.memory.filled,
    "memory": _memory,
    "totals": _totals,
}
