"""Requests of a benchmark: a workload file with prompts, or with lengths only, and a file of expected tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler import Request, SamplingParams
from scheduler.workload import POOL_FIELDS, Workload, WorkloadError, WorkloadRequest, parse_workload

_FIRST_PLAIN_TOKEN = 3
"""Random prompts keep clear of the control tokens that most vocabularies begin with."""


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """A request and the index of the step before which it arrives."""

    arrival_step: int
    request: Request


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """config as in the file; requests by arrival."""

    config: Mapping[str, Any]
    requests: tuple[TimedRequest, ...]

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(len(timed.request.prompt_token_ids) for timed in self.requests)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and its output."""
        return max(
            len(timed.request.prompt_token_ids) + (timed.request.sampling.max_tokens or 0) for timed in self.requests
        )


def read_bench_workload(path: Path, vocab_size: int, seed: int) -> BenchWorkload:
    """Read ``{"requests": [{"id", "prompt" or "prompt_len", "output_len", "arrival_step", "priority"}]}``.

    Outputs are greedy and run to ``output_len`` whatever is sampled. Prompts that the file does not spell out are
    random tokens of the seed. Raises WorkloadError naming file and field.
    """
    data = _read_object(path)
    rows = [dict(row) for row in data["requests"]]
    prompts = [row.pop("prompt", None) for row in rows]
    for row, prompt in zip(rows, prompts, strict=True):
        if prompt is not None:
            row["prompt_len"] = len(_checked(prompt, row, path, vocab_size))
    workload = parse_workload(json.dumps({"config": data.get("config", {}), "requests": rows}), str(path))
    return _with_prompts(workload, prompts, vocab_size, seed)


def pool_sizes(path: Path) -> dict[str, Any]:
    """num_blocks, block_size and max_model_len, as far as the file's config has them, unchecked."""
    config = _read_object(path).get("config")
    return {name: config[name] for name in POOL_FIELDS if name in config} if isinstance(config, dict) else {}


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise WorkloadError(f"{path}: not JSON: {error}") from error
    rows = data.get("requests") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise WorkloadError(f"{path}: expected a JSON object with a list of requests")
    return dict(data)


def _with_prompts(workload: Workload, prompts: list[Any], vocab_size: int, seed: int) -> BenchWorkload:
    if not workload.requests:
        raise WorkloadError("requests is empty, expected at least one")
    generator = random.Random(seed)
    timed = []
    for row, given in zip(workload.requests, prompts, strict=True):
        random_tokens = random_prompt(generator, row.prompt_len, vocab_size)
        timed.append(TimedRequest(row.arrival_step, _request(row, given or random_tokens)))
    timed.sort(key=lambda one: one.arrival_step)
    return BenchWorkload(workload.config, tuple(timed))


def random_prompt(generator: random.Random, length: int, vocab_size: int) -> list[int]:
    """``length`` token ids below ``vocab_size``, each as likely, without the first few, which are control tokens."""
    low = min(_FIRST_PLAIN_TOKEN, vocab_size - 1)
    return [generator.randrange(low, vocab_size) for _ in range(length)]


def _request(row: WorkloadRequest, prompt: list[int]) -> Request:
    sampling = SamplingParams(max_tokens=row.output_len, ignore_eos=True)
    return Request(row.request_id, tuple(prompt), sampling, priority=row.priority)


def _checked(prompt: Any, row: Mapping[str, Any], path: Path, vocab_size: int) -> list[int]:
    good = isinstance(prompt, list) and all(type(token) is int and 0 <= token < vocab_size for token in prompt)
    if not good or not prompt:
        raise WorkloadError(
            f"{path}: request {row.get('id')!r:.80}: prompt must be a list of token ids below {vocab_size}"
        )
    return list(prompt)


@dataclass(frozen=True, slots=True)
class GoldenComparison:
    """identical of compared requests gave exactly the expected tokens; different: ids of the others, first ten."""

    compared: int
    identical: int
    different: tuple[str, ...]


def compare_with_golden(path: Path, outputs: Mapping[str, list[int]]) -> GoldenComparison:
    """Compare with ``{request_id: [token, ...]}``. Raises WorkloadError when the file is of another form."""
    try:
        golden = json.loads(path.read_text(encoding="utf-8"))
        different = [name for name, tokens in golden.items() if outputs.get(name) != tokens]
    except (OSError, ValueError, AttributeError) as error:
        raise WorkloadError(f"{path}: expected a JSON object of token lists: {error}") from error
    return GoldenComparison(len(golden), len(golden) - len(different), tuple(different[:10]))
