"""The waiting queue: sorted by the policy's order, cheap at its head however long it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from scheduler.admission import OrderKey
from scheduler.sequence import Sequence


class WaitingQueue:
    """Requests in order of their key. Reading the head, taking it and appending at the end cost O(1).

    Taking or putting elsewhere moves memory, a few microseconds for 100,000 entries. Entries before ``_start`` were
    taken already; they are dropped when they are more than half.
    """

    def __init__(self, key: Callable[[Sequence], OrderKey]) -> None:
        self._key = key
        self._keys: list[OrderKey] = []
        self._items: list[Sequence] = []
        self._start = 0
        self.num_tokens = 0
        self.version = 0

    def __len__(self) -> int:
        return len(self._items) - self._start

    def __iter__(self) -> Iterator[Sequence]:
        for index in range(self._start, len(self._items)):
            yield self._items[index]

    def head(self) -> Sequence | None:
        """The request that is next, or None."""
        return self._items[self._start] if len(self) else None

    def first(self, limit: int | None) -> list[Sequence]:
        """The first ``limit`` requests, all of them for None."""
        end = len(self._items) if limit is None else self._start + limit
        return self._items[self._start : end]

    def put(self, seq: Sequence) -> None:
        """Insert by key; equal keys keep the order in which they came."""
        key = self._key(seq)
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
        index = bisect_left(self._keys, self._key(seq), self._start)
        while index < len(self._items) and self._items[index] is not seq:
            index += 1
        if index >= len(self._items):
            raise ValueError(f"{seq.request_id} is not in the queue")
        self.num_tokens -= seq.num_tokens
        self.version += 1
        if index == self._start:
            self._start += 1
            if self._start * 2 > len(self._items):
                del self._keys[: self._start], self._items[: self._start]
                self._start = 0
        else:
            del self._keys[index], self._items[index]

    def reorder(self, key: Callable[[Sequence], OrderKey]) -> None:
        """Sort anew, after the policy's order changed."""
        self._key = key
        self._items = sorted(self._items[self._start :], key=key)
        self._keys = [key(seq) for seq in self._items]
        self._start = 0
        self.version += 1
