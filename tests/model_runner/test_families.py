"""Every supported family: folders that transformers wrote give the logits that transformers computes from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

from model_runner.folder_config import read_config
from model_runner.loader import load_folder
from model_runner.runner import ModelRunner
from scheduler import SchedulerPolicy
from tests.model_runner.driving import alone, drive, mixed_requests, toy_runner
from tests.model_runner.test_logits import Engine, assert_logits_equal, quiet

SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "llama-every-head-its-own": LlamaConfig(**SIZES | {"num_key_value_heads": 4}),
    "llama-one-kv-head": LlamaConfig(**SIZES | {"num_key_value_heads": 1}),
    "llama-3-rope": LlamaConfig(**SIZES, rope_parameters=LLAMA3_ROPE),
    "llama-tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama-biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "llama-wide-heads": LlamaConfig(**SIZES, head_dim=24),
    "smollm2-like": LlamaConfig(**SIZES | {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72}),
    "qwen2": Qwen2Config(**SIZES),
    "qwen2-tied": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
    "qwen3-biases-tied": Qwen3Config(**SIZES, head_dim=32, attention_bias=True, tie_word_embeddings=True),
}


def write_model(config: PreTrainedConfig, folder: Path, shard: str = "50KB") -> torch.nn.Module:
    """Random weights, norms and biases included: at their first values those would hide a mistake."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.3 + (0.0 if name.endswith("bias") else 1.0))
            else:
                weight.copy_(torch.randn_like(weight) * weight.shape[1] ** -0.5)
    model.save_pretrained(folder, max_shard_size=shard)
    return model


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_equal_transformers(name: str, tmp_path: Path) -> None:
    reference = write_model(FAMILIES[name], tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1, "sharded, or the index is not tried"
    prompts = torch.randint(0, 300, (3, 40), generator=torch.Generator().manual_seed(1)).tolist()
    engine = Engine(load_folder(tmp_path, quiet))
    assert_logits_equal(engine, reference, prompts)
    assert engine.model.num_parameters == reference.num_parameters()


@pytest.mark.parametrize("name", ["llama-biases", "llama-3-rope", "qwen2", "qwen3"])
def test_a_family_in_bfloat16_is_float32_rounded(name: str, tmp_path: Path) -> None:
    write_model(FAMILIES[name], tmp_path)
    loaded = load_folder(tmp_path, quiet)
    prompts = [list(range(32, 56)), list(range(60, 84))]
    exact = Engine(loaded).logits(prompts, [20, 1, 1, 1, 1])[-1]
    rough = Engine(loaded, torch.bfloat16).logits(prompts, [20, 1, 1, 1, 1])[-1]
    assert (rough - exact).abs().max() < 0.1 * exact.std()


@pytest.mark.parametrize("name", ["llama-3-rope", "qwen2", "qwen3"])
def test_f65_r5_a_family_gives_the_tokens_of_lone_runs(name: str, tmp_path: Path) -> None:
    write_model(FAMILIES[name], tmp_path)
    runner = toy_runner(model=str(tmp_path), max_model_len=64)
    policy = SchedulerPolicy(admission_rule="next_chunk", long_prefill_token_threshold=3)
    driven = drive(runner, policy, mixed_requests(), num_blocks=16)
    assert driven.num_preemptions
    assert driven.tokens == alone(runner, mixed_requests())


def rewrite(folder: Path, change: Mapping[str, object], file: str = "config.json") -> None:
    path = folder / file
    fields = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({k: v for k, v in (fields | change).items() if v is not ...}))


def test_older_files_write_their_rope_elsewhere(tmp_path: Path) -> None:
    """transformers 4: rope_theta beside rope_scaling, whose kind was first called "type"."""
    write_model(FAMILIES["llama-3-rope"], tmp_path)
    newer = read_config(tmp_path)
    scaling = {k: v for k, v in LLAMA3_ROPE.items() if k not in ("rope_theta", "rope_type")}
    rewrite(tmp_path, {"rope_parameters": ..., "rope_theta": 500_000.0, "rope_scaling": scaling | {"type": "llama3"}})
    assert read_config(tmp_path) == newer
    assert newer.rope_theta == 500_000.0


def test_fields_that_older_files_leave_out_have_their_family_s_value(tmp_path: Path) -> None:
    write_model(FAMILIES["qwen2"], tmp_path)
    full = read_config(tmp_path)
    rewrite(tmp_path, {"layer_types": ..., "use_sliding_window": ..., "tie_word_embeddings": ..., "head_dim": ...})
    assert read_config(tmp_path) == full
    write_model(Qwen3Config(**SIZES | {"num_hidden_layers": 1}), tmp_path)
    rewrite(tmp_path, {"head_dim": ..., "attention_bias": ...})
    assert read_config(tmp_path).head_dim == 128


def test_tokens_that_end_a_text_come_from_both_files(tmp_path: Path) -> None:
    write_model(FAMILIES["qwen2"], tmp_path)
    rewrite(tmp_path, {"eos_token_id": 7})
    rewrite(tmp_path, {"eos_token_id": [9, 7]}, "generation_config.json")
    assert read_config(tmp_path).eos_token_ids == (7, 9)


def test_a_folder_of_one_file_is_read_whole(tmp_path: Path) -> None:
    write_model(FAMILIES["qwen3"], tmp_path, shard="1GB")
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    assert isinstance(toy_runner(model=str(tmp_path)), ModelRunner)
