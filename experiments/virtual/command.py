"""``python -m experiments whatif``: what would this policy do with a million requests on those machines?"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.record import Run, decode_run
from experiments.runs.driver import PoolShape
from experiments.traces.errors import TraceError
from experiments.traces.generators import (
    STYLES,
    GeneratorSpec,
    in_style_of,
    parse_arrivals,
    parse_lengths,
)
from experiments.traces.reading import read_trace
from experiments.virtual.cost import TERMS, CostModel, FittedCost, Gpu, ModelShape, RooflineCost
from experiments.virtual.fit import FitError, Fitted, fit
from experiments.virtual.fleet import ROUTINGS, FleetSpec, Tally
from experiments.virtual.hardware import GB, GPUS, MODELS, TFLOPS
from experiments.virtual.report import lines_of, report_of, row_of
from experiments.virtual.sweep import BACKENDS, Source, SweepError, run_in_parts, sweep
from experiments.virtual.work import StepWork, works_of_rows
from scheduler import PRESETS, SchedulerPolicy
from scheduler.replay import policy_of, setting
from scheduler.workload import WorkloadError

HELP = "the same scheduler on a virtual clock, for very many requests"

LIVE_BLOCKS: Final = 192
"""KV blocks of a replica with --prices, as the live engine has them unless it is told otherwise."""

GPU_SEQS: Final = 256
GPU_TOKENS: Final = {"sarathi": 512, "orca-max": 16_384, "vllm-v0": 16_384, "tgi-worst-case": 16_384}
"""Presets carry limits for a CPU. On a GPU max_num_seqs is 256, and max_num_batched_tokens this or 2,048 (16,384 where
a prompt is never cut), unless --set says otherwise."""

MAX_REPLICAS: Final = 10_000
"""Each has a scheduler of its own in memory."""

EXAMPLE: Final = """example:
  python -m experiments whatif --num-requests 1000000 --rate 40 --gpu H100-SXM --model Llama-3.1-8B \\
      --replicas 4 --jobs 2
