"""What other threads ask of the client's thread: commands, and other configurations."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from model_runner.config import RunnerConfig
from model_runner.messages import Command, Reply

Ask = tuple[Command, Future[Reply]]


class Inbox:
    """Taken from by one thread, put into by any. wake: ends that thread's sleep."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._items: queue.SimpleQueue[Ask | RunnerConfig] = queue.SimpleQueue()

    def ask(self, command: Command) -> Future[Reply]:
        """Leave a command; the future gets its answer."""
        future: Future[Reply] = Future()
        self._items.put((command, future))
        self._wake()
        return future

    def restart(self, config: RunnerConfig) -> None:
        """Leave the configuration for another worker."""
        self._items.put(config)
        self._wake()

    def take(self) -> Iterator[Ask | RunnerConfig]:
        """All that was left, first come first."""
        while True:
            try:
                yield self._items.get_nowait()
            except queue.Empty:
                return
