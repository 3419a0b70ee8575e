"""The raw numbers behind every metric: one array per meaning, each value with the request it belongs to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from experiments.record import Run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits a request must keep to count as good, in seconds; None = no limit of that kind.

    tpot_s: a request with one output token has a TPOT of 0 here, as in ``vllm bench serve --goodput``.
    Raises ValueError for a limit that is not a positive number.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value!r}, expected a number of seconds above 0 or None")


@dataclass(frozen=True, slots=True)
class Table:
    """The requests of a run as arrays, in order of due time (equal ones by id): shape (requests,).

    Times in seconds since the run began, NaN = never. prompt, delivered: tokens. gaps: seconds between two
    tokens delivered one after the other to a finished request; gap_owner: the row of that request. token_times: of
    all tokens delivered to finished requests, in no order.
    """

    ids: tuple[str, ...]
    due: Floats
    prompt: Ints
    delivered: Ints
    finished: Bools
    rejected: Bools
    first_scheduled: Floats
    last_scheduled: Floats
    first_token: Floats
    last_token: Floats
    preemptions: Ints
    recompute: Ints
    padding: Ints
    gaps: Floats
    gap_owner: Ints
    token_times: Floats
    wall_s: float

    @property
    def tpot(self) -> Floats:
        """(last - first) / (n - 1) for each request; NaN where n < 2."""
        found: Floats = np.full(len(self.due), np.nan)
        some = self.delivered > 1
        found[some] = (self.last_token - self.first_token)[some] / (self.delivered - 1)[some]
        return found

    def good(self, slo: Slo) -> Bools:
        """Which requests finished within every limit."""
        good = self.finished & (self.delivered > 0)
        tpot = np.where(self.delivered > 1, self.tpot, 0.0)
        for limit, value in (
            (slo.ttft_s, self.first_token - self.due),
            (slo.tpot_s, tpot),
            (slo.e2e_s, self.last_token - self.due),
        ):
            if limit is not None:
                good &= np.nan_to_num(value, nan=np.inf) <= limit
        return good


def table(run: Run) -> Table:
    """The requests of ``run`` as arrays."""
    rows = sorted(run.requests, key=lambda row: (row.due_s, row.request_id))
    gaps: list[Floats] = []
    owners: list[Ints] = []
    for index, row in enumerate(rows):
        if row.outcome == "finished" and len(row.token_times_s) > 1:
            gaps.append(np.diff(np.array(row.token_times_s, dtype=np.float64)))
            owners.append(np.full(len(row.token_times_s) - 1, index, dtype=np.int64))

    def floats(values: list[float | None]) -> Floats:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def ints(values: list[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    return Table(
        ids=tuple(row.request_id for row in rows),
        due=floats([row.due_s for row in rows]),
        prompt=ints([row.prompt_len for row in rows]),
        delivered=ints([len(row.token_times_s) for row in rows]),
        finished=np.array([row.outcome == "finished" for row in rows], dtype=np.bool_),
        rejected=np.array([row.outcome == "rejected" for row in rows], dtype=np.bool_),
        first_scheduled=floats([row.first_scheduled_s for row in rows]),
        last_scheduled=floats([row.last_scheduled_s for row in rows]),
        first_token=floats([row.token_times_s[0] if row.token_times_s else None for row in rows]),
        last_token=floats([row.token_times_s[-1] if row.token_times_s else None for row in rows]),
        preemptions=ints([row.num_preemptions for row in rows]),
        recompute=ints([row.recompute_tokens for row in rows]),
        padding=ints([row.padding_tokens for row in rows]),
        gaps=np.concatenate(gaps) if gaps else np.empty(0),
        gap_owner=np.concatenate(owners) if owners else np.empty(0, dtype=np.int64),
        token_times=floats([time for row in rows if row.outcome == "finished" for time in row.token_times_s]),
        wall_s=run.wall_s,
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """values: the numbers; owner: row of ``Table`` that each belongs to; both of one shape (samples,)."""

    values: Floats
    owner: Ints


def _of_finished(rows: Table, values: Floats | Ints) -> Sample:
    """One value a finished request, where it has one."""
    owner = np.flatnonzero(rows.finished & ~np.isnan(values))
    return Sample(values[owner].astype(np.float64), owner)


def _of_all(values: Ints | Bools) -> Sample:
    return Sample(values.astype(np.float64), np.arange(len(values)))


def _good(rows: Table, slo: Slo | None) -> Sample:
    return Sample(np.empty(0), np.empty(0, dtype=np.int64)) if slo is None else _of_all(rows.good(slo))


FAMILIES: Final[Mapping[str, Callable[[Table, Slo | None], Sample]]] = {
    "ttft": lambda rows, _: _of_finished(rows, rows.first_token - rows.due),
    "itl": lambda rows, _: Sample(rows.gaps, rows.gap_owner),
    "tpot": lambda rows, _: _of_finished(rows, rows.tpot),
    "e2e": lambda rows, _: _of_finished(rows, rows.last_token - rows.due),
    "queue": lambda rows, _: _of_finished(rows, rows.first_scheduled - rows.due),
    "queue_recent": lambda rows, _: _of_finished(rows, rows.last_scheduled - rows.due),
    "output_tokens": lambda rows, _: _of_finished(rows, rows.delivered),
    "all_tokens": lambda rows, _: _of_finished(rows, rows.prompt + rows.delivered),
    "finished": lambda rows, _: _of_all(rows.finished),
    "good": _good,
    "preemptions": lambda rows, _: _of_all(rows.preemptions),
    "recompute": lambda rows, _: _of_all(rows.recompute),
    "padding": lambda rows, _: _of_all(rows.padding),
}
"""Name -> the sample of a run. Latencies, and tokens that count as served, are of finished requests only."""


def moments(rows: Table, family: str, slo: Slo | None) -> tuple[Floats, Floats]:
    """(times, amounts): when what a rate counts came about, so that their sum over ``wall_s`` is the rate.

    Output tokens at their delivery, prompts at the first token, requests at their last.
    """
    if family in ("output_tokens", "all_tokens"):
        times, amounts = rows.token_times, np.ones(len(rows.token_times))
        if family == "all_tokens":
            some = rows.finished & (rows.delivered > 0)
            times = np.concatenate([times, rows.first_token[some]])
            amounts = np.concatenate([amounts, rows.prompt[some].astype(np.float64)])
        return times, amounts
    sample = FAMILIES[family](rows, slo)
    times = np.nan_to_num(rows.last_token[sample.owner])
    return times, sample.values
