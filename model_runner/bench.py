"""``python -m model_runner bench``: a measured run of a workload through scheduler and runner, without a page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from model_runner.bench_profile import time_by_part
from model_runner.bench_result import DEFAULT_PERCENTILES, RequestTimes, detailed, serve_result
from model_runner.bench_summary import PARTS, Measurement, machine_facts, summary
from model_runner.bench_workload import (
    BenchWorkload,
    TimedRequest,
    compare_with_golden,
    pool_sizes,
    read_bench_workload,
)
from model_runner.config import RunnerConfig
from model_runner.errors import RunnerError
from model_runner.runner import ModelRunner
from model_runner.timings_line import timings_line
from scheduler import Scheduler, SchedulerPolicy, custom
from scheduler.replay import policy_of, setting
from scheduler.workload import POOL_FIELDS, WorkloadError

DEFAULT_BLOCK_SIZE = 32
DEFAULT_NUM_BLOCKS = 1024
WARM_UP_PROMPT = 16
WARM_UP_TOKENS = 4


def run_workload(runner: ModelRunner, policy: SchedulerPolicy, requests: Sequence[TimedRequest]) -> Measurement:
    """Drive requests to their end, as fast as it goes. ``arrival_step`` counts the steps of this run from 0."""
    info = runner.info
    scheduler = Scheduler(
        policy,
        num_blocks=info.num_blocks,
        block_size=info.block_size,
        max_model_len=info.max_model_len,
        vocab_size=runner.vocab_size,
        num_host_blocks=info.num_host_blocks,
    )
    found = Measurement()
    coming = list(reversed(requests))
    index = 0
    found.began, cpu = time.perf_counter(), time.process_time()
    while coming or scheduler.has_work:
        while coming and coming[-1].arrival_step <= index:
            request = coming.pop().request
            outcome = scheduler.add(request)
            if outcome.accepted:
                arrived = time.perf_counter() - found.began
                found.times[request.request_id] = RequestTimes(len(request.prompt_token_ids), arrived)
            else:
                found.rejected[request.request_id] = outcome.reason
        _one_step(runner, scheduler, found)
        index += 1
    found.totals = scheduler.totals
    found.wall_s, found.cpu_s = time.perf_counter() - found.began, time.process_time() - cpu
    return found


def _one_step(runner: ModelRunner, scheduler: Scheduler, found: Measurement) -> None:
    cpu, started = time.process_time(), time.perf_counter()
    step = scheduler.schedule()
    scheduled = time.perf_counter()
    result = runner.execute(step)
    executed = time.perf_counter()
    snapshot = scheduler.update(result)
    ended = time.perf_counter()
    if not step.is_empty:
        found.steps.append((ended - started, time.process_time() - cpu))
    timings = result.timings
    swap_s = timings.swap_out_s + timings.swap_in_s
    times = (scheduled - started, timings.build_s, timings.execute_s, timings.sample_s, swap_s, ended - executed)
    for part, seconds in zip(PARTS, times, strict=True):
        found.parts[part] += seconds
    for request_id, token in result.sampled.items():
        found.outputs.setdefault(request_id, []).append(token)
        found.times[request_id].tokens.append(ended - found.began)
    found.swap_out_s += timings.swap_out_s
    found.swap_in_s += timings.swap_in_s
    found.resumes.extend(snapshot.resumes)
    found.preemptions.update(str(e.numbers["mode"]) for e in snapshot.events if e.kind == "preempted")


def warm_up(runner: ModelRunner, policy: SchedulerPolicy, workload: BenchWorkload) -> None:
    """A few tokens of as many requests at once under the same policy, so that no measured step pays for a first."""
    requests = []
    for timed in workload.requests[: policy.max_num_seqs]:
        sampling = replace(timed.request.sampling, max_tokens=WARM_UP_TOKENS)
        name, prompt = f"warm-up-{timed.request.request_id}", timed.request.prompt_token_ids[:WARM_UP_PROMPT]
        requests.append(
            TimedRequest(0, replace(timed.request, request_id=name, prompt_token_ids=prompt, sampling=sampling))
        )
    run_workload(runner, policy, requests)


def main(argv: Sequence[str] | None = None) -> int:
    """0 = measured, 1 = measured but the tokens are not the golden ones, 2 = the input is wrong."""
    options = _parser().parse_args(argv)
    custom.load_from_environment()
    for path in filter(None, (options.out, options.tokens_out)):
        if not path.parent.is_dir():  # before the measurement, not after it
            print(f"error: {path}: the folder {path.parent} does not exist", file=sys.stderr)
            return 2
    try:
        report, found = _measure(options)
    except (RunnerError, WorkloadError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    golden = report.get("golden")
    try:
        if options.tokens_out:
            options.tokens_out.write_text(json.dumps(found.outputs), encoding="utf-8")
        options.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(
        f"{report['output_tokens_per_cpu_s']} output tokens per CPU-second, "
        f"{report['output_tokens_per_s']} per second, "
        f"{report['steps']} steps, median {report['step_cpu_ms']['median']} CPU ms"
        + (f", {golden['identical']} of {golden['compared']} requests as expected" if golden else "")
    )
    return 1 if golden and golden["different"] else 0


def _measure(options: argparse.Namespace) -> tuple[dict[str, Any], Measurement]:
    sizes = {"block_size": DEFAULT_BLOCK_SIZE, "num_blocks": DEFAULT_NUM_BLOCKS, **pool_sizes(options.workload)}
    for name in POOL_FIELDS:
        if getattr(options, name) is not None:
            sizes[name] = getattr(options, name)
    config = RunnerConfig(
        model=options.model,
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
        seed=options.seed,
        num_host_blocks=options.num_host_blocks,
        **sizes,
    )
    started = time.perf_counter()
    runner = ModelRunner.load(config)
    load_s = time.perf_counter() - started
    if runner.info.start_timings:
        print(timings_line(runner.info.threads, runner.info.start_timings))
    workload = read_bench_workload(options.workload, runner.vocab_size, options.seed)
    settings = dict(setting(text) for text in options.set)
    policy = policy_of(options.policy, workload.config, settings)
    try:
        warm_up(runner, policy, workload)
    except ValueError as error:
        raise WorkloadError(str(error)) from error
    found = run_workload(runner, policy, workload.requests)
    result = serve_result(
        found.times,
        model=runner.info.model,
        label=options.policy,
        rejected=found.rejected,
        duration_s=found.wall_s,
        all_at_once=all(timed.arrival_step == 0 for timed in workload.requests),
        percentiles=options.metric_percentiles,
    )
    report = {
        **result,
        **(detailed(found.times, found.rejected) if options.save_detailed else {}),
        "machine": machine_facts(),
        "runner": asdict(runner.info),
        "policy": {"preset": options.policy, **asdict(policy)},
        "workload": options.workload.name,
        "load_s": round(load_s, 3),
        **summary(workload, found, runner.info.block_size * runner.info.kv_bytes_per_token),
    }
    if options.golden:
        report["golden"] = asdict(compare_with_golden(options.golden, found.outputs))
    if options.profile:
        report["share_of_step"] = time_by_part(lambda: run_workload(runner, policy, workload.requests))
    runner.close()
    return report, found


def _percentiles(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 <= value <= 100 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r}: numbers from 0 to 100, separated by commas, are needed")
    return values


def _parser() -> argparse.ArgumentParser:
    defaults = RunnerConfig()
    parser = argparse.ArgumentParser(prog="python -m model_runner bench", description=__doc__)
    parser.add_argument("--model", default=defaults.model, help="smollm2, toy or a folder in Hugging Face form")
    parser.add_argument("--workload", type=Path, required=True, help="JSON file with requests")
    parser.add_argument("--policy", default="vllm-v1", help="preset (default vllm-v1)")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="policy field, repeatable")
    parser.add_argument("--device", default=defaults.device, help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--dtype", default=defaults.dtype, help="auto, float32 or bfloat16")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="torch threads (default 1; 0 = measured, at most all cores but one)",
    )
    parser.add_argument("--block-size", type=int, help="tokens of a KV block (default: the file's, or 32)")
    parser.add_argument("--num-blocks", type=int, help="KV blocks (default: the file's, or 1024)")
    parser.add_argument(
        "--num-host-blocks",
        type=int,
        default=defaults.num_host_blocks,
        help=f"KV blocks in host memory for swapped requests (default {defaults.num_host_blocks}; 0 = no swap)",
    )
    parser.add_argument("--max-model-len", type=int, help="tokens of prompt and output (default: the file's, or all)")
    parser.add_argument("--seed", type=int, default=0, help="of the toy model and of random prompts")
    parser.add_argument("--golden", type=Path, help="JSON file with the expected tokens by request")
    parser.add_argument("--tokens-out", type=Path, help="write the tokens of each request here")
    parser.add_argument("--save-detailed", action="store_true", help="also the times of every request and token")
    parser.add_argument(
        "--metric-percentiles", type=_percentiles, default=DEFAULT_PERCENTILES, metavar="P,P", help="default 99"
    )
    parser.add_argument("--profile", action="store_true", help="run once more under the profiler for shares by part")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    return parser
