"""A trace made to fit a model and a machine: every factor and every cut is in the origin of the result."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from experiments.trace import Trace, TraceRequest
from experiments.traces.errors import TraceError
from experiments.traces.limits import MAX_SECONDS, MAX_TOKENS

_MOST_FACTOR = 1e6


@dataclass(frozen=True, slots=True)
class ScaleSpec:
    """What ``scale`` does, in this order.

    start_s, duration_s: keep requests that arrive in start_s <= t < start_s + duration_s; start_s becomes 0.
    max_requests: keep the first so many. spread_ticks: requests of one and the same time are spread evenly up to the
    next time (Mooncake's clock ticks every 3 s; the last group is spread over the gap before it).
    time_factor: arrivals times this: 2 = half the rate. prompt_factor, output_factor: lengths times this, rounded half
    up, at least 1. max_model_len: tokens of prompt and output together; what is longer is cut or dropped (too_long).
    A cut takes from the prompt, but leaves it half of max_model_len; the rest comes from the output.
    """

    start_s: float = 0.0
    duration_s: float | None = None
    max_requests: int | None = None
    spread_ticks: bool = False
    time_factor: float = 1.0
    prompt_factor: float = 1.0
    output_factor: float = 1.0
    max_model_len: int | None = None
    too_long: Literal["cut", "drop"] = "cut"


def scale(trace: Trace, spec: ScaleSpec) -> Trace:
    """The scaled trace. Raises TraceError when the spec is out of range or nothing is left."""
    _check(trace.name, spec)
    end = math.inf if spec.duration_s is None else spec.start_s + spec.duration_s
    window = [request for request in trace.requests if spec.start_s <= request.arrival_s < end][: spec.max_requests]
    times = [request.arrival_s - spec.start_s for request in window]
    if spec.spread_ticks:
        times = _spread(times)
    kept: list[TraceRequest] = []
    truncated = too_long = 0
    for request, at in zip(window, times, strict=True):
        longer = _longer(request, spec)
        fitted = _fit(longer, spec.max_model_len)
        if fitted is not longer and spec.too_long == "drop":
            too_long += 1
            continue
        truncated += fitted is not longer
        kept.append(replace(fitted, arrival_s=at * spec.time_factor))
    if not kept:
        raise TraceError(trace.name, f"no request of {len(trace.requests)} is left after scaling")
    if kept[-1].arrival_s > MAX_SECONDS:
        problem = f"puts the last arrival at {kept[-1].arrival_s:g} s, at most {MAX_SECONDS:g}"
        raise TraceError(trace.name, problem, field="time_factor")
    outside = len(trace.requests) - len(window)
    notes = _notes(spec, (("outside_window", outside), ("too_long_cut", truncated), ("too_long_dropped", too_long)))
    origin = replace(
        trace.origin,
        parameters=trace.origin.parameters + notes,
        truncated=trace.origin.truncated + truncated,
        dropped=trace.origin.dropped + outside + too_long,
    )
    return replace(trace, requests=tuple(kept), origin=origin)


def suggest(
    trace: Trace, *, max_model_len: int | None = None, share_fits: float = 1.0, tokens_per_s: float = 0.0,
    load: float = 0.7,
) -> ScaleSpec:  # fmt: skip
    """Factors for a model's context and a machine's speed.

    max_model_len: lengths get the factor at which ``share_fits`` (above 0, to 1) of the requests fit, never above 1.
    tokens_per_s: prompt and output tokens that the machine works off a second; arrivals get the factor at which the
    scaled trace offers ``load`` times as many: time of the last arrival = tokens of all requests / (load tokens_per_s).
    0 = leave the arrivals. Raises TraceError when a value is out of range or all requests arrive at once.
    """
    if not 0 < share_fits <= 1 or not 0 < load <= 100 or not 0 <= tokens_per_s <= 1e12:
        wrong = "share_fits 0..1, load 0..100, tokens_per_s 0..1e12"
        raise TraceError(trace.name, f"share_fits {share_fits}, load {load}, tokens_per_s {tokens_per_s}: {wrong}")
    spec = ScaleSpec(max_model_len=max_model_len)
    if max_model_len is not None:
        totals = np.array([request.prompt_len + request.output_len for request in trace.requests], dtype=np.int64)
        needed = float(np.quantile(totals, share_fits, method="inverted_cdf"))
        # Rounding a length half up adds at most half a token a side, so two halves are left free.
        factor = min(1.0, max(max_model_len - 1, 1) / needed)
        factor = math.floor(factor * 1e6) / 1e6 if factor < 1 else 1.0
        spec = replace(spec, prompt_factor=factor, output_factor=factor)
    if tokens_per_s:
        scaled = scale(trace, spec)
        last = scaled.requests[-1].arrival_s
        if not last:
            raise TraceError(
                trace.name, "all requests arrive at 0 s: no factor changes their rate", field="tokens_per_s"
            )
        work = sum(request.prompt_len + request.output_len for request in scaled.requests)
        spec = replace(spec, time_factor=work / (load * tokens_per_s) / last)
    return spec


def _check(name: str, spec: ScaleSpec) -> None:
    for field in ("time_factor", "prompt_factor", "output_factor"):
        value = getattr(spec, field)
        if not 0 < value <= _MOST_FACTOR:
            raise TraceError(name, f"is {value}, expected above 0, to {_MOST_FACTOR:g}", field=field)
    if not 0 <= spec.start_s <= MAX_SECONDS:
        raise TraceError(name, f"is {spec.start_s}, expected 0 to {MAX_SECONDS:g}", field="start_s")
    if spec.duration_s is not None and not 0 < spec.duration_s <= MAX_SECONDS:
        raise TraceError(name, f"is {spec.duration_s}, expected above 0, to {MAX_SECONDS:g}", field="duration_s")
    if spec.max_requests is not None and spec.max_requests < 1:
        raise TraceError(name, f"is {spec.max_requests}, expected 1 or more", field="max_requests")
    if spec.max_model_len is not None and not 2 <= spec.max_model_len <= 2 * MAX_TOKENS:
        raise TraceError(name, f"is {spec.max_model_len}, expected 2 to {2 * MAX_TOKENS}", field="max_model_len")
    if spec.too_long not in ("cut", "drop"):
        raise TraceError(name, f"is {spec.too_long!r}, expected 'cut' or 'drop'", field="too_long")


def _longer(request: TraceRequest, spec: ScaleSpec) -> TraceRequest:
    prompt = _times(request.prompt_len, spec.prompt_factor)
    output = _times(request.output_len, spec.output_factor)
    if max(prompt, output) > MAX_TOKENS:
        problem = f"gives {request.request_id} {max(prompt, output)} tokens, at most {MAX_TOKENS}"
        raise TraceError("scale", problem, field="prompt_factor" if prompt > output else "output_factor")
    # Ids of a longer prompt would have to be invented: the run's random tokens take their place.
    ids = request.prompt[:prompt] if prompt <= request.prompt_len else ()
    return replace(request, prompt_len=prompt, output_len=output, prompt=ids)


def _fit(request: TraceRequest, most: int | None) -> TraceRequest:
    if most is None or request.prompt_len + request.output_len <= most:
        return request
    prompt = min(request.prompt_len, max(most - request.output_len, most // 2))
    output = min(request.output_len, most - prompt)
    return replace(request, prompt_len=prompt, output_len=output, prompt=request.prompt[:prompt])


def _times(length: int, factor: float) -> int:
    return max(1, math.floor(length * factor + 0.5))


def _spread(times: list[float]) -> list[float]:
    ticks = sorted(set(times))
    if len(ticks) < 2:
        return times
    gaps = {tick: later - tick for tick, later in pairwise(ticks)}
    gaps[ticks[-1]] = ticks[-1] - ticks[-2]
    sizes: dict[float, int] = {}
    places = []
    for at in times:
        places.append(sizes.get(at, 0))
        sizes[at] = places[-1] + 1
    return [at + gaps[at] * place / sizes[at] for at, place in zip(times, places, strict=True)]


def _notes(spec: ScaleSpec, counts: Iterable[tuple[str, int]]) -> tuple[tuple[str, str], ...]:
    changed = [
        (f"scale.{field.name}", str(getattr(spec, field.name)))
        for field in fields(spec)
        if getattr(spec, field.name) != field.default
    ]
    return (*changed, *((f"scale.{name}", str(count)) for name, count in counts if count))
