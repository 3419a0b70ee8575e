"""SmolLM2-135M-Instruct here and in llama.cpp, 1 and 8 requests at once, in CPU-seconds of one thread.

    python benchmarks/compare_llama_cpp.py --llama-python VENV/bin/python --repeats 3 --out RESULT.json

Same prompts (random token ids of a fixed seed), same number of greedy tokens, engines in turns. Other arithmetic:
llama.cpp reads the file's 4-bit weights as they are, here they are bfloat16, so a token costs three times the bytes.
Tokens differ for that reason and are not compared.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from model_runner.model_cache import SMOLLM2, find_file  # noqa: E402

VOCAB = 49_152
SEED = 7


def workload(requests, prompt_len, output_len):
    rng = random.Random(SEED)
    prompts = [[rng.randrange(20, VOCAB) for _ in range(prompt_len)] for _ in range(requests)]
    return [{"id": f"r{i}", "prompt": prompt, "output_len": output_len} for i, prompt in enumerate(prompts)]


def run(command, threads):
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parent, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def ours(file, options, folder):
    out = folder / "ours.json"
    command = [sys.executable, "-m", "model_runner", "bench", "--model", "smollm2", "--workload", str(file)]
    command += ["--policy", "vllm-v1", "--dtype", options.dtype, "--threads", str(options.threads)]
    run([*command, "--block-size", "32", "--num-blocks", "256", "--out", str(out)], options.threads)
    found = json.loads(out.read_text())
    keep = ("output_tokens", "cpu_s", "output_tokens_per_cpu_s", "steps", "peak_rss_mib")
    engine = {"engine": f"Batchscope {options.dtype}", "version": f"torch {found['machine']['torch']}"}
    return engine | {name: found[name] for name in keep} | {"step_cpu_ms_median": found["step_cpu_ms"]["median"]}


def theirs(file, options, folder):
    command = [options.llama_python, str(HERE / "peers" / "llama_cpp_greedy.py"), "--model", str(find_file(SMOLLM2))]
    command += ["--workload", str(file), "--threads", str(options.threads)]
    return json.loads(run(command, options.threads).strip().splitlines()[-1])


def table(runs):
    lines = [
        "| requests | engine | output tokens per CPU-second: median (range) | CPU ms a decode step | MiB resident |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key in dict.fromkeys((one["requests"], one["engine"]) for one in runs):
        own = [one for one in runs if (one["requests"], one["engine"]) == key]
        rates = [one["output_tokens_per_cpu_s"] for one in own]
        step = statistics.median(one["step_cpu_ms_median"] for one in own)
        lines.append(
            f"| {key[0]} | {key[1]} ({own[0]['version']}) | {statistics.median(rates):.1f} ({min(rates):.1f} to "
            f"{max(rates):.1f}) | {step:.1f} | {own[0]['peak_rss_mib']:.0f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-python", required=True, help="Python of an environment with llama-cpp-python")
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--prompt-len", type=int, default=150)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in range(options.repeats):
            for count in options.requests:
                file = folder / f"{count}.json"
                file.write_text(json.dumps({"requests": workload(count, options.prompt_len, options.output_len)}))
                for engine in (ours, theirs):
                    one = engine(file, options, folder)
                    runs.append(one | {"requests": count, "turn": turn, "load": os.getloadavg()})
                    print(json.dumps(runs[-1]), file=sys.stderr)
    options.out.write_text(json.dumps(runs, indent=1))
    print(table(runs))


if __name__ == "__main__":
    main()
