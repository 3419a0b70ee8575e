"""Made workloads: the same spec and seed give the same bytes on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from experiments.trace import MAX_REQUESTS, Trace, TraceOrigin, TraceRequest
from experiments.traces.arrivals import ARRIVALS, Arrivals, Drift, Gamma, OnOff, Steady
from experiments.traces.errors import TraceError
from experiments.traces.lengths import LENGTHS, Lengths, Quantiles
from experiments.traces.limits import MAX_SECONDS
from experiments.traces.portable import Stream
from experiments.traces.textform import checked, parse

_ARRIVALS_LANE, _PROMPT_LANE, _OUTPUT_LANE, _RETIME_LANE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """num_requests: 1 .. MAX_REQUESTS. seed: 0 .. 2^64 - 1. The three draw from streams of their own: another choice
    for one of them leaves the numbers of the others as they are. notes: go into the origin of the trace.
    """

    num_requests: int
    seed: int
    arrivals: Arrivals
    prompt: Lengths
    output: Lengths
    name: str = "generated"
    notes: tuple[tuple[str, str], ...] = ()


def generate(spec: GeneratorSpec) -> Trace:
    """The trace of a spec; ids r0, r1, ... in order of arrival. Raises TraceError naming the field."""
    requests = tuple(stream(spec))
    parameters = (
        ("num_requests", str(spec.num_requests)),
        ("seed", str(spec.seed)),
        ("arrivals", str(spec.arrivals)),
        ("prompt", str(spec.prompt)),
        ("output", str(spec.output)),
        *spec.arrivals.notes(),
        *_fitted(spec),
        *spec.notes,
    )
    return Trace(spec.name, requests, TraceOrigin("generated", "made from a seed", parameters=parameters))


def stream(spec: GeneratorSpec) -> Iterator[TraceRequest]:
    """The requests of ``generate`` one by one, for those who do not keep them. Raises TraceError naming the field."""
    if not 1 <= spec.num_requests <= MAX_REQUESTS:
        raise TraceError(spec.name, f"is {spec.num_requests}, expected 1 to {MAX_REQUESTS}", field="num_requests")
    _check_seed(spec.name, spec.seed)
    for part in (spec.arrivals, spec.prompt, spec.output):
        checked(part, spec.name)
    times = _times(spec.arrivals, spec.num_requests, spec.seed, _ARRIVALS_LANE, spec.name)
    prompts, outputs = Stream(spec.seed, _PROMPT_LANE), Stream(spec.seed, _OUTPUT_LANE)
    return (
        TraceRequest(f"r{index}", at, spec.prompt.draw(prompts), spec.output.draw(outputs))
        for index, at in enumerate(times)
    )


def retime(trace: Trace, arrivals: Arrivals, seed: int) -> Trace:
    """The same requests in the same order, arriving anew: for traces that tell lengths only."""
    checked(arrivals, trace.name)
    _check_seed(trace.name, seed)
    times = _times(arrivals, len(trace.requests), seed, _RETIME_LANE, trace.name)
    requests = tuple(replace(request, arrival_s=at) for request, at in zip(trace.requests, times, strict=True))
    notes = (("retimed", str(arrivals)), ("retimed_seed", str(seed)), *arrivals.notes())
    origin = replace(trace.origin, parameters=trace.origin.parameters + notes)
    return replace(trace, requests=requests, origin=origin)


def parse_arrivals(text: str, source: str = "arrivals") -> Arrivals:
    """From "gamma:rate=2,burstiness=0.5" and the like. Raises TraceError."""
    return parse(text, ARRIVALS, source)


def parse_lengths(text: str, source: str = "lengths") -> Lengths:
    """From "lognormal:median=200,sigma=0.9" and the like. Raises TraceError."""
    return parse(text, LENGTHS, source)


def in_style_of(style: str, num_requests: int, seed: int, rate: float | None = None) -> GeneratorSpec:
    """A spec of STYLES. rate: mean requests a second, None = the trace's own; all its times are stretched alike.

    Raises TraceError when there is no such style.
    """
    if style not in STYLES:
        raise TraceError("style", f"is {style!r}, expected one of {', '.join(STYLES)}")
    spec = replace(STYLES[style], num_requests=num_requests, seed=seed)
    if rate is None:
        return spec
    factor = rate / RATES[style]
    notes = (*spec.notes, ("rate", f"{rate:g} a second instead of {RATES[style]:g}"))
    if isinstance(spec.arrivals, OnOff):
        on = spec.arrivals
        slower = OnOff(on.rate * factor, on.burst, on.silence_s / factor, on.least_s / factor)
        return replace(spec, arrivals=slower, notes=notes)
    if isinstance(spec.arrivals, Drift):
        return replace(spec, arrivals=replace(spec.arrivals, rate=rate), notes=notes)
    raise AssertionError(f"style {style} has arrivals that are not stretched here")


RATES: Final[Mapping[str, float]] = MappingProxyType({"azure-conv": 5.53, "azure-code": 2.57})
"""Mean requests a second of the whole traces."""

STYLES: Final[Mapping[str, GeneratorSpec]] = MappingProxyType(
    {
        "azure-conv": GeneratorSpec(
            1,
            0,
            Drift(rate=5.53, burstiness=0.87, low=3.2, high=8.5),
            Quantiles("azure2023_conv.prompt"),
            Quantiles("azure2023_conv.output"),
            "azure-conv-style",
            (
                ("style", "in the style of the Azure 2023 conversation trace (19,366 requests); not the trace itself"),
                (
                    "fitted_arrivals",
                    "gamma of shape 0.87; rate 5.53 a second, drifting from 3.2 to 8.5; CV of the gaps "
                    "1.09 in the trace, about 1.15 here",
                ),
                ("independent", "prompt and output lengths are drawn apart; in the trace they may hang together"),
            ),
        ),
        "azure-code": GeneratorSpec(
            1,
            0,
            OnOff(rate=8.3, burst=192, silence_s=52.6, least_s=10.0),
            Quantiles("azure2023_code.prompt"),
            Quantiles("azure2023_code.output"),
            "azure-code-style",
            (
                ("style", "in the style of the Azure 2023 code trace (8,819 requests); not the trace itself"),
                (
                    "fitted_arrivals",
                    "bursts of about 192 at 8.3 a second; 45 silences over 10 s make 69 % of the hour, 52.6 s each; "
                    "2.57 a second in all; CV of the gaps 13.15 in the trace, 10 to 13 here at that length",
                ),
                ("independent", "prompt and output lengths are drawn apart; in the trace they may hang together"),
            ),
        ),
    }
)
"""Name -> spec to fill in with ``in_style_of``."""


def _fitted(spec: GeneratorSpec) -> list[tuple[str, str]]:
    sides = (("fitted_prompt", spec.prompt), ("fitted_output", spec.output))
    return [(name, side.fitted()) for name, side in sides if isinstance(side, Quantiles)]


def _times(arrivals: Arrivals, count: int, seed: int, lane: int, name: str) -> list[float]:
    times = [round(at, 6) for at in arrivals.times(count, Stream(seed, lane))]
    if times[-1] > MAX_SECONDS:
        raise TraceError(name, f"{arrivals} ends after {times[-1]:g} s, at most {MAX_SECONDS:g}", field="arrivals")
    return times


def _check_seed(name: str, seed: int) -> None:
    if not 0 <= seed < 2**64:
        raise TraceError(name, f"is {seed}, expected 0 to 2^64 - 1", field="seed")


def arrival_of(trace: Trace) -> tuple[float | None, float]:
    """(rate, burstiness) in vLLM's words where a trace was made with such arrivals, else (None, 1.0)."""
    known = dict(trace.origin.parameters)
    text = known.get("retimed", known.get("arrivals", ""))
    try:
        found = parse_arrivals(text)
    except TraceError:
        return None, 1.0
    if isinstance(found, Gamma):
        return found.rate, found.burstiness
    return (found.rate, float("inf")) if isinstance(found, Steady) else (None, 1.0)
