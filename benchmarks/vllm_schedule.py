"""Compare the preset ``vllm-v1`` with vLLM's own scheduler, step by step, on random workloads.

Run under a Python that has vLLM (0.32, its CPU build will do); it needs a model folder only because vLLM wants a
configuration, no weights are loaded:

    VLLM_VENV/bin/python benchmarks/vllm_schedule.py --model FOLDER --seeds 0 120

The workloads are those of the tests (tests/scheduler/workloads.py): block sizes 1 to 32, pools barely larger than one
request, thresholds, watermarks, priorities with ties, chunking on and off, both admission rules. vLLM can evict two
requests of equal priority and arrival in turn for ever; such workloads are counted apart.

--prefix-caching compares with vLLM's ``enable_prefix_caching`` on prompts that share prefixes: also block ids, and the
tokens looked up and found. Under priorities vLLM can evict a request that it has just planned, and keeps blocks in its
cache that the request never computed; workloads in which that happens are counted apart, for here they are not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.update(VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1")

import torch
from vllm import SamplingParams, __version__
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from scheduler.replay import policy_of, pool_of, replay
from scheduler.simulate import FILLER_TOKEN
from scheduler.workload import parse_workload
from tests.scheduler.workloads import random_workload, sharing_workload

CACHE_FIELDS = ("prefix_cache_queries", "prefix_cache_hits")
FIELDS = ("num_scheduled_tokens", "new", "resumed", "running", "waiting", "computed", "block_ids", "finished")
MOST_STEPS = 4_000


def make_vllm(base: Any, config: dict[str, Any]) -> VllmScheduler:
    """vLLM's scheduler with the settings of a workload; its pool has one block more, the null block."""
    limits, cache = base.scheduler_config, base.cache_config
    limits.max_num_seqs = config["max_num_seqs"]
    limits.max_num_batched_tokens = config["max_num_batched_tokens"]
    limits.max_num_scheduled_tokens = None
    limits.enable_chunked_prefill = config.get("enable_chunked_prefill", True)
    limits.long_prefill_token_threshold = config.get("long_prefill_token_threshold", 0)
    limits.watermark = config.get("watermark", 0.0)
    limits.scheduler_reserve_full_isl = config.get("scheduler_reserve_full_isl", True)
    limits.policy = config.get("policy", "fcfs")
    base.model_config.max_model_len = limits.max_model_len = config["max_model_len"]
    size = cache.block_size = config["block_size"]
    cache.enable_prefix_caching = config.get("enable_prefix_caching", False)
    blocks = cache.num_gpu_blocks = config["num_blocks"] + 1
    spec = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    pool = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    return VllmScheduler(
        base, pool, StructuredOutputManager(base), block_size=size, hash_block_size=size, log_stats=True
    )


def arrive(scheduler: VllmScheduler, workload: dict[str, Any], step: int, live: dict[str, Request]) -> None:
    """Hand over the requests of a step, in file order."""
    hasher = get_request_block_hasher(workload["config"]["block_size"], sha256)
    for row in workload["requests"]:
        if row["arrival_step"] == step:
            sampling = SamplingParams(max_tokens=row["output_len"], ignore_eos=True)
            request = Request(
                row["id"],
                row.get("prompt") or [FILLER_TOKEN] * row["prompt_len"],
                sampling,
                None,
                arrival_time=float(step),
                priority=row.get("priority", 0),
                block_hasher=hasher,
            )
            live[row["id"]] = request
            scheduler.add_request(request)


def watch_planned_victims(scheduler: VllmScheduler) -> list[str]:
    """Ids of requests that are evicted with blocks in the cache that they have not computed; filled as it runs."""
    found: list[str] = []
    evict, manager = scheduler._preempt_request, scheduler.kv_cache_manager.coordinator.single_type_managers[0]

    def watched(request: Request, *arguments: Any, **named: Any) -> None:
        if manager.num_cached_block.get(request.request_id, 0) > request.num_computed_tokens // manager.block_size:
            found.append(request.request_id)
        evict(request, *arguments, **named)

    scheduler._preempt_request = watched
    return found


