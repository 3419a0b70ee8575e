"""Decode tokens a second on a GPU, beside what its memory could give: python benchmarks/bench_gpu.py --out RESULT.json

Random weights in the shapes of two real models (about 0.6 and 1.7 billion parameters), bfloat16, the whole engine step:
scheduler, inputs, forward pass, sampling (greedy), update. Roofline: a decode step must read every weight once and the
keys and values of every context once; bytes over the bandwidth of a copy kernel, measured in the same run, is the least
time a step can take. Prints a table in Markdown. A first check compares the attention in use with plain torch.

Without a GPU: --device cpu --models tiny --batches 1 2 shows that it runs, and says nothing about any GPU.
"""

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from model_runner.attention import AttentionShape
from model_runner.attention_choice import PROBED_PAGE_SIZES, choose_attention, plain
from model_runner.config import RunnerConfig
from model_runner.decode_batch import CudaGraphs
from model_runner.device import apply_threads, choose_device
from model_runner.errors import RunnerConfigError
from model_runner.loader import LoadedModel
from model_runner.model_config import ModelConfig, tensor_shapes
from model_runner.runner import ModelRunner
from model_runner.tokenizer import TokenIdTokenizer
from model_runner.toy import toy_config
from scheduler import Request, SamplingParams, Scheduler, SchedulerPolicy

QWEN3_0_6B = ModelConfig(
    vocab_size=151_936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40_960,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    tie_word_embeddings=True,
    qk_norm=True,
)
MODELS = {
    "0.6B": QWEN3_0_6B,
    "1.7B": replace(QWEN3_0_6B, hidden_size=2048, intermediate_size=6144),
    "tiny": toy_config(),
}
WARM_UP_STEPS = 5
PREFILL_TOKENS = 16_384


def random_model(name, device, dtype):
    """Weights are made on the device, one at a time, and are the same in every run on it."""
    config = MODELS[name]
    shapes = dict(tensor_shapes(config))

    def weight(tensor_name):
        generator = torch.Generator(device).manual_seed(hash_of(tensor_name))
        shape = shapes[tensor_name]
        if len(shape) == 1:
            return torch.ones(shape, device=device, dtype=dtype)
        return torch.empty(shape, device=device, dtype=dtype).normal_(0, shape[1] ** -0.5, generator=generator)

    return LoadedModel(f"random {name}", "", config, TokenIdTokenizer(config.vocab_size, ()), weight)


