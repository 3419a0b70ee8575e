"""A worker process that writes what it is told: output token k of every request is piece k, from the first again after
the last. The real loop, wire, scheduler and detokenizer are around it.

Run as ``python writing_worker.py [--step-s S] HEX... -- SPEC``: HEX are the bytes of one token each.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from model_runner.detokenizer import IncrementalDetokenizer
from model_runner.worker import Started, build_engine, run
from scheduler import StepResult
from tests.process.fakes import engine_info


class PieceTokenizer:
    """Tokens 0 .. n-1 are the pieces; those after them are bytes, of which prompts are made."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.vocab_size = len(pieces) + 256
        self.eos_token_ids = ()
        self.max_chars_per_token = 1

    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        return tuple(len(self.pieces) + byte for byte in text.encode())

    def encode_chat(self, turns) -> tuple[int, ...]:
        return self.encode("".join(f"{role}:{content}\n" for role, content in turns))

    def detokenizer(self) -> IncrementalDetokenizer:
        return IncrementalDetokenizer(lambda token_id: self.pieces[token_id])


class WritingRunner:
    def __init__(self, num_pieces: int, step_s: float) -> None:
        self.num_pieces, self.step_s = num_pieces, step_s
        self.prompts: dict[str, int] = {}

    def execute(self, step) -> StepResult:
        time.sleep(self.step_s)
        for request_id in step.finished:
            self.prompts.pop(request_id, None)
        self.prompts.update((r.request_id, len(r.prompt_token_ids)) for r in step.new_requests)
        ends = {name: step.positions_start[name] + len(step.token_ids[name]) for name in step.sampling_ids}
        return StepResult(step.step_id, {n: (end - self.prompts[n]) % self.num_pieces for n, end in ends.items()})


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("pieces", nargs="+", type=bytes.fromhex)
    split = len(sys.argv) - 2
    options = parser.parse_args(sys.argv[1:split])

    def start(spec, transport, progress) -> Started:
        sizes = (spec.config.num_blocks, spec.config.block_size, spec.config.max_model_len or 512)
        info = engine_info(spec.run_id, *sizes)
        info = type(info)(**{f: getattr(info, f) for f in info.__struct_fields__} | {"model": spec.config.model})
        runner = WritingRunner(len(options.pieces), options.step_s)
        return Started(build_engine(spec, runner, PieceTokenizer(options.pieces), info, transport), lambda: None)

    return run(sys.argv[-1:], start)


if __name__ == "__main__":
    sys.exit(main())
