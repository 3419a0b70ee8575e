"""Kills a worker at a chosen kind of moment, under load, and keeps account of what every request was told."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import psutil
from helpers import wait_until

from model_runner.client import RunnerClient
from model_runner.messages import EngineSnapshot
from model_runner.views import RequestView
from model_runner.watch import News, Watch
from scheduler import SamplingParams, SchedulerPolicy

Asked = tuple[tuple[int, ...], SamplingParams]

MOMENTS = ("step", "between", "accept", "start")
"""In a step; while the pace lets none start; as soon as ``submit`` has said yes; before the worker is live."""
START_S = 1.5
"""Within so long of its birth a worker is killed at its start."""
BETWEEN_MS = 60.0
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9. down_s, live_s: seconds until the state showed it, and until an engine was live again; 0 = not
    waited for. cpu_s: of the next worker until then, which a busy machine does not change much."""

    moment: str
    down_s: float
    live_s: float = 0.0
    cpu_s: float = 0.0


@dataclass(slots=True)
class Told:
    """What the reader of one request heard. ends: news with an outcome."""

    which: int
    watch: Watch
    text: str = ""
    ends: int = 0
    num_tokens: list[int] = field(default_factory=list)

    def listen(self) -> None:
        for news in self.watch.take():
            self._note(news)

    def _note(self, news: News) -> None:
        assert not news.begun_again
        assert not self.ends, "news after the end"
        self.text += news.text
        self.num_tokens.append(news.num_tokens)
        self.ends += bool(news.outcome)


class Ordeal:
    """A client under a load of ``unfinished`` requests, drawn from ``asked``, whose worker is killed.

    expected: tokens of each of ``asked`` in its lone run.
    """

    def __init__(
        self,
        client: RunnerClient,
        asked: Sequence[Asked],
        expected: Sequence[tuple[int, ...]],
        unfinished: int,
        seed: int,
    ) -> None:
        self._client = client
        self._asked = asked
        self._expected = expected
        self._unfinished = unfinished
        self._rng = random.Random(seed)
        self._records: Counter[str] = Counter()
        self._open: dict[str, Told] = {}
        self.num_done = 0
        self.num_restarted = 0
        client.observe(self._count_records)

    def _count_records(self, snapshot: EngineSnapshot) -> None:
        self._records.update(record.request_id for record in snapshot.step.records)

    def load(self) -> None:
        """Submit what is missing, listen, and hold every request that ended against its lone run."""
        while self._client.num_unfinished < self._unfinished:
            self.submit()
        self.look()

    def submit(self) -> None:
        which = self._rng.randrange(len(self._asked))
        outcome = self._client.submit(*self._asked[which], priority=self._rng.randint(0, 2))
        assert outcome.accepted, outcome
        watch = self._client.watch(outcome.request_id, lambda: None)
        assert watch is not None
        self._open[outcome.request_id] = Told(which, watch)

    def look(self) -> None:
        for request_id, told in list(self._open.items()):
            told.listen()
            if told.ends:
                view = self._client.request(request_id)
                assert view is not None
                self._check(view, self._open.pop(request_id))

    def _check(self, view: RequestView, told: Told) -> None:
        assert view.tokens == self._expected[told.which], f"{view.request_id} after {view.num_restarts} restarts"
        assert (view.outcome, view.reason) == ("finished", "length")
        assert told.text == view.text, "a reader was told every piece once"
        assert told.num_tokens == sorted(told.num_tokens)
        assert self._records[view.request_id] <= 1
        self.num_done += 1
        self.num_restarted += view.num_restarts > 0

    def kills(self, moments: Sequence[str]) -> Iterator[Kill]:
        """Kill at each of these moments; only a worker that was killed has a successor whose start can be hit."""
        for moment in moments:
            self._until(self._has_stepped, "a step")
            delay_ms = BETWEEN_MS if moment == "between" else 0.0
            assert self._client.set_policy(SchedulerPolicy(step_delay_ms=delay_ms)).accepted
            yield self._kill("step" if moment == "start" else moment, followed=moment == "start")
            if moment == "start":
                yield self._kill(moment)

    def finish(self) -> None:
        """No more requests; all that were accepted end."""
        self._client.set_policy(SchedulerPolicy())
        self._until(lambda: not self._open and not self._client.num_unfinished, "all ended", top_up=False)

    def _has_stepped(self) -> bool:
        latest = self._client.latest
        return latest is not None and [latest.info.pid] == workers() and latest.step.totals.steps > 0

    def _until(self, true: Callable[[], bool], what: str, *, top_up: bool = True) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}, {self._client.state}"
            self.load() if top_up else self.look()
            time.sleep(0.002)

    def _kill(self, moment: str, *, followed: bool = False) -> Kill:
        """followed: the next kill hits the successor's start, so this one is not waited for."""
        if moment == "start":
            wait_until(workers, what="the next worker")
            time.sleep(self._rng.uniform(0.0, START_S))
        else:
            until = time.monotonic() + self._rng.uniform(0.05, 0.8)
            self._until(lambda: time.monotonic() > until, "a random moment")
        if moment == "accept":
            for _ in range(3):
                self.submit()
            time.sleep(self._rng.choice((0.0, 0.001, 0.003)))
        (pid,) = workers()
        before = self._client.state.restarts
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self._client.state.restarts > before, what="the death is noticed")
        down_s = time.monotonic() - killed
        assert self._client.state.phase in ("down", "restarting")
        if followed:
            return Kill(moment, down_s)
        self._until(self._has_another(pid), "live again")
        live_s = time.monotonic() - killed
        times = psutil.Process(workers()[0]).cpu_times()
        return Kill(moment, down_s, live_s, times.user + times.system)

    def _has_another(self, pid: int) -> Callable[[], bool]:
        def is_live() -> bool:
            latest = self._client.latest
            return (
                latest is not None
                and latest.info.pid != pid
                and self._client.state.phase in ("running", "idle", "computing", "paused")
            )

        return is_live


def workers() -> list[int]:
    """Worker processes of this process that run."""
    return [child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
