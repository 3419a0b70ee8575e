"""How far a run on the CPU is from the least time that its bytes and operations allow, and where the rest goes.

    python benchmarks/floor_cpu.py --model FOLDER/model --workload FOLDER/workload64.json --dtype float32

Peak and bandwidth are measured in the same run: the packed product of the model's largest matrix at 512 rows, and a
copy that fits no cache. The floor of a step is the larger of operations / peak and bytes / bandwidth; operations are
those of the products and of attention (2 a multiply-add; past the last layer's keys and values only rows that sample),
bytes are the weights once and keys and values of the context once.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model_runner.bench import run_workload, warm_up
from model_runner.bench_profile import time_by_part
from model_runner.bench_workload import read_bench_workload
from model_runner.config import RunnerConfig
from model_runner.device import DeviceChoice
from model_runner.linear import LinearFactory
from model_runner.runner import ModelRunner, open_model
from scheduler import PRESETS
from scheduler.replay import policy_of

REPEATS = 15


def fastest(call, repeats=REPEATS):
    """Seconds of CPU, the least of several calls."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def ceilings(config, dtype):
    """(operations a second, bytes a second) of one thread."""
    rows, inner, outer = 512, config.hidden_size, 2 * config.intermediate_size
    product = LinearFactory(torch.device("cpu"), dtype)(torch.randn(outer, inner).to(dtype))
    x = torch.randn(rows, inner).to(dtype)
    source = torch.empty(64 * 2**20, dtype=torch.float32)
    target = torch.empty_like(source)
    copy_s = fastest(lambda: target.copy_(source))
    return 2 * rows * inner * outer / fastest(lambda: product(x)), 2 * source.nbytes / copy_s


class Floor:
    """Sums the floor over the steps that a runner is given."""

    def __init__(self, config, dtype, peak, bandwidth):
        self._config, self._size = config, torch.empty((), dtype=dtype).element_size()
        self._peak, self._bandwidth = peak, bandwidth
        hidden = config.hidden_size
        self._layer = hidden * (2 * config.q_size + 2 * config.kv_size + 3 * config.intermediate_size)
        self._head = hidden * config.vocab_size
        self.seconds = self.operations = 0.0

    def add(self, step):
        """Take one step into the sum."""
        c = self._config
        tokens = sum(step.num_scheduled_tokens.values())
        if not tokens:
            return
        ends = {r: step.positions_start[r] + n for r, n in step.num_scheduled_tokens.items()}
        # Row i of a chunk sees start + i + 1 keys; scores and values are a multiply-add each, for every query head.
        pairs = sum(n * (ends[r] - n) + n * (n + 1) // 2 for r, n in step.num_scheduled_tokens.items())
        sampled, context = len(step.sampling_ids), sum(ends.values())
        before, keys = c.num_hidden_layers - 1, 2 * c.hidden_size * c.kv_size
        operations = 2 * (tokens * (before * self._layer + keys) + sampled * (self._layer - keys + self._head))
        operations += 4 * c.q_size * (before * pairs + sum(ends[r] for r in step.sampling_ids))
        weights = c.num_hidden_layers * self._layer + (self._head if sampled else 0)
        moved = self._size * (weights + 2 * context * c.kv_size * c.num_hidden_layers)
        self.operations += operations
        self.seconds += max(operations / self._peak, moved / self._bandwidth)


class Watched:
    """A runner whose steps are counted."""

    def __init__(self, runner, floor):
        self._runner, self._floor = runner, floor

    def __getattr__(self, name):
        return getattr(self._runner, name)

    def execute(self, step):
        """Count the step, then compute it."""
        self._floor.add(step)
        return self._runner.execute(step)


def main():
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--policy", choices=sorted(PRESETS), default="vllm-v1")
    parser.add_argument("--max-num-seqs", type=int, default=64)
    parser.add_argument("--max-num-batched-tokens", type=int, default=512)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    sizes = {"block_size": 32, "num_blocks": 512, "max_model_len": 1024}
    config = RunnerConfig(model=options.model, device="cpu", dtype=options.dtype, threads=1, **sizes)
    shape = open_model(config, DeviceChoice(torch.device("cpu"), dtype, 1), lambda *told: None).config
    with torch.inference_mode():
        peak, bandwidth = ceilings(shape, dtype)
    runner = ModelRunner.load(config)
    workload = read_bench_workload(options.workload, runner.vocab_size, 0)
    limits = {"max_num_seqs": options.max_num_seqs, "max_num_batched_tokens": options.max_num_batched_tokens}
    policy = policy_of(options.policy, workload.config, limits)
    warm_up(runner, policy, workload)
    floor = Floor(shape, dtype, peak, bandwidth)
    found = run_workload(Watched(runner, floor), policy, workload.requests)
    total = sum(found.parts.values())
    print(
        json.dumps(
            {
                "dtype": options.dtype,
                "peak_gflops": round(peak / 1e9, 1),
                "bandwidth_gb_s": round(bandwidth / 1e9, 1),
                "operations_g": round(floor.operations / 1e9, 1),
                "floor_s": round(floor.seconds, 3),
                "cpu_s": round(found.cpu_s, 3),
                "share_of_floor": round(floor.seconds / found.cpu_s, 3),
                "output_tokens_per_cpu_s": round(sum(map(len, found.outputs.values())) / found.cpu_s, 1),
                "share_of_time": {part: round(seconds / total, 4) for part, seconds in found.parts.items()},
                "share_of_step": time_by_part(lambda: run_workload(runner, policy, workload.requests)),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