def vllm_lines(base: Any, workload: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """(one line a step, "" or why they are not to be compared)."""
    scheduler = make_vllm(base, workload["config"])
    planned_victims = watch_planned_victims(scheduler)
    live: dict[str, Request] = {}
    lines: list[dict[str, Any]] = []
    left = len(workload["requests"])
    totals = dict.fromkeys(CACHE_FIELDS, 0)
    while left and len(lines) < MOST_STEPS:
        arrive(scheduler, workload, len(lines), live)
        evicted_before = {name: request.num_preemptions for name, request in live.items()}
        plan = scheduler.schedule()
        stats = scheduler.kv_cache_manager.prefix_cache_stats
        totals["prefix_cache_queries"] += stats.queries
        totals["prefix_cache_hits"] += stats.hits
        cached = plan.scheduled_cached_reqs
        ids = list(plan.num_scheduled_tokens)
        line = {
            "num_scheduled_tokens": dict(plan.num_scheduled_tokens),
            "new": [row.req_id for row in plan.scheduled_new_reqs],
            "resumed": [name for name in cached.req_ids if name in cached.resumed_req_ids],
            "preempted": sorted(n for n, request in live.items() if request.num_preemptions > evicted_before[n]),
            "running": [request.request_id for request in scheduler.running],
            "waiting": [request.request_id for request in scheduler.waiting],
            "computed": {name: request.num_computed_tokens for name, request in live.items()},
            "block_ids": {
                request.request_id: list(scheduler.kv_cache_manager.get_block_ids(request.request_id)[0])
                for request in scheduler.running
            },
        }
        line.update(totals)
        tokens = [[FILLER_TOKEN] if live[name].num_computed_tokens >= live[name].num_tokens else [] for name in ids]
        index = {name: row for row, name in enumerate(ids)}
        output = ModelRunnerOutput(req_ids=ids, req_id_to_index=index, sampled_token_ids=tokens)
        scheduler.update_from_output(plan, output)
        line["finished"] = [name for name in ids if live[name].is_finished()]
        for name in line["finished"]:
            del live[name]
        left -= len(line["finished"])
        lines.append(line)
    if left:
        return lines, "endless"
    return lines, "planned victims" if planned_victims else ""


def difference(workload: dict[str, Any], theirs: list[dict[str, Any]]) -> str:
    """The first step and the fields in which the schedules differ; "" when they are the same."""
    ours = parse_workload(json.dumps(workload))
    steps = list(replay(ours, policy_of("vllm-v1", ours.config, {}), pool_of(ours.config, {})))
    if len(steps) != len(theirs):
        return f"{len(steps)} steps, vLLM {len(theirs)}"
    for number, (mine, other) in enumerate(zip(steps, theirs, strict=True)):
        mine = json.loads(json.dumps(mine))
        fields = (*FIELDS, *CACHE_FIELDS) if ours.config.get("enable_prefix_caching") else FIELDS
        wrong = [field for field in fields if mine[field] != other[field]]
        if list(mine["num_scheduled_tokens"]) != list(other["num_scheduled_tokens"]):
            wrong.append("order")
        if sorted(mine["preempted"]) != other["preempted"]:
            wrong.append("preempted")
        if wrong:
            return f"step {number}: {', '.join(wrong)}"
    return ""


def main() -> int:
    """Print what was compared; exit status 1 when a schedule differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 120))
    parser.add_argument("--prefix-caching", action="store_true")
    arguments = parser.parse_args()
    init_none_hash(sha256)
    draw = sharing_workload if arguments.prefix_caching else random_workload
    base = EngineArgs(
        model=arguments.model,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=1024,
        enable_prefix_caching=False,
        async_scheduling=False,
    ).create_engine_config()
    steps = evictions = differing = queries = hits = 0
    apart: dict[str, list[int]] = {"endless": [], "planned victims": []}
    apart_differing = 0
    for seed in range(*arguments.seeds):
        workload = draw(seed)
        lines, why_apart = vllm_lines(base, workload)
        if why_apart:
            apart[why_apart].append(seed)
            apart_differing += why_apart != "endless" and bool(difference(workload, lines))
            continue
        steps += len(lines)
        queries, hits = queries + lines[-1]["prefix_cache_queries"], hits + lines[-1]["prefix_cache_hits"]
        evictions += sum(len(line["preempted"]) for line in lines)
        reason = difference(workload, lines)
        if reason:
            differing += 1
            print(f"seed {seed}: {reason}")
    compared = len(range(*arguments.seeds)) - sum(map(len, apart.values()))
    print(f"vLLM {__version__}: {compared} workloads, {steps} steps, {evictions} evictions, {differing} differ")
    if arguments.prefix_caching:
        print(f"prefix cache: {queries} tokens looked up, {hits} found")
    print(f"not ended by vLLM within {MOST_STEPS} steps, not compared: {apart['endless'] or 'none'}")
    planned = apart["planned victims"]
    print(f"vLLM caches what it did not compute: {planned or 'none'}, of which {apart_differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
