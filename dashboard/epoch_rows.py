"""What a book of epochs hands out: epochs, ended requests, and goodput computed from them. Frozen and pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.samples import Spread
from model_runner.messages import EngineSnapshot
from scheduler import RequestRecord


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request that ended. Seconds on the scheduler's clock; None where there is nothing to tell.

    epoch: serial of the one in which it was first admitted (in force at its end if it never was). spans: it arrived or
    ended in another one, or lived over a restart of the worker. tpot_s: 0 for a single token, as in vLLM's benchmark.
    """

    request_id: str
    run_id: str
    epoch: int
    spans: bool
    outcome: str
    reason: str
    num_prompt_tokens: int
    num_output_tokens: int
    queue_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float
    num_preemptions: int
    recompute_tokens: int
    padding_tokens: int
    wall_time: float


def row_of(record: RequestRecord, outcome: str, epoch: int, spans: bool, snapshot: EngineSnapshot) -> RequestRow:
    """The row of a record. A request that goes on after a restart has no true first token, so no TTFT and no TPOT."""
    arrival, first, last = record.arrival_time, record.first_token_time, record.last_token_time
    ttft = tpot = None
    if first is not None and last is not None and not record.num_prior_output_tokens:
        ttft = first - arrival
        tpot = (last - first) / (record.num_output_tokens - 1) if record.num_output_tokens > 1 else 0.0
    scheduled = None if record.num_prior_output_tokens else record.first_scheduled_time
    return RequestRow(
        request_id=record.request_id,
        run_id=snapshot.run_id,
        epoch=epoch,
        spans=spans,
        outcome=outcome,
        reason=record.reason,
        num_prompt_tokens=record.num_prompt_tokens,
        num_output_tokens=record.num_output_tokens,
        queue_s=None if scheduled is None else scheduled - arrival,
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=record.end_time - arrival,
        num_preemptions=record.num_preemptions,
        recompute_tokens=record.recompute_tokens,
        padding_tokens=record.padding_tokens,
        wall_time=snapshot.wall_time - max(0.0, snapshot.step.time - record.end_time),
    )


@dataclass(frozen=True, slots=True, eq=False)
class EpochSummary:
    """An epoch as of one step. serial: its number, from 1. changes: (field, old, new) against the epoch before.

    counts: tokens by purpose ("prefill", "decode", "recompute", "padding"), slot-steps "idle", "output" tokens,
    "preemptions". ended: requests by outcome, all of them. unfinished: admitted in it and not ended; in the newest
    epoch also those not admitted yet. duration_s: engine time, pauses left out. spreads: by metric, and whether those
    that span are left out.
    """

    serial: int
    version: int
    changes: tuple[tuple[str, Any, Any], ...]
    wall_time: float
    steps: int
    duration_s: float
    restarts: int
    counts: Mapping[str, int]
    ended: Mapping[str, int]
    unfinished: int
    spreads: Mapping[tuple[str, bool], Spread]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """All epochs that are kept, oldest first, and the newest requests that ended, oldest first.

    missed_steps: iterations nobody followed; requests that ended in them are in no number here.
    """

    epochs: tuple[EpochSummary, ...]
    requests: tuple[RequestRow, ...]
    run_id: str
    step_id: int
    missed_steps: int


@dataclass(frozen=True, slots=True)
class Goodput:
    """good: requests that finished within both limits, of ``judged`` that ended. unknown: ended, but no limit can be
    checked (they lived over a restart). share: 0..1, None when nothing was judged. per_s: good requests a second of
    engine time, with those that are not kept any more taken to be like those that are; None without time.
    """

    good: int
    judged: int
    unknown: int
    share: float | None
    per_s: float | None


def is_good(row: RequestRow, ttft_ms: float, tpot_ms: float) -> bool:
    """Whether a request finished within both limits. One that was aborted or rejected has not."""
    if row.outcome != "finished" or row.ttft_s is None or row.tpot_s is None:
        return False
    return 1000 * row.ttft_s <= ttft_ms and 1000 * row.tpot_s <= tpot_ms


def goodput(
    epoch: EpochSummary, rows: Iterable[RequestRow], ttft_ms: float, tpot_ms: float, *, whole_only: bool
) -> Goodput:
    """Of one epoch, from its ended requests. Zhong et al., DistServe, OSDI 2024: requests that meet both the
    TTFT and the TPOT limit. The rate is request_goodput of vLLM's benchmark: good requests / duration.
    """
    mine = [row for row in rows if row.epoch == epoch.serial]
    counted = [row for row in mine if not (whole_only and row.spans)]
    judged = [row for row in counted if row.outcome != "finished" or row.ttft_s is not None]
    good = sum(is_good(row, ttft_ms, tpot_ms) for row in judged)
    per_s = None
    if epoch.duration_s > 0 and mine:
        per_s = good / epoch.duration_s * (sum(epoch.ended.values()) / len(mine))
    share = good / len(judged) if judged else None
    return Goodput(good, len(judged), len(counted) - len(judged), share, per_s)
