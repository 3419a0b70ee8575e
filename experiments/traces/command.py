"""``python -m experiments trace make|read|scale``: workloads as files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from experiments.trace import Trace
from experiments.traces.arrivals import ARRIVALS
from experiments.traces.errors import TraceError
from experiments.traces.generators import (
    STYLES,
    GeneratorSpec,
    generate,
    in_style_of,
    parse_arrivals,
    parse_lengths,
    retime,
)
from experiments.traces.lengths import LENGTHS
from experiments.traces.own_format import write_trace
from experiments.traces.reading import read_trace
from experiments.traces.scaling import ScaleSpec, scale, suggest
from experiments.traces.summary import describe

HELP = "make, read or scale a workload"

LOAD: Final = 0.7
"""Share of the machine's speed that is asked for where nothing else is said."""

MAX_SPEED: Final = 1e12

NEEDS: Final = {
    "--load": "--tokens-per-s", "--too-long": "--max-model-len", "--fit": "--max-model-len", "--seed": "--arrivals",
}  # fmt: skip
"""Options of ``scale`` that change nothing without another: refused, for a factor that is left out is not seen."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three commands and their options."""
    commands = parser.add_subparsers(dest="trace_command", required=True, metavar="make|read|scale")
    _make(commands.add_parser("make", help="generate a workload from a seed: the same bytes on any machine"))
    _read(commands.add_parser("read", help="read a published trace and say what is in it"))
    _scale(commands.add_parser("scale", help="fit a trace to a model's context and a machine's speed"))


def main(options: argparse.Namespace) -> int:
    """Runs one of them; 2 = the input cannot be used, and the reason is on the error output."""
    try:
        trace = _COMMANDS[options.trace_command](options)
        if options.out is not None:
            write_trace(trace, options.out)
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{options.out}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(describe(trace))
    return 0


def _make(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num-requests", type=int, required=True, help="how many requests")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives another trace of the same kind")
    parser.add_argument("--style", choices=sorted(STYLES), help="in the style of a published trace")
    parser.add_argument("--rate", type=float, help="with --style: mean requests a second, instead of the trace's own")
    parser.add_argument("--arrivals", help=f"{_kinds(ARRIVALS)}; for example gamma:rate=2,burstiness=0.5")
    lengths = f"{_kinds(LENGTHS)}; for example lognormal:median=200,sigma=0.9,high=1024"
    parser.add_argument("--prompt", help=f"tokens of the prompts: {lengths}")
    parser.add_argument("--output", help="tokens of the outputs: as --prompt")
    parser.add_argument("--name", default="", help="name of the trace")
    _out(parser)


def _read(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="CSV, JSON Lines or JSON; its content says which format it is")
    parser.add_argument("--name", default="", help="name of the trace; the file's name where not given")
    parser.add_argument("--limit", type=int, help="read the first so many rows only")
    parser.add_argument("--model", help="tokenizer for texts (ShareGPT): smollm2, toy, or a folder with tokenizer.json")
    parser.add_argument("--seconds-per-step", type=float, help="for workloads in steps: one step is this many seconds")
    _out(parser)


def _scale(parser: argparse.ArgumentParser) -> None:
    _read(parser)
    factors = ScaleSpec()
    parser.add_argument("--start-s", type=float, default=factors.start_s, help="first second to keep")
    parser.add_argument("--duration-s", type=float, help="seconds to keep from there")
    parser.add_argument("--max-requests", type=int, help="requests to keep of those")
    parser.add_argument("--spread-ticks", action="store_true", help="spread requests of one time up to the next time")
    parser.add_argument("--time-factor", type=float, default=1.0, help="arrivals times this; 2 = half the rate")
    parser.add_argument("--prompt-factor", type=float, default=1.0, help="prompt lengths times this")
    parser.add_argument("--output-factor", type=float, default=1.0, help="output lengths times this")
    parser.add_argument("--max-model-len", type=int, help="tokens of prompt and output together that the model takes")
    parser.add_argument(
        "--too-long", choices=("cut", "drop"), help="with --max-model-len: what happens to longer requests (cut)"
    )
    parser.add_argument("--fit", type=float, metavar="SHARE", help="choose the length factors so that this share fits")
    parser.add_argument("--tokens-per-s", type=float, help="the machine's speed: chooses the time factor")
    parser.add_argument("--load", type=float, help=f"with --tokens-per-s: share of that speed to ask for ({LOAD})")
    parser.add_argument("--arrivals", help=f"arrivals anew, before all else: {_kinds(ARRIVALS)}")
    parser.add_argument("--seed", type=int, help="of --arrivals (0)")


