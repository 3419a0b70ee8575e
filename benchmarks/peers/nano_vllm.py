"""nano-vllm's bare scheduler, from a checkout of its repository, driven without a model.

    git clone https://github.com/GeeeekExplorer/nano-vllm

Its scheduler, block manager and sequence are imported untouched. Only ``nanovllm`` itself and ``nanovllm.config`` are
stood in for: those import torch and transformers, and the scheduler reads five fields of a configuration. Its block
manager wants the packages numpy and xxhash, as in its own requirements.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

EOS = 2
TOKEN = 5


def load(checkout: Path) -> tuple[Any, Any, Any]:
    """(Scheduler, Sequence, SamplingParams) of the checkout, new ones at each call: the block size is kept in a class.

    Raises ImportError when they are not there.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] == "nanovllm"]:
        del sys.modules[name]
    package, config = ModuleType("nanovllm"), ModuleType("nanovllm.config")
    package.__path__ = [str(checkout / "nanovllm")]
    config.Config = SimpleNamespace
    sys.modules |= {"nanovllm": package, "nanovllm.config": config}
    modules = [importlib.import_module(f"nanovllm.{name}") for name in ("engine.scheduler", "engine.sequence")]
    return modules[0].Scheduler, modules[1].Sequence, importlib.import_module("nanovllm.sampling_params").SamplingParams


def decoding(checkout: Path, num_running: int, block_size: int, max_tokens: int) -> Callable[[], None]:
    """One step (schedule and postprocess) of ``num_running`` decodes; their prompts are computed already."""
    scheduler_class, sequence_class, sampling_class = load(checkout)
    config = SimpleNamespace(
        max_num_seqs=num_running,
        max_num_batched_tokens=max(2048, num_running * 16),
        eos=EOS,
        kvcache_block_size=block_size,
        num_kvcache_blocks=num_running * (max_tokens // block_size + 2),
    )
    scheduler = scheduler_class(config)
    sequence_class.block_size = block_size

    def step() -> bool:
        sequences, is_prefill = scheduler.schedule()
        scheduler.postprocess(sequences, [TOKEN] * len(sequences), is_prefill)
        return is_prefill

    for index in range(num_running):
        scheduler.add(sequence_class([TOKEN] * (1 + index % 16), sampling_class(max_tokens=max_tokens)))
    while step():
        pass
    return step
