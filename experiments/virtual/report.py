"""What ``whatif`` found, as a table for people and as JSON."""

from __future__ import annotations

import argparse
import resource
import shlex
import sys
from dataclasses import asdict
from typing import Any

from experiments.virtual.fleet import FleetSpec, Tally


def row_of(name: str, seed: int, tally: Tally) -> dict[str, Any]:
    """The figures of one arm; times in seconds of the virtual clock, but cpu_s."""
    seconds = tally.last_end_s or 1.0
    return {
        "policy": name,
        "seed": seed,
        "submitted": tally.submitted,
        "finished": tally.finished,
        "rejected": tally.rejected,
        "unfinished": tally.unfinished,
        "virtual_s": tally.last_end_s,
        "requests_per_s": tally.finished / seconds,
        "output_tokens_per_s": tally.output_tokens / seconds,
        "output_tokens": tally.output_tokens,
        "prompt_tokens": tally.prompt_tokens,
        "recompute_tokens": tally.recompute_tokens,
        "preemptions": tally.preemptions,
        "steps": tally.steps,
        "busy_share": {str(index): busy / seconds for index, busy in sorted(tally.busy_s.items())},
        **{measure: asdict(spread) for measure, spread in tally.spreads().items()},
        "cpu_s": tally.cpu_s,
    }


def report_of(
    options: argparse.Namespace, spec: FleetSpec, notes: list[str], rows: list[dict[str, Any]], wall_s: float
) -> dict[str, Any]:
    """All of it, for a file: figures, what step times rest on, options and the command that reruns it."""
    given = {name: str(value) for name, value in sorted(vars(options).items()) if value is not None}
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "kind": "simulated",
        "step_times": notes,
        "pool": asdict(spec.pool),
        "replicas": spec.num_replicas,
        "routing": spec.routing,
        "arms": rows,
        "wall_s": wall_s,
        "cpu_s": sum(row["cpu_s"] for row in rows),
        "largest_process_mib": max(usage) / 1024,
        "options": given,
        "command": shlex.join(["python", "-m", "experiments", *sys.argv[1:]]),
    }


def lines_of(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    pool = report["pool"]
    lines = [
        "simulated: every decision by the real scheduler, no token computed",
        *report["step_times"],
        f"{report['replicas']} replica(s) by {report['routing']}, each with {pool['num_blocks']:,} blocks of "
        f"{pool['block_size']} tokens",
    ]
    for row in report["arms"]:
        lines.append(
            f"\n{row['policy']}, seed {row['seed']}: {row['finished']:,} of {row['submitted']:,} requests finished, "
            f"{row['rejected']:,} rejected, {row['unfinished']:,} unfinished, in {row['virtual_s']:,.0f} virtual s"
        )
        lines.append(
            f"  {row['requests_per_s']:,.2f} requests and {row['output_tokens_per_s']:,.0f} output tokens a second, "
            f"{row['preemptions']:,} preemptions, {row['recompute_tokens']:,} tokens computed again"
        )
        for measure in ("ttft_s", "tpot_s", "e2e_s", "queue_s"):
            each = row[measure]
            if not each["count"]:
                lines.append(f"  {measure:8} of no request")
                continue
            lines.append(
                f"  {measure:8} p50 {each['p50']:9.4f}  p90 {each['p90']:9.4f}  p99 {each['p99']:9.4f}  "
                f"mean {each['mean']:9.4f}  ({each['count']:,} requests; quantiles within 0.5 %)"
            )
    total = sum(row["submitted"] for row in report["arms"]) or 1
    lines.append(
        f"\n{report['cpu_s']:.1f} CPU-seconds ({1e3 * report['cpu_s'] / total:.3f} ms a request), "
        f"{report['wall_s']:.1f} s, largest process {report['largest_process_mib']:,.0f} MiB"
    )
    return lines
