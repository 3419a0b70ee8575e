"""The newest snapshot, a bounded past to scrub through, and the marks that belong on the charts."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice

from model_runner.messages import EngineSnapshot
from model_runner.views import Mark, MarkKind

HISTORY_STEPS = 2_000
HISTORY_BYTES = 64 * 1024 * 1024
"""Of the encoded snapshots; in memory each takes a few times its size."""
MAX_MARKS = 500


class History:
    """Written by the client's thread, read by any. Everything handed out is immutable."""

    def __init__(self, max_steps: int = HISTORY_STEPS, max_bytes: int = HISTORY_BYTES) -> None:
        self._lock = threading.Lock()
        self._max_steps = max_steps
        self._max_bytes = max_bytes
        self._steps: deque[tuple[EngineSnapshot, int]] = deque()
        self._bytes = 0
        self._mean_bytes = 4096
        self._marks: deque[Mark] = deque(maxlen=MAX_MARKS)
        self._latest: EngineSnapshot | None = None

    @property
    def latest(self) -> EngineSnapshot | None:
        """The newest snapshot, heartbeats included."""
        return self._latest

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(self._marks)

    def steps(self, last: int | None = None) -> tuple[EngineSnapshot, ...]:
        """Snapshots of steps, oldest first, without heartbeats; only the newest ``last`` when given."""
        with self._lock:
            count = len(self._steps) if last is None else max(0, min(last, len(self._steps)))
            start = len(self._steps) - count
            return tuple(snapshot for snapshot, _ in islice(self._steps, start, None))

    def add(self, snapshot: EngineSnapshot, num_bytes: int = 0) -> None:
        """Take the next snapshot. num_bytes: its encoded size, 0 when not known."""
        with self._lock:
            previous = self._latest
            self._latest = snapshot
            self._marks.extend(
                Mark(
                    "policy",
                    snapshot.run_id,
                    event.step_id,
                    snapshot.wall_time,
                    snapshot.step.policy.version,
                    _changes(event.numbers),
                )
                for event in snapshot.step.events
                if event.kind == "policy_changed"
            )
            if snapshot.heartbeat or (previous is not None and _same_step(previous, snapshot)):
                return
            size = num_bytes or self._mean_bytes
            self._mean_bytes += (size - self._mean_bytes) // 16
            self._steps.append((snapshot, size))
            self._bytes += size
            while len(self._steps) > 1 and (len(self._steps) > self._max_steps or self._bytes > self._max_bytes):
                self._bytes -= self._steps.popleft()[1]

    def mark(self, kind: MarkKind, text: str, run_id: str = "") -> None:
        """Put a mark at the present step."""
        with self._lock:
            latest = self._latest
            if latest is None:
                return
            self._marks.append(
                Mark(
                    kind,
                    run_id or latest.run_id,
                    latest.step.step_id + 1 if kind == "traffic" else latest.step.step_id,
                    latest.wall_time,
                    latest.step.policy.version,
                    text,
                )
            )


def _same_step(previous: EngineSnapshot, snapshot: EngineSnapshot) -> bool:
    return (
        not previous.heartbeat and previous.run_id == snapshot.run_id and previous.step.step_id == snapshot.step.step_id
    )


def _changes(numbers: object) -> str:
    if not isinstance(numbers, dict):
        return ""
    return "; ".join(f"{name} {value}" for name, value in numbers.items() if name != "version")
