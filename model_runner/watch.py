"""What one reader has yet to hear of one request: put in by the client's thread, taken by whoever is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

MAX_NEWS = 256
"""Entries a reader may be behind; older ones are then joined, so that only their text takes room."""


@dataclass(frozen=True, slots=True)
class News:
    """What happened to a request with one step, or with its acceptance or end.

    text: new whole characters. num_tokens: output tokens so far, those without a whole character included.
    num_prompt_tokens: 0 until the engine has accepted it. outcome, reason: as in RequestView, "" until it ended.
    begun_again: it starts from its prompt with another model; all text before this is void.
    """

    text: str = ""
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    outcome: str = ""
    reason: str = ""
    begun_again: bool = False


class Watch:
    """One reader of one request. Thread-safe.

    wake: called with the journal's lock held, so it must neither block nor call back; once for any number of news
    until they are taken.
    """

    def __init__(self, request_id: str, wake: Callable[[], None], max_news: int = MAX_NEWS) -> None:
        self.request_id = request_id
        self._wake = wake
        self._max_news = max_news
        self._lock = threading.Lock()
        self._news: list[News] = []

    def put(self, news: News) -> None:
        """Add news. A reader that does not take them costs at most ``max_news`` entries and the text."""
        with self._lock:
            if news.begun_again:
                self._news.clear()
            self._news.append(news)
            if len(self._news) > self._max_news:
                self._news = [_joined(self._news)]
            is_first = len(self._news) == 1
        if is_first:
            self._wake()

    def take(self) -> list[News]:
        """What came since the last call, oldest first."""
        with self._lock:
            taken, self._news = self._news, []
        return taken


def _joined(news: list[News]) -> News:
    """All of it in one; the numbers are the newest."""
    text = "".join(item.text for item in news)
    return replace(news[-1], text=text, begun_again=any(item.begun_again for item in news))
