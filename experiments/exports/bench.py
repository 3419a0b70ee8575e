"""A run in the form of ``vllm bench serve --save-result --save-detailed``, by the runner's own writer of that form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from experiments.exports.errors import ExportError
from experiments.record import RequestRow, Run
from experiments.trace import Trace
from experiments.traces.generators import arrival_of
from model_runner.bench_result import BACKEND, RequestTimes, detailed, serve_result

PERCENTILES = (50.0, 90.0, 99.0)


def bench_result(run: Run, percentiles: Sequence[float] = PERCENTILES) -> dict[str, Any]:
    """The result's fields. Requests that were rejected or did not finish are "failed" with their reason, as in vLLM,
    and none of their tokens count. A request starts when it was due; there is no client and no network.

    Beside vLLM's fields, as its ``--metadata`` adds: kind, trace, trace_sha256, repeat, measured_where.
    Raises ExportError when the run lasted no time.
    """
    if run.wall_s <= 0:
        raise ExportError(f"{run.label}: wall_s is {run.wall_s}, so no rate can be told; expected above 0")
    done = [row for row in run.requests if row.outcome == "finished"]
    times = {row.request_id: RequestTimes(row.prompt_len, row.due_s, list(row.token_times_s)) for row in done}
    failed = {row.request_id: _why(row) for row in run.requests if row.outcome != "finished"}
    result = serve_result(
        times,
        model=run.conditions.model,
        label=run.label,
        rejected=failed,
        duration_s=run.wall_s,
        all_at_once=all(row.due_s == 0 for row in run.requests),
        percentiles=percentiles,
    )
    rate, burstiness = arrival_of(Trace(run.trace_name, (), run.trace_origin))
    backend = BACKEND if run.conditions.kind == "measured" else f"{BACKEND} ({run.conditions.kind})"
    result |= {
        "date": _date(run.began_at) or result["date"],
        "endpoint_type": backend,
        "backend": backend,
        "request_rate": result["request_rate"] or rate,
        # JSON has no infinity: vLLM's own file writes the word, as it does for the rate.
        "burstiness": burstiness if burstiness != float("inf") else "inf",
    }
    result |= detailed(times, failed)
    waits = [(row.due_s if row.first_scheduled_s is None else row.first_scheduled_s) - row.due_s for row in done]
    result["queue_times"] = [*waits, *(0.0 for _ in failed)]
    return result | {
        "kind": run.conditions.kind,
        "trace": run.trace_name,
        "trace_sha256": run.trace_sha256,
        "repeat": str(run.repeat),
        "measured_where": run.conditions.measured_where,
    }


def _why(row: RequestRow) -> str:
    return f"{row.outcome}: {row.reason}" if row.reason else row.outcome


def _date(began_at: str) -> str:
    try:
        return datetime.fromisoformat(began_at).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        return ""