"""


class InputError(ValueError):
    """An option cannot be used; the message says which and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All options."""
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _workload_options(parser.add_argument_group("requests"))
    _cost_options(parser.add_argument_group("step times"))
    fleet = parser.add_argument_group("machines and policies")
    fleet.add_argument(
        "--policy", nargs="+", default=["vllm-v1"], metavar="PRESET", help=f"any of {', '.join(PRESETS)}"
    )
    fleet.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="of every policy, repeatable")
    fleet.add_argument("--replicas", type=int, default=1, help="equal machines, each with its own scheduler")
    fleet.add_argument("--routing", choices=ROUTINGS, default="round_robin", help="which of them gets a request")
    fleet.add_argument("--block-size", type=int, default=16, help="tokens of a KV block")
    fleet.add_argument("--num-blocks", type=int, help="KV blocks of a replica (default: what fits into the GPUs)")
    fleet.add_argument("--max-model-len", type=int, default=16_384, help="tokens of prompt and output together")
    work = parser.add_argument_group("how it is computed")
    work.add_argument(
        "--jobs", type=int, default=1, help="processes that share replicas under round_robin, or arms; -1 = one a core"
    )
    work.add_argument("--backend", choices=BACKENDS, default="joblib", help="this machine, or a Ray cluster")
    work.add_argument("--ray-address", help="of the cluster (auto, ray://HOST:PORT); none = a Ray on this machine")
    work.add_argument("--out", type=Path, help="JSON file to write")


def _workload_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--trace", type=Path, help="a trace in any known format")
    group.add_argument("--style", choices=sorted(STYLES), default="azure-conv", help="else: made in this style")
    group.add_argument("--num-requests", type=int, default=10_000, help="how many are made")
    group.add_argument("--rate", type=float, help="requests a second, instead of the style's own")
    group.add_argument("--arrivals", help="instead of a style, with --prompt and --output: gamma:rate=2,burstiness=0.5")
    group.add_argument("--prompt", help="lognormal:median=200,sigma=0.9,high=1024")
    group.add_argument("--output", help="as --prompt")
    group.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED", help="one arm for each")


def _cost_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fitted", nargs="+", type=Path, metavar="RUN.json", help="fit them to measured runs")
    group.add_argument(
        "--prices", type=Path, metavar="PRICES.json", help="or take those that the page fitted to its live engine"
    )
    group.add_argument(
        "--gpu",
        default="H100-SXM",
        help=f"one of {', '.join(GPUS)}, or GB/s,TFLOPS,GB by hand (default: %(default)s)",
    )
    group.add_argument(
        "--model",
        default="Llama-3.1-8B",
        help=f"one of {', '.join(MODELS)}, or billions of parameters,layers,heads,kv heads,head dim by hand "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--num-gpus", type=int, default=1, help="for one replica together; their talk costs nothing here"
    )
    group.add_argument("--bandwidth-share", type=float, default=0.75, help="of the data sheet's that is reached")
    group.add_argument("--flops-share", type=float, default=0.5, help="of the data sheet's that is reached")
    group.add_argument("--overhead-ms", type=float, default=2.0, help="of each step besides")


def main(options: argparse.Namespace) -> int:
    """0 = done, 2 = the input cannot be used, and the reason is on the error output."""
    try:
        _check(options)
        cost_model, notes, shape = _cost_model(options)
        arms = _arms(options, cost_model, shape)
        began = time.perf_counter()
        tallies = _run(options, [(spec, source) for _, _, spec, source in arms])
        wall = time.perf_counter() - began
        rows = [row_of(name, seed, tally) for (name, seed, _, _), tally in zip(arms, tallies, strict=True)]
        report = report_of(options, arms[0][2], notes, rows, wall)
        if options.out is not None:
            options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    except (InputError, TraceError, WorkloadError, SweepError, FitError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 2
    print("\n".join(lines_of(report)))
    return 0


def _check(options: argparse.Namespace) -> None:
    """Whole numbers that nothing behind them would refuse in words."""
    ranges = {
        "--replicas": (options.replicas, 1, MAX_REPLICAS),
        "--block-size": (options.block_size, 1, 1_000_000),
        "--num-blocks": (options.num_blocks, 1, 1_000_000_000),
        "--max-model-len": (options.max_model_len, 2, 100_000_000),
    }
    for name, (value, least, most) in ranges.items():
        if value is not None and not least <= value <= most:
            raise InputError(f"{name} is {value}, expected a whole number from {least} to {most:,}")
    if options.jobs < 1 and options.jobs != -1:
        raise InputError(f"--jobs is {options.jobs}, expected at least 1, or -1 for one a core")
    if len(set(options.seeds)) < len(options.seeds):
        raise InputError(f"--seeds are {' '.join(map(str, options.seeds))}, expected each once: one seed, one workload")
    if len(set(options.policy)) < len(options.policy):
        raise InputError(f"--policy is {' '.join(options.policy)}, expected each preset once")
    if options.trace is not None and (options.rate is not None or options.arrivals or options.prompt or options.output):
        raise InputError("--trace has its own arrivals and lengths; give no --rate, --arrivals, --prompt or --output")


def _run(options: argparse.Namespace, arms: Sequence[tuple[FleetSpec, Source]]) -> list[Tally]:
    how = {"backend": options.backend, "jobs": options.jobs, "ray_address": options.ray_address}
    return [run_in_parts(*arms[0], **how)] if len(arms) == 1 else sweep(arms, **how)


def _cost_model(options: argparse.Namespace) -> tuple[CostModel, list[str], PoolShape]:
    """The model, what is to be said of it, and the pool of a replica."""
    if options.fitted:
        fitted, run = _fitted(options.fitted)
        at = run.conditions
        pool = PoolShape(options.num_blocks or at.num_blocks, at.block_size, at.max_model_len, at.num_host_blocks)
        return fitted.model, [fitted.model.describe(), fitted.held_out_error.describe()], pool
    shape = PoolShape(options.num_blocks or LIVE_BLOCKS, options.block_size, options.max_model_len)
    if options.prices:
        priced = _priced(options.prices)
        return priced, [priced.describe()], shape
    model = RooflineCost(
        _gpu(options.gpu),
        _model(options.model),
        options.num_gpus,
        options.bandwidth_share,
        options.flops_share,
        options.overhead_ms / 1e3,
    )
    blocks = options.num_blocks or model.num_blocks(options.block_size)
    return model, [model.describe()], replace(shape, num_blocks=blocks)


def _priced(path: Path) -> FittedCost:
    try:
        priced = msgspec.json.decode(path.read_bytes(), type=FittedCost)
    except msgspec.MsgspecError as error:
        raise InputError(f"--prices {path}: not prices of a step: {error}") from error
    if len(priced.coefficients) != len(TERMS) or min(priced.coefficients) < 0:
        raise InputError(
            f"--prices {path}: coefficients are {priced.coefficients}, expected {len(TERMS)} of at least 0"
        )
    return priced


def _fitted(paths: Sequence[Path]) -> tuple[Fitted, Run]:
    works: list[StepWork] = []
    seconds: list[float] = []
    runs = []
    for path in paths:
        try:
            run = decode_run(path.read_bytes())
        except msgspec.MsgspecError as error:
            raise InputError(f"--fitted {path}: not a run of this project: {error}") from error
        if run.conditions.kind != "measured":
            raise InputError(f"--fitted {path}: kind is {run.conditions.kind!r}, expected a measured run")
        runs.append(run)
        works += works_of_rows(run.steps)
        seconds += [row.end_s - row.start_s for row in run.steps]
    names = ", ".join(dict.fromkeys(f"{run.conditions.model} on {run.conditions.device}" for run in runs))
    return fit(works, seconds, names), runs[0]


def _gpu(text: str) -> Gpu:
    if text in GPUS:
        return GPUS[text]
    bandwidth, flops, memory = _numbers("--gpu", text, 3, f"one of {', '.join(GPUS)}, or GB/s,TFLOPS,GB")
    return Gpu("GPU by hand", bandwidth * GB, flops * TFLOPS, memory * GB, "entered by hand")


def _model(text: str) -> ModelShape:
    if text in MODELS:
        return MODELS[text]
    expected = f"one of {', '.join(MODELS)}, or billions of parameters,layers,heads,kv heads,head dim"
    parameters, *shape = _numbers("--model", text, 5, expected)
    layers, heads, kv_heads, head_dim = (int(each) for each in shape)
    return ModelShape("model by hand", parameters * 1e9, layers, heads, kv_heads, head_dim, "entered by hand")


def _numbers(option: str, text: str, count: int, expected: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count or not all(0 < value < float("inf") for value in values):
        raise InputError(f"{option} is {text!r:.80}, expected {expected}")
    return values


def _arms(
    options: argparse.Namespace, cost_model: CostModel, pool: PoolShape
) -> list[tuple[str, int, FleetSpec, Source]]:
    """(policy, seed, fleet, requests) of each arm."""
    settings = dict(setting(text) for text in options.set)
    found: list[tuple[str, int, FleetSpec, Source]] = []
    for name in options.policy:
        policy = _policy(name, settings, on_gpu=not (options.fitted or options.prices))
        spec = FleetSpec(policy, pool, cost_model, options.replicas, options.routing)
        for seed in options.seeds:
            found.append((name, seed, replace(spec, seed=seed), _source(options, seed)))
    return found


def _policy(name: str, settings: dict[str, Any], *, on_gpu: bool) -> SchedulerPolicy:
    gpu = {"max_num_seqs": GPU_SEQS, "max_num_batched_tokens": GPU_TOKENS.get(name, 2048)} if on_gpu else {}
    return policy_of(name, {}, gpu | settings)


def _source(options: argparse.Namespace, seed: int) -> Source:
    if options.trace is not None:
        return read_trace(options.trace)
    parts = (options.arrivals, options.prompt, options.output)
    if not any(parts):
        return in_style_of(options.style, options.num_requests, seed, options.rate)
    if not all(parts):
        raise InputError("--arrivals, --prompt and --output belong together: give all three, or a --style")
    arrivals, prompt, output = parts
    return GeneratorSpec(
        options.num_requests,
        seed,
        parse_arrivals(arrivals, "--arrivals"),
        parse_lengths(prompt, "--prompt"),
        parse_lengths(output, "--output"),
    )
