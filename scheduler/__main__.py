"""Command line of the scheduler: ``python -m scheduler replay`` (no torch, no third party)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from scheduler import custom
from scheduler.presets import PRESETS
from scheduler.replay import policy_of, pool_of, replay, setting, write_lines
from scheduler.simulate import StalledError
from scheduler.workload import WorkloadError, read_workload


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scheduler", description="Batchscope's scheduler, without a model")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("replay", help="what a policy decides on a workload file, step by step")
    command.add_argument("workload", type=Path, help="JSON file with config and requests")
    command.add_argument("--policy", default="vllm-v1", help=f"preset: {', '.join(PRESETS)} (default vllm-v1)")
    command.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="policy field, repeatable")
    command.add_argument("--num-blocks", type=int, help="KV blocks of the pool (default: the file's)")
    command.add_argument("--block-size", type=int, help="tokens of a block (default: the file's)")
    command.add_argument("--max-model-len", type=int, help="tokens of prompt and output (default: the file's)")
    command.add_argument("--policies", type=Path, metavar="DIR", help="folder with policies of one's own (code)")
    command.add_argument("--out", type=Path, required=True, help="file to write, one JSON object a step")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 = done, 2 = the input is wrong, 3 = requests are left that can never run."""
    options = _parser().parse_args(argv)
    try:
        if options.policies is not None:
            _load(options.policies)
        workload = read_workload(options.workload)
        policy = policy_of(options.policy, workload.config, dict(setting(text) for text in options.set))
        flags = {name: getattr(options, name) for name in ("num_blocks", "block_size", "max_model_len")}
        count = write_lines(options.out, replay(workload, policy, pool_of(workload.config, flags)))
    except WorkloadError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except StalledError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"error: {options.out}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(f"{count} steps written to {options.out}", file=sys.stderr)
    return 0


def _load(folder: Path) -> None:
    if not folder.is_dir():
        raise WorkloadError(f"--policies is {str(folder)!r:.80}, expected a folder")
    custom.load(folder)
    for fault in custom.faults():
        print(f"warning: {fault.file}: {fault.reason}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
