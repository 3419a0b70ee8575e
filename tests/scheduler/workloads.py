"""Random workloads in the form of a workload file, for comparisons with the reference rules."""

from __future__ import annotations

import random
from typing import Any


def random_workload(seed: int) -> dict[str, Any]:
    """One workload: block sizes 1 to 32, pools barely larger than one request up to roomy, every vLLM option drawn."""
    rng = random.Random(seed)
    if rng.random() < 0.2:
        return crowded_workload(rng)
    block_size = rng.choice((1, 2, 3, 4, 7, 8, 16, 32))
    longest_prompt = rng.choice((4, 16, 60, 120))
    longest_output = rng.choice((2, 12, 40, 90))
    by_priority = rng.random() < 0.4
    spread = rng.choice((0, 3, 12, 40))
    requests = []
    for index in range(rng.randint(1, 18)):
        request = {
            "id": f"r{index:02}",
            "arrival_step": rng.randint(0, spread),
            "prompt_len": rng.randint(1, longest_prompt),
            "output_len": rng.randint(1, longest_output),
        }
        if by_priority:
            request["priority"] = rng.randint(0, 3)
        requests.append(request)
    largest = max(-(-(r["prompt_len"] + r["output_len"] - 1) // block_size) for r in requests)
    longest = max(r["prompt_len"] + r["output_len"] for r in requests)
    chunked = rng.random() < 0.75
    budget = rng.choice((1, 3, 8, 16, 32, 64, 256))
    config = {
        "num_blocks": largest + rng.choice((0, 0, 1, 2, largest // 2, largest * 3)),
        "block_size": block_size,
        "max_model_len": longest + rng.choice((0, 1, 500)),
        "max_num_seqs": rng.choice((1, 2, 4, 8, 16)),
        "max_num_batched_tokens": budget if chunked else max(budget, longest),
        "enable_chunked_prefill": chunked,
        "long_prefill_token_threshold": rng.choice((0, 0, 1, 4, 10, 40)),
        "watermark": rng.choice((0.0, 0.0, 0.01, 0.05, 0.2)),
        "scheduler_reserve_full_isl": rng.random() < 0.6,
        "policy": "priority" if by_priority else "fcfs",
    }
    return {"config": config, "requests": requests}


def sharing_workload(seed: int) -> dict[str, Any]:
    """``random_workload`` with prompts that share prefixes, and prefix caching on.

    A prompt begins with a piece of one of three stems, often the whole of an earlier prompt, sometimes with no tail of
    its own, so that it is cached whole.
    """
    workload = random_workload(seed)
    rng = random.Random(f"sharing {seed}")
    workload["config"]["enable_prefix_caching"] = True
    stems = [rng.choices(range(2, 5), k=200) for _ in range(3)]
    for request in workload["requests"]:
        length = request["prompt_len"]
        common = rng.choice((length, length, rng.randint(0, length)))
        request["prompt"] = rng.choice(stems)[:common] + rng.choices(range(2, 5), k=length - common)
    return workload


def crowded_workload(rng: random.Random) -> dict[str, Any]:
    """Many requests, a budget about as large as their number, a pool for half of them: evictions hit planned rows.

    A victim that was planned already gives its tokens back to a budget on which others depend.
    """
    count = rng.randint(8, 16)
    requests = [
        {
            "id": f"r{index:02}",
            "arrival_step": rng.randint(0, 6),
            "prompt_len": rng.randint(1, 12),
            "output_len": rng.randint(5, 40),
            "priority": rng.randint(0, 5),
        }
        for index in range(count)
    ]
    block_size = rng.choice((1, 2, 3, 4))
    sizes = [-(-(r["prompt_len"] + r["output_len"] - 1) // block_size) for r in requests]
    config = {
        "num_blocks": max(max(sizes), sum(sizes) // rng.choice((2, 3))),
        "block_size": block_size,
        "max_model_len": 64,
        "max_num_seqs": 16,
        "max_num_batched_tokens": max(2, count - rng.randint(0, 5)),
        "long_prefill_token_threshold": rng.choice((0, 2)),
        "scheduler_reserve_full_isl": rng.random() < 0.5,
        "policy": rng.choice(("priority", "priority", "fcfs")),
    }
    return {"config": config, "requests": requests}


def tied_workload(seed: int) -> dict[str, Any]:
    """Requests of equal priority and arrival that are let in by their next chunk: two of them are evicted in turn,
    often many times, until a third ends and leaves room.
    """
    rng = random.Random(f"tied {seed}")
    block_size = rng.choice((1, 2, 4, 8, 16, 28))
    requests = [
        {
            "id": f"r{index:02}",
            "arrival_step": rng.choice((0, 0, 3)),
            "prompt_len": rng.randint(1, rng.choice((10, 60))),
            "output_len": rng.randint(1, rng.choice((4, 60))),
            "priority": rng.choice((0, 0, 1)),
        }
        for index in range(rng.randint(3, 9))
    ]
    config = {
        "num_blocks": max(-(-(r["prompt_len"] + r["output_len"] - 1) // block_size) for r in requests),
        "block_size": block_size,
        "max_model_len": max(r["prompt_len"] + r["output_len"] for r in requests),
        "max_num_seqs": 8,
        "max_num_batched_tokens": rng.choice((8, 32, 300)),
        "long_prefill_token_threshold": rng.choice((0, 3, block_size)),
        "scheduler_reserve_full_isl": False,
        "policy": "priority",
    }
    return {"config": config, "requests": requests}
