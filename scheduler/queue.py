"""The waiting queue: sorted by the policy's order, cheap at its head however long it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from scheduler.guard import OwnOrder
from scheduler.ordering import ORDERS, AdmissionOrder
from scheduler.refusals import Refusals, Refused
from scheduler.sequence import Sequence, SequenceView


class WaitingQueue:
    """Requests in order of their key. Reading the head, taking it and appending at the end cost O(1).

    Taking or putting elsewhere moves memory, a few microseconds for 100,000 entries. Entries before ``_start`` were
    taken already; they are dropped when they are more than half.

    An order of one's own can fail for a request. The whole queue is then sorted by its stand-in until the next step.
    """

    def __init__(self, order: AdmissionOrder, refusals: Refusals | None = None) -> None:
        self._order = order
        self._key = order.key
        self._refusals = refusals or Refusals()
        self._suspect: SequenceView | None = None
        self._keys: list[Any] = []
        self._items: list[Sequence] = []
        self._start = 0
        self.num_tokens = 0
        self.version = 0

    def __len__(self) -> int:
        return len(self._items) - self._start

    def __iter__(self) -> Iterator[Sequence]:
        for index in range(self._start, len(self._items)):
            yield self._items[index]

    @property
    def asks_in_every_step(self) -> bool:
        """Whether somebody waits in an order of one's own, which ``next_step`` looks at again and again."""
        return isinstance(self._order, OwnOrder) and len(self) > 0

    def head(self) -> Sequence | None:
        """The request that is next, or None."""
        return self._items[self._start] if len(self) else None

    def first(self, limit: int | None) -> list[Sequence]:
        """The first ``limit`` requests, all of them for None."""
        end = len(self._items) if limit is None else self._start + limit
        return self._items[self._start : end]

    def put(self, seq: Sequence) -> None:
        """Insert by key; equal keys keep the order in which they came."""
        try:
            key = self._key(seq)
        except Refused as refused:
            self._stand_in(refused)
            key = self._key(seq)
        seq.queue_key = key
        self.num_tokens += seq.num_tokens
        self.version += 1
        if not self._keys or key >= self._keys[-1] or not len(self):
            self._keys.append(key)
            self._items.append(seq)
            return
        index = bisect_left(self._keys, key, self._start)
        while index < len(self._keys) and self._keys[index] == key:
            index += 1
        if index == self._start and self._start > 0:
            self._start -= 1
            self._keys[self._start] = key
            self._items[self._start] = seq
        else:
            self._keys.insert(index, key)
            self._items.insert(index, seq)

    def take(self, seq: Sequence) -> None:
        """Remove a request that is in the queue. Raises ValueError when it is not."""
        index = bisect_left(self._keys, seq.queue_key, self._start)
        while index < len(self._items) and self._items[index] is not seq:
            index += 1
        if index >= len(self._items):
            raise ValueError(f"{seq.request_id} is not in the queue")
        if seq is self._suspect:
            self._suspect = None
        self.num_tokens -= seq.num_tokens
        self.version += 1
        if index == self._start:
            self._start += 1
            if self._start * 2 > len(self._items):
                del self._keys[: self._start], self._items[: self._start]
                self._start = 0
        else:
            del self._keys[index], self._items[index]

    def reorder(self, order: AdmissionOrder) -> None:
        """Sort anew, after the policy's order changed."""
        self._order, self._suspect = order, None
        try:
            self._sort(order)
        except Refused as refused:
            self._stand_in(refused)

    def next_step(self) -> None:
        """Ask an order of one's own again that failed in the last step, or look whether the head's key still holds.

        While the request it failed for waits and it still fails for that one, nothing is sorted.
        """
        order, suspect = self._order, self._suspect
        if not isinstance(order, OwnOrder) or self._refusals.has(order.source):
            return
        try:
            if self._key != order.key:
                if suspect is not None:
                    order.key(suspect)
                self._sort(order)
            elif (head := self.head()) is not None and order.key(head) != head.queue_key:
                raise Refused(order.source, f"key({head.request_id}) changed while the request waited", head)
        except Refused as refused:
            self._stand_in(refused)

    def _stand_in(self, refused: Refused) -> None:
        self._refusals.note(refused)
        self._suspect = refused.seq
        stand_in = ORDERS[refused.source.stand_in]
        if self._key != stand_in.key:
            self._sort(stand_in)

    def _sort(self, order: AdmissionOrder) -> None:
        """Sort by ``order``. Nothing has changed when a key of it is refused."""
        waiting = self._items[self._start :]
        keys = [order.key(seq) for seq in waiting]
        for seq, key in zip(waiting, keys, strict=True):
            seq.queue_key = key
        self._key = order.key
        self._items = sorted(waiting, key=lambda seq: seq.queue_key)
        self._keys = [seq.queue_key for seq in self._items]
        self._start = 0
        self.version += 1