def _out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, help="file to write the trace to (this project's JSON)")


def _kinds(kinds: tuple[type, ...]) -> str:
    return ", ".join(kind.kind for kind in kinds)  # type: ignore[attr-defined]


def _made(options: argparse.Namespace) -> Trace:
    given = {name: getattr(options, name) for name in ("arrivals", "prompt", "output")}
    if options.style is not None:
        spec = in_style_of(options.style, options.num_requests, options.seed, options.rate)
    elif missing := next((name for name, text in given.items() if text is None), ""):
        raise TraceError("trace make", "is missing; give it, or --style", field=f"--{missing}")
    else:
        spec = GeneratorSpec(
            options.num_requests,
            options.seed,
            parse_arrivals(given["arrivals"], "--arrivals"),
            parse_lengths(given["prompt"], "--prompt"),
            parse_lengths(given["output"], "--output"),
        )
    if options.style is not None and any(given.values()):
        raise TraceError(
            "trace make", "comes with arrivals and lengths; use --rate, or scale the result", field="--style"
        )
    if options.style is None and options.rate is not None:
        raise TraceError("trace make", "goes with --style; without, it is part of --arrivals", field="--rate")
    return generate(replace(spec, name=options.name or spec.name))


def _loaded(options: argparse.Namespace) -> Trace:
    count_tokens = None if options.model is None else _counter(options.model)
    return read_trace(
        options.file,
        options.name,
        limit=options.limit,
        count_tokens=count_tokens,
        seconds_per_step=options.seconds_per_step,
    )


def _scaled(options: argparse.Namespace) -> Trace:
    for name, needed in NEEDS.items():
        if _given(options, name) is not None and _given(options, needed) is None:
            raise TraceError("trace scale", f"needs {needed}: without, it changes nothing", field=name)
    trace = _loaded(options)
    if options.arrivals is not None:
        trace = retime(trace, parse_arrivals(options.arrivals, "--arrivals"), options.seed or 0)
    given = {name: getattr(options, name) for name in ScaleSpec.__dataclass_fields__}
    spec = ScaleSpec(**given | {"too_long": options.too_long or "cut"})
    # The window first: factors are chosen for the requests that stay.
    window = replace(ScaleSpec(), start_s=spec.start_s, duration_s=spec.duration_s, max_requests=spec.max_requests)
    trace = scale(trace, replace(window, spread_ticks=spec.spread_ticks))
    spec = replace(spec, start_s=0.0, duration_s=None, max_requests=None, spread_ticks=False)
    if options.fit is not None:
        chosen = suggest(trace, max_model_len=spec.max_model_len, share_fits=options.fit)
        spec = replace(spec, prompt_factor=chosen.prompt_factor, output_factor=chosen.output_factor)
    if options.tokens_per_s is not None:
        load = LOAD if options.load is None else options.load
        sized = scale(trace, replace(spec, time_factor=1.0))
        spec = replace(spec, time_factor=suggest(sized, tokens_per_s=_speed(options), load=load).time_factor)
    return scale(trace, spec)


def _given(options: argparse.Namespace, name: str) -> object:
    return getattr(options, name.removeprefix("--").replace("-", "_"))


def _speed(options: argparse.Namespace) -> float:
    speed = float(options.tokens_per_s)
    if not 0 < speed <= MAX_SPEED:
        raise TraceError("trace scale", f"is {speed:g}, expected above 0, to {MAX_SPEED:g}", field="--tokens-per-s")
    return speed


def _counter(model: str) -> Callable[[str], int]:
    from experiments.traces.model_tokens import token_counter

    return token_counter(model)


_COMMANDS: dict[str, Callable[[argparse.Namespace], Trace]] = {"make": _made, "read": _loaded, "scale": _scaled}
