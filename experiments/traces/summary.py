"""A trace in a few lines: what is in it, where it comes from, and what was cut or left out."""

from __future__ import annotations

import numpy as np

from experiments.trace import Trace


def describe(trace: Trace) -> str:
    """Plain text, for a terminal; lengths in tokens numpy's linear percentiles, CV of gaps = deviation/mean."""
    origin = trace.origin
    times = np.array([request.arrival_s for request in trace.requests])
    lines = [
        f"{trace.name}: {len(trace.requests)} requests in {times[-1]:.6g} s, sha256 {trace.sha256}",
        f"  from {origin.source}: {origin.description}",
        _lengths("prompt", [request.prompt_len for request in trace.requests]),
        _lengths("output", [request.output_len for request in trace.requests]),
    ]
    gaps = np.diff(times)
    if len(gaps) and gaps.mean() > 0:
        rate = len(gaps) / (times[-1] - times[0])
        lines.append(f"  arrivals: {rate:.4g} a second, CV of the gaps {gaps.std() / gaps.mean():.3g}")
    lines.append(f"  truncated: {origin.truncated} requests; dropped: {origin.dropped} requests")
    lines += [f"  {name}: {value}" for name, value in origin.parameters]
    if origin.file_sha256:
        lines.append(f"  file sha256: {origin.file_sha256}")
    return "\n".join(lines)


def _lengths(side: str, values: list[int]) -> str:
    lengths = np.array(values)
    p50, p90, p99 = np.percentile(lengths, (50, 90, 99))
    spread = f"min {lengths.min()}, p50 {p50:g}, p90 {p90:g}, p99 {p99:g}, max {lengths.max()}"
    return f"  {side} tokens: mean {lengths.mean():.4g}, deviation {lengths.std():.4g}, {spread}"
