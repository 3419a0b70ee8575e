"""A worker process with the real loop, wire and scheduler, and a device that answers at once: it starts in no time.

Run as ``python fake_worker.py [--crash | --refuse | --hang-load] [--step-s S] [--error-at N] SPEC``.
"""

from __future__ import annotations

import argparse
import sys
import time

from fakes import FakeRunner, engine_info

from model_runner.errors import RunnerConfigError
from model_runner.tokenizer import ByteTokenizer
from model_runner.worker import Started, build_engine, run


class PacedRunner(FakeRunner):
    def execute(self, step):
        time.sleep(self.step_s)
        self.steps.clear()
        return super().execute(step)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--refuse", action="store_true")
    parser.add_argument("--hang-load", action="store_true")
    parser.add_argument("--step-s", type=float, default=0.002)
    parser.add_argument("--error-at", type=int, default=-1)
    parser.add_argument("spec")
    args = parser.parse_args()

    def start(spec, transport, progress):
        progress("load", 0.5, "half of it")
        if args.crash:
            print("this worker breaks at start", file=sys.stderr, flush=True)
            sys.exit(7)
        if args.refuse:
            raise RunnerConfigError("num_blocks is 0; it must be 1 or more")
        while args.hang_load:
            time.sleep(0.01)
        runner = PacedRunner(step_s=args.step_s, error_at=args.error_at, error=MemoryError("no room for this step"))
        info = engine_info(
            spec.run_id,
            spec.config.num_blocks,
            spec.config.block_size,
            spec.config.max_model_len or 512,
            spec.config.num_host_blocks,
        )
        return Started(build_engine(spec, runner, ByteTokenizer(), info, transport), lambda: None)

    return run([args.spec], start)


if __name__ == "__main__":
    sys.exit(main())
