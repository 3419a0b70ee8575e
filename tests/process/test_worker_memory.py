"""A worker needs its weights once, its KV pool, and at most 400 MB (of 2^20 bytes) for everything else together."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
import torch
from helpers import QUIET, ended, length, wait_until
from safetensors.torch import save_file

from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.messages import EngineInfo
from model_runner.model_config import tensor_shapes
from model_runner.toy import toy_config

pytestmark = pytest.mark.process

REST_BYTES = 400 * 2**20
ITEM_SIZE = {"float32": 4, "bfloat16": 2}


def wanted_bytes(info: EngineInfo) -> int:
    """From the model's shape, not from what the runner says it took: a tied head is needed once."""
    weights = info.num_parameters * ITEM_SIZE[info.dtype]
    return weights + (info.num_blocks + 1) * info.block_size * info.kv_bytes_per_token


def resident_after_work(config: RunnerConfig) -> tuple[int, EngineInfo]:
    with RunnerClient(config, traffic=QUIET) as client:
        wait_until(lambda: client.state.phase in ("idle", "failed"), 120, "live")
        assert client.state.phase == "idle", client.state
        prompts = [tuple(40 + (i * j) % 80 for j in range(20 + 16 * i)) for i in range(1, 9)]
        ended(client, [client.submit(prompt, length(12 + i)).request_id for i, prompt in enumerate(prompts)], 120)
        info = client.latest.info
        return psutil.Process(info.pid).memory_info().rss, info


def tied_folder(folder: Path) -> Path:
    """A model of 100 MB, so that a second copy of its head (98 MB) or of its file breaks the bound."""
    config = replace(toy_config(), vocab_size=32_000, hidden_size=768, tie_word_embeddings=True)
    fields = {name: value for name, value in asdict(config).items() if value is not None}
    more = {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "eos_token_id": list(config.eos_token_ids)}
    (folder / "config.json").write_text(json.dumps(fields | more))
    weights = {name: torch.full(shape, 0.01) for name, shape in tensor_shapes(config)}
    save_file(weights, str(folder / "model.safetensors"))
    return folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
@pytest.mark.parametrize("model", ["toy", "folder", pytest.param("smollm2", marks=pytest.mark.model)])
def test_resident_memory_is_weights_and_pool_and_400_mb(model: str, dtype: str, tmp_path: Path) -> None:
    name = str(tied_folder(tmp_path)) if model == "folder" else model
    resident, info = resident_after_work(
        RunnerConfig(model=name, device="cpu", dtype=dtype, threads=int(dtype != "auto"))
    )
    rest = resident - wanted_bytes(info)
    print(f"{model} {dtype}: {resident / 2**20:.0f} MB resident, {rest / 2**20:.0f} beside weights and KV pool")
    assert rest <= REST_BYTES