def hash_of(text):
    return int.from_bytes(text.encode(), "big") % (2**31)


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bandwidth(device, num_bytes):
    """Bytes a second of a copy kernel, read and written bytes counted; the best of 20."""
    source = torch.empty(num_bytes // 4, dtype=torch.float32, device=device).fill_(1.0)
    target = torch.empty_like(source)
    times = []
    for _ in range(20):
        synchronize(device)
        started = time.perf_counter()
        target.copy_(source)
        synchronize(device)
        times.append(time.perf_counter() - started)
    return 2 * source.numel() * 4 / min(times)


def longest(options, count):
    """Tokens of a request: early ones already decode while the prompts of later ones are computed."""
    return options.context + options.steps + WARM_UP_STEPS + -(-count * options.context // PREFILL_TOKENS) + 2


def make_runner(name, options, block_size, count, *, attention=None):
    """A runner with room for ``count`` requests. Raises RunnerConfigError when the card is too small for that."""
    tokens = longest(options, count)
    config = RunnerConfig(
        model=f"random {name}", device=options.device, dtype="bfloat16", threads=1, block_size=block_size,
        num_blocks=count * -(-tokens // block_size), num_host_blocks=0, max_model_len=tokens,
    )  # fmt: skip
    choice = choose_device(config)
    apply_threads(choice)
    runner = ModelRunner(
        random_model(name, choice.device, choice.dtype), config, choice, lambda *_: None, attention=attention
    )
    if choice.device.type == "cuda" and not options.eager:
        runner.record_decodes(CudaGraphs())
    return runner


def best_block_size(options, device):
    """The smallest page over which FlashAttention works in place here, tried on the shapes of the first model."""
    model = MODELS[options.models[0]]
    group = model.num_attention_heads // model.num_key_value_heads
    for size in PROBED_PAGE_SIZES:
        shape = AttentionShape(2, size, model.num_key_value_heads, group, device, torch.bfloat16)
        if choose_attention(shape, model.head_dim).path == "varlen_paged":
            return size
    return 16


def requests(runner, count, options):
    generator = torch.Generator().manual_seed(0)
    sampling = SamplingParams(max_tokens=longest(options, count) - options.context, ignore_eos=True)
    for index in range(count):
        prompt = torch.randint(0, runner.vocab_size, (options.context,), generator=generator).tolist()
        yield Request(f"r{index}", tuple(prompt), sampling)


def engine(runner, count, options):
    policy = SchedulerPolicy(max_num_seqs=count, max_num_batched_tokens=PREFILL_TOKENS)
    info = runner.info
    scheduler = Scheduler(
        policy,
        num_blocks=info.num_blocks,
        block_size=info.block_size,
        max_model_len=info.max_model_len,
        num_host_blocks=0,
    )
    for request in requests(runner, count, options):
        outcome = scheduler.add(request)
        if not outcome.accepted:
            sys.exit(f"a request does not fit: {outcome.reason}")
    return scheduler


def decode_times(runner, count, options):
    """(seconds, forward seconds, tokens of context) of each step in which all requests decode, warm-up left out."""
    scheduler = engine(runner, count, options)
    found = []
    while scheduler.has_work:
        started = time.perf_counter()
        step = scheduler.schedule()
        result = runner.execute(step)
        scheduler.update(result)
        elapsed = time.perf_counter() - started
        if list(step.num_scheduled_tokens.values()) == [1] * count and set(step.kinds.values()) == {"decode"}:
            context = sum(step.positions_start[name] + 1 for name in step.num_scheduled_tokens)
            found.append((elapsed, result.timings.execute_s, context))
    return found[WARM_UP_STEPS:]


def check(name, options, block_size):
    """Largest difference of the logits of a decode between the attention in use and plain torch, over their spread."""
    logits = {}
    for label, attention in (("in use", None), ("plain", plain("for comparison"))):
        runner = make_runner(name, options, block_size, 3, attention=attention)
        kept = []
        sample = runner._sampler.sample

        def keep(ids, values, sample=sample, kept=kept):
            kept.append(values.clone().cpu())
            return sample(ids, values)

        runner._sampler.sample = keep
        scheduler = engine(runner, 3, options)
        while not any(step.shape[0] == 3 for step in kept):
            scheduler.update(runner.execute(scheduler.schedule()))
        logits[label] = kept[-1]
        runner.close()
    return float((logits["in use"] - logits["plain"]).abs().max() / logits["plain"].std())


def measure(name, options, block_size, bytes_per_s):
    rows, info = [], None
    for count in options.batches:
        try:
            runner = make_runner(name, options, block_size, count)
        except (RunnerConfigError, torch.OutOfMemoryError) as error:
            print(f"{name}, batch {count}: left out: {error}", file=sys.stderr)
            continue
        info = runner.info
        times = decode_times(runner, count, options)
        if not times:
            sys.exit(f"{name}: no step in which all {count} requests decode; raise --steps")
        step_s = statistics.median(seconds for seconds, _, _ in times)
        context = statistics.median(tokens for _, _, tokens in times)
        read = bytes_read(info, MODELS[name], context)
        rows.append(
            {
                "model": name, "batch": count, "context_tokens": context, "steps": len(times), "step_ms": step_s * 1e3,
                "forward_ms": statistics.median(forward for _, forward, _ in times) * 1e3,
                "tokens_per_s": count / step_s, "floor_ms": read / bytes_per_s * 1e3,
                "share_of_roofline": read / bytes_per_s / step_s,
            }
        )  # fmt: skip
        print(json.dumps(rows[-1]), file=sys.stderr)
        runner.close()
        del runner  # or its weights are there beside those of the next
    return {"runner": asdict(info) if info else {}, "rows": rows}


def bytes_read(info, config, context):
    """What one decode step must read: all weights but the embedding of tokens (a tied head is read), and the cache."""
    copies = 0 if config.tie_word_embeddings and info.device != "cpu" else 1
    embedding = 2 * config.vocab_size * config.hidden_size
    return info.weight_bytes - copies * embedding + context * info.kv_bytes_per_token


def table(results):
    lines = [
        "| model | batch | tokens a second | ms a step | of it forward | floor from bytes | share of the roofline |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in (row for result in results for row in result["rows"]):
        lines.append(
            f"| {row['model']} | {row['batch']} | {row['tokens_per_s']:,.0f} | {row['step_ms']:.3f} "
            f"| {row['forward_ms']:.3f} | {row['floor_ms']:.3f} | {row['share_of_roofline']:.0%} |"
        )
    return "\n".join(lines)


def machine(device):
    facts = {"torch": torch.__version__, "device": str(device), "load": os.getloadavg()}
    if device.type == "cuda":
        facts |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    return facts


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["0.6B", "1.7B"], choices=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 64, 256])
    parser.add_argument("--context", type=int, default=512, help="prompt tokens of each request (default 512)")
    parser.add_argument("--steps", type=int, default=64, help="measured decode steps (default 64)")
    parser.add_argument("--block-size", type=int, default=0, help="tokens of a KV block (default: the best that works)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu to see that it runs")
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    parser.add_argument("--copy-mib", type=int, default=1024, help="size of the copy that measures the bandwidth")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    device = choose_device(RunnerConfig(device=options.device, dtype="bfloat16")).device
    bytes_per_s = bandwidth(device, options.copy_mib * 2**20)
    block_size = options.block_size or best_block_size(options, device)
    report = {
        "machine": machine(device),
        "copy_bandwidth_gb_per_s": bytes_per_s / 1e9,
        "logit_difference_over_spread": check(options.models[0], options, block_size),
        "results": [measure(name, options, block_size, bytes_per_s) for name in options.models],
    }
    options.out.write_text(json.dumps(report, indent=1))
    info = report["results"][0]["runner"] or sys.exit("no batch size fits")
    print(f"copy: {bytes_per_s / 1e9:,.0f} GB/s; attention: {info['attention']} ({info['attention_note']}); ", end="")
    print(f"CUDA graphs: {'yes' if info['decode_batches'] else 'no'}; blocks of {block_size} tokens; ", end="")
    print(
        f"largest difference of logits from plain torch: {report['logit_difference_over_spread']:.3f} of their spread\n"
    )
    print(table(report["results"]))


if __name__ == "__main__":
    main()
