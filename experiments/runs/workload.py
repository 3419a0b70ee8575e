"""The trace of a spec, and whether the engine of the spec can serve all of it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import msgspec

from experiments.runs.spec import GenerateTable, Spec, SpecError
from experiments.trace import Trace
from experiments.traces import (
    GeneratorSpec,
    ScaleSpec,
    TraceError,
    generate,
    in_style_of,
    parse_arrivals,
    parse_lengths,
    read_trace,
    retime,
    scale,
)


def trace_of(spec: Spec, base: Path) -> Trace:
    """Read or make the trace of a spec, and scale it. base: folder that a file's name is relative to.

    Raises SpecError naming table and field, or the file's line and field.
    """
    table = spec.trace
    try:
        if table.generate is not None:
            trace = generate(_generator(table.generate))
        else:
            trace = read_trace(
                base / Path(table.file).expanduser(), limit=table.limit, seconds_per_step=table.seconds_per_step
            )
        if table.arrivals:
            trace = retime(trace, parse_arrivals(table.arrivals, "trace.arrivals"), table.arrivals_seed)
        return scale(trace, scale_spec(spec)) if table.scale else trace
    except TraceError as error:
        raise SpecError(str(error)) from error


def _generator(table: GenerateTable) -> GeneratorSpec:
    texts = {name: getattr(table, name) for name in ("arrivals", "prompt", "output")}
    if table.style:
        if any(texts.values()):
            raise SpecError("trace.generate: style comes with arrivals and lengths of its own; leave those out")
        return in_style_of(table.style, table.num_requests, table.seed, table.rate)
    if table.rate is not None:
        raise SpecError("trace.generate.rate belongs to a style; write arrivals with a rate of their own")
    for name, text in texts.items():
        if not text:
            raise SpecError(f"trace.generate.{name} is missing; give it, or style")
    return GeneratorSpec(
        table.num_requests,
        table.seed,
        parse_arrivals(table.arrivals, "trace.generate.arrivals"),
        parse_lengths(table.prompt, "trace.generate.prompt"),
        parse_lengths(table.output, "trace.generate.output"),
    )


def scale_spec(spec: Spec) -> ScaleSpec:
    """``[trace.scale]`` of a spec. Raises SpecError naming the field."""
    known = [field.name for field in fields(ScaleSpec)]
    for name in spec.trace.scale:
        if name not in known:
            raise SpecError(f"trace.scale.{name} is not a field; known are {', '.join(known)}")
    try:
        return msgspec.convert(spec.trace.scale, ScaleSpec)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`")
        raise SpecError(f"trace.scale.{name} is {spec.trace.scale.get(name)!r:.80}: {what}") from error


def check_fits(trace: Trace, *, max_model_len: int, pool_tokens: int, vocab_size: int) -> None:
    """Every request can be served in full, so that all arms do the same work.

    Raises SpecError naming the request, its length and the limit.
    """
    if not trace.requests:
        raise SpecError("trace holds no request, expected at least one")
    # The last token of a request is sampled and never computed, so it needs no slot.
    limit = min(max_model_len, pool_tokens + 1)
    for request in trace.requests:
        total = request.prompt_len + request.output_len
        if total > limit:
            raise SpecError(
                f"trace: {request.request_id} is {request.prompt_len} prompt and {request.output_len} output tokens "
                f"long, the engine takes {limit} together (model.max_model_len, and model.num_blocks x block_size); "
                "cut lengths by [trace.scale] max_model_len, or give the engine more"
            )
        if request.prompt and max(request.prompt) >= vocab_size:
            raise SpecError(
                f"trace: the prompt of {request.request_id} has token {max(request.prompt)}, the model's vocabulary "
                f"ends at {vocab_size - 1}"
            )
