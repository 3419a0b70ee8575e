"""What is known, at a step of a live run, of the requests that come afterwards and of how long outputs get."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from model_runner.client import RunnerClient
from model_runner.messages import EngineSnapshot
from model_runner.traffic import Arrival
from model_runner.views import RequestView
from scheduler import RunningTable, WaitingTable

CHARS_PER_TOKEN: Final = 4.0
"""Of a prompt when no prompt of this run is known yet: the usual rule of thumb for English text."""

ASSUMPTIONS: Final[Mapping[str, str]] = {
    "drawn_lengths": "outputs whose length is not known yet are drawn from the shares of max_tokens that finished "
    "requests of this session made",
    "full_lengths": "outputs whose length is not known yet are taken to reach max_tokens",
    "prompt_lengths": "prompts that have not been seen are given tokens by their characters",
}
"""What stands in for what nobody can know yet; the same for every policy that is compared."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A request that arrives later. at_s: on the engine's clock. output_len: tokens it makes, <= max_tokens.

    droppable: made by the page's traffic, which drops what finds ``Future.max_waiting`` requests waiting.
    """

    request_id: str
    at_s: float
    prompt_len: int
    max_tokens: int
    output_len: int
    priority: int = 0
    droppable: bool = False


@dataclass(frozen=True, slots=True)
class Future:
    """What comes after a step, the same for every policy. coming: in order of arrival.

    lengths: request id -> output tokens, of requests that are in the engine already; none = max_tokens.
    assumptions: key of ``ASSUMPTIONS`` -> requests it concerns.
    """

    coming: tuple[Coming, ...] = ()
    lengths: Mapping[str, int] = field(default_factory=dict)
    max_waiting: int | None = None
    assumptions: Mapping[str, int] = field(default_factory=dict)


def future_of(
    client: RunnerClient, history: Sequence[EngineSnapshot], at_step: int, horizon_s: float, seed: int = 0
) -> Future:
    """The future of step ``at_step`` of the newest run in ``history``: what came since, and what the traffic brings.

    The traffic's generator is copied, not used, so that the real run gets the same arrivals. Output lengths are the
    true ones where the request has ended by now. horizon_s: seconds of engine time from now on. Raises ValueError for
    a step that is not in the history.
    """
    views = client.requests()
    lengths = _Lengths(views, seed)
    run = _same_run(history)
    before = next((snapshot for snapshot in run if snapshot.step.step_id == at_step), None)
    if before is None:
        raise ValueError(f"at_step is {at_step}, which is not among the {len(run)} steps of the history")
    known = {*before.step.running.request_id, *before.step.waiting.request_id}
    since = [snapshot for snapshot in run if snapshot.step.step_id > at_step]
    seen = _seen_since(since, known)
    ended = {
        record.request_id: record.num_output_tokens
        for snapshot in since
        for record in snapshot.step.records
        if record.outcome == "finished"
    }
    coming = [
        Coming(name, at, prompt, most, ended.get(name) or lengths.of(name, most, 0), priority)
        for name, (at, prompt, most, priority) in seen.items()
    ]
    now = run[-1]
    prompts = _PromptLengths(views)
    coming += [
        Coming(
            view.request_id,
            now.engine_time,
            prompts.of(view),
            most,
            lengths.of(view.request_id, most, 0),
            view.priority,
        )
        for view in _on_the_way(views, {*known, *seen}, now)
        if (most := view.max_tokens) is not None
    ]
    coming += _traffic(client.traffic.ahead(horizon_s), now.engine_time, views, prompts, lengths)
    coming.sort(key=lambda each: each.at_s)
    open_rows = {
        name: ended.get(name) or lengths.of(name, most, made)
        for table in (before.step.running, before.step.waiting)
        for name, most, made in _rows(table)
    }
    return Future(
        tuple(coming),
        open_rows,
        client.traffic.spec.max_waiting,
        {name: count for name, count in (*lengths.assumed(), ("prompt_lengths", prompts.guessed)) if count},
    )


def _same_run(history: Sequence[EngineSnapshot]) -> list[EngineSnapshot]:
    return [snapshot for snapshot in history if snapshot.run_id == history[-1].run_id]


def _rows(table: RunningTable | WaitingTable) -> Iterable[tuple[str, int, int]]:
    return zip(table.request_id, table.max_tokens, table.num_output_tokens, strict=True)


def _seen_since(since: Iterable[EngineSnapshot], known: set[str]) -> dict[str, tuple[float, int, int, int]]:
    """request id -> (arrival, prompt, max_tokens, priority) of what came later, in the order in which it was seen."""
    found: dict[str, tuple[float, int, int, int]] = {}
    for snapshot in since:
        step = snapshot.step
        for table in (step.running, step.waiting):
            for name, at, prompt, most, priority in zip(
                table.request_id,
                table.arrival_time,
                table.num_prompt_tokens,
                table.max_tokens,
                table.priority,
                strict=True,
            ):
                if name not in known and name not in found:
                    found[name] = (at, prompt, most, priority)
        for record in step.records:  # came and went within one step
            if record.outcome == "finished" and record.request_id not in known and record.request_id not in found:
                made = record.num_output_tokens
                found[record.request_id] = (record.arrival_time, record.num_prompt_tokens, made, 0)
    return found


def _on_the_way(views: Sequence[RequestView], known: set[str], now: EngineSnapshot) -> list[RequestView]:
    """Requests that were submitted and that no snapshot shows yet; those behind the rows of the queue are not."""
    if now.step.num_waiting > len(now.step.waiting):
        return []
    return [view for view in views if not view.outcome and view.request_id not in known]


def _traffic(
    ahead: Sequence[tuple[float, Arrival]],
    now: float,
    views: Sequence[RequestView],
    prompts: _PromptLengths,
    lengths: _Lengths,
) -> list[Coming]:
    """What the traffic will bring, under the ids that the next requests get if nobody else sends any."""
    last = max((int(view.request_id[1:]) for view in views if view.request_id[1:].isdigit()), default=0)
    found = []
    for number, (in_s, arrival) in enumerate(ahead, last + 1):
        name, most = f"r{number}", arrival.sampling.max_tokens or 1
        length = lengths.of(name, most, 0)
        prompt = prompts.of_text(arrival.prompt)
        found.append(Coming(name, now + in_s, prompt, most, length, arrival.priority, droppable=True))
    return found


class _Lengths:
    """How many tokens an output gets, drawn once for each request, from what finished requests made."""

    def __init__(self, views: Sequence[RequestView], seed: int) -> None:
        self._seed = seed
        self._shares = [
            view.record.num_output_tokens / view.max_tokens
            for view in views
            if view.outcome == "finished" and view.record is not None and view.max_tokens
        ]
        self._asked = 0

    def of(self, request_id: str, max_tokens: int, made: int) -> int:
        """Tokens in the end, above ``made``."""
        self._asked += 1
        longer = [share for share in self._shares if share * max_tokens > made]
        if not longer:
            return max_tokens
        share = random.Random(f"{self._seed} {request_id}").choice(longer)
        return min(max_tokens, max(made + 1, math.ceil(share * max_tokens)))

    def assumed(self) -> tuple[tuple[str, int], ...]:
        """Which assumption was made, and for how many."""
        return (("drawn_lengths" if self._shares else "full_lengths", self._asked),)


class _PromptLengths:
    """Tokens of prompts: as counted for the same text before, else by the characters of those that were."""

    def __init__(self, views: Sequence[RequestView]) -> None:
        self._known = {view.prompt_text: view.num_prompt_tokens for view in views if view.num_prompt_tokens}
        chars = sum(len(text) for text in self._known)
        self._chars_per_token = chars / sum(self._known.values()) if chars else CHARS_PER_TOKEN
        self.guessed = 0

    def of(self, view: RequestView) -> int:
        """Of a request."""
        return view.num_prompt_tokens or self.of_text(view.prompt_text)

    def of_text(self, text: str) -> int:
        """Of a text."""
        if text in self._known:
            return self._known[text]
        self.guessed += 1
        return max(1, round(len(text) / self._chars_per_token))
