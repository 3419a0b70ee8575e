"""Tables of numbers, for the eye and for files: requests, iterations, events, epochs. Pure.

Column names carry their units and stay English in every language: they are what a program reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd

from dashboard.epoch_rows import EpochSummary, RequestRow, Summary, goodput
from dashboard.epochs import METRICS, PURPOSES
from dashboard.history import tokens_by_purpose
from dashboard.samples import QUANTILES
from model_runner.messages import EngineSnapshot

MAX_EVENTS: Final = 20_000


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)


def _clock(wall_time: float) -> str:
    return datetime.fromtimestamp(wall_time, UTC).isoformat(timespec="milliseconds")


def requests_frame(rows: Iterable[RequestRow]) -> pd.DataFrame:
    """One row an ended request, the newest first."""
    names = (
        "request_id", "epoch", "spans_epochs", "outcome", "reason", "prompt_tokens", "output_tokens", "queue_ms",
        "ttft_ms", "tpot_ms", "e2e_ms", "preemptions", "recompute_tokens", "padding_tokens", "ended_utc", "run_id",
    )  # fmt: skip
    records = [
        (
            r.request_id, r.epoch, r.spans, r.outcome, r.reason, r.num_prompt_tokens, r.num_output_tokens,
            _ms(r.queue_s), _ms(r.ttft_s), _ms(r.tpot_s), _ms(r.e2e_s), r.num_preemptions, r.recompute_tokens,
            r.padding_tokens, _clock(r.wall_time), r.run_id,
        )
        for r in rows
    ]  # fmt: skip
    return pd.DataFrame(records[::-1], columns=list(names))


def steps_frame(history: Sequence[EngineSnapshot]) -> pd.DataFrame:
    """One row an iteration of the kept history, the newest first."""
    out: list[dict[str, Any]] = []
    before: EngineSnapshot | None = None
    for snapshot in history:
        step, timings = snapshot.step, snapshot.step.timings
        follows = before is not None and before.run_id == snapshot.run_id and before.step.step_id == step.step_id - 1
        tokens = tokens_by_purpose(step, before.step.totals if before is not None and follows else None)
        out.append(
            {
                "iteration": step.step_id,
                "policy_version": step.policy.version,
                "engine_time_s": round(snapshot.engine_time, 6),
                "duration_ms": _ms(snapshot.step_s),
                "schedule_ms": _ms(timings.schedule_s),
                "execute_ms": _ms(timings.execute_s),
                "sample_ms": _ms(timings.sample_s),
                "update_ms": _ms(timings.update_s),
                **{f"{name}_tokens": count for name, count in tokens.items()},
                "delivered_tokens": len(step.new_tokens),
                "running_requests": len(step.running),
                "waiting_requests": step.num_waiting,
                "preempted_requests": len(step.preempted),
                "used_blocks": step.num_used_blocks,
                "usable_blocks": min(step.block_limit, step.num_blocks),
                "run_id": snapshot.run_id,
            }
        )
        before = snapshot
    return pd.DataFrame(out[::-1])


def events_frame(history: Sequence[EngineSnapshot]) -> pd.DataFrame:
    """One row an event of the kept history, the newest first."""
    names = ["iteration", "engine_time_s", "kind", "request_id", "reason", "numbers", "run_id"]
    records = [
        (
            event.step_id, round(event.time, 6), event.kind, event.request_id, event.reason,
            "; ".join(f"{name}={value}" for name, value in event.numbers.items()), snapshot.run_id,
        )
        for snapshot in history
        for event in snapshot.step.events
    ]  # fmt: skip
    return pd.DataFrame(records[: -MAX_EVENTS - 1 : -1], columns=names)


def epochs_frame(summary: Summary | None, limits: tuple[float, float], *, whole_only: bool) -> pd.DataFrame:
    """One row an epoch, the newest first. limits: TTFT and TPOT of the goodput, in milliseconds."""
    if summary is None:
        return pd.DataFrame({"epoch": []})
    return pd.DataFrame([_epoch(e, summary, limits, whole_only) for e in reversed(summary.epochs)])


def _epoch(epoch: EpochSummary, summary: Summary, limits: tuple[float, float], whole_only: bool) -> dict[str, Any]:
    good = goodput(epoch, summary.requests, *limits, whole_only=whole_only)
    out: dict[str, Any] = {
        "epoch": epoch.serial,
        "policy_version": epoch.version,
        "changes": "; ".join(f"{name} {old} -> {new}" for name, old, new in epoch.changes),
        "began_utc": _clock(epoch.wall_time),
        "iterations": epoch.steps,
        "engine_time_s": round(epoch.duration_s, 3),
        "restarts": epoch.restarts,
        **{f"{name}_requests": count for name, count in epoch.ended.items()},
        "unfinished_requests": epoch.unfinished,
        "good_requests": good.good,
        "judged_requests": good.judged,
        "goodput_share": good.share,
        "goodput_requests_per_s": good.per_s,
        "slo_ttft_ms": limits[0],
        "slo_tpot_ms": limits[1],
    }
    out |= {f"{name}_tokens" if name != "idle" else "idle_slot_steps": epoch.counts[name] for name in PURPOSES}
    for metric in METRICS:
        spread = epoch.spreads[metric, whole_only]
        out[f"{metric}_n"] = spread.n
        for q, value in zip(QUANTILES, spread.values, strict=True):
            out[f"{metric}_p{q}_ms"] = None if value is None else round(value, 3)
    return out


def filtered(table: pd.DataFrame, text: str) -> pd.DataFrame:
    """Rows in which every word of ``text`` occurs in some column, capital letters or not; all for ""."""
    words = text.lower().split()
    if not words or table.empty:
        return table
    lines = (" ".join(map(str, row)).lower() for row in table.itertuples(index=False))
    keep = [all(word in line for word in words) for line in lines]
    return table[keep]


def curves_frame(summary: Summary | None, metric: str, *, whole_only: bool) -> pd.DataFrame:
    """The points of the distribution curves: one row a percentile and epoch."""
    records = [
        (epoch.serial, epoch.version, metric, q, round(value, 3))
        for epoch in (summary.epochs if summary else ())
        for q, value in enumerate(epoch.spreads[metric, whole_only].curve)
    ]
    return pd.DataFrame(records, columns=["epoch", "policy_version", "metric", "percentile", "value_ms"])


def split_frame(summary: Summary | None) -> pd.DataFrame:
    """What the tokens were for: one row an epoch and purpose."""
    records = []
    for epoch in summary.epochs if summary else ():
        total = sum(epoch.counts[name] for name in PURPOSES)
        for name in PURPOSES:
            share = epoch.counts[name] / total if total else None
            records.append((epoch.serial, epoch.version, name, epoch.counts[name], share))
    return pd.DataFrame(records, columns=["epoch", "policy_version", "purpose", "tokens", "share"])
