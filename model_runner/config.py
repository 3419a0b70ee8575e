"""What a runner is started with. Changing any of it needs a restart; the policy does not."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MODEL = "smollm2"
TOY_MODEL = "toy"
KNOWN_MODELS = (DEFAULT_MODEL, TOY_MODEL)
"""Models with a name; any other is a folder."""


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """Start-up choices of one worker.

    model: "smollm2" (the default package), "toy" (random weights) or a folder in Hugging Face form.
    device: "auto", "cpu", "cuda" or "cuda:N". dtype: "auto", "float32" or "bfloat16".
        "auto" is decided at the start, on a CPU by a short measurement (``start_measurement``).
    threads: torch threads, >= 0; 0 = chosen at the start by the same measurement, at most all cores but one, so that
        the page keeps one.
    block_size: token slots of one KV block, >= 1. num_blocks: blocks in the pool, >= 1 (block 0, the scratch block, is
        beside them). num_host_blocks: blocks in host memory for swapped requests, >= 0; 0 = nothing can be swapped.
        max_model_len: tokens of prompt and output together, >= 2; None = what the model and the pool
        allow.
    seed: of the toy model's weights and of requests that bring no seed.
    """

    model: str = DEFAULT_MODEL
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    block_size: int = 16
    num_blocks: int = 192
    num_host_blocks: int = 64
    max_model_len: int | None = None
    seed: int = 0
