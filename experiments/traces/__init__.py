"""Workloads: published traces as they are, generators from a seed, and both scaled to a model and a machine."""

from experiments.traces.errors import TraceError
from experiments.traces.generators import (
    STYLES,
    GeneratorSpec,
    arrival_of,
    generate,
    in_style_of,
    parse_arrivals,
    parse_lengths,
    retime,
)
from experiments.traces.own_format import trace_bytes, write_trace
from experiments.traces.reading import read_trace
from experiments.traces.scaling import ScaleSpec, scale, suggest
from experiments.traces.summary import describe

__all__ = [
    "STYLES",
    "GeneratorSpec",
    "ScaleSpec",
    "TraceError",
    "arrival_of",
    "describe",
    "generate",
    "in_style_of",
    "parse_arrivals",
    "parse_lengths",
    "read_trace",
    "retime",
    "scale",
    "suggest",
    "trace_bytes",
    "write_trace",
]
