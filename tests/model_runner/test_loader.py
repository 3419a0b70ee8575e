"""A model folder that is not right is refused with its file and field named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

from model_runner.config import RunnerConfig
from model_runner.errors import ModelFormatError, ModelNotFoundError, RunnerConfigError, RunnerError
from model_runner.loader import load_folder
from model_runner.runner import ModelRunner
from model_runner.toy import toy_config, toy_weights
from scheduler import SchedulerPolicy
from tests.model_runner.driving import drive, mixed_requests, toy_runner

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "vocab_size": 258,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "tie_word_embeddings": False,
    "eos_token_id": 257,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    save_file(toy_weights(toy_config(), 0), str(tmp_path / "model.safetensors"))
    return tmp_path


def quiet(stage: str, fraction: float, message: str) -> None:
    """Progress nobody looks at."""


def change_config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        fields = {name: value for name, value in (CONFIG | changes).items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(fields))

    return change


def change_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        weights = toy_weights(toy_config(), 0)
        change(weights)
        save_file(weights, str(folder / "model.safetensors"))

    return apply


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def index_elsewhere(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))


UP = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"config\.json: the file is missing"),
        (lambda folder: (folder / "config.json").write_text("{"), r"config\.json: cannot be read as JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json: holds a list"),
        (change_config(architectures=["GPT2LMHeadModel"]), r"architectures is \['GPT2LMHeadModel'\]; supported: Llama"),
        (change_config(hidden_size=...), r"config\.json: hidden_size is missing"),
        (change_config(vocab_size="many"), r"vocab_size is 'many'; it must be a whole number"),
        (change_config(num_hidden_layers=0), r"num_hidden_layers is 0; it must be a whole number, 1 or more"),
        (change_config(num_key_value_heads=3), r"num_attention_heads is 4; it must be a multiple of .* 3"),
        (change_config(head_dim=15), r"head_dim is 15; rotary positions need an even number"),
        (change_config(rms_norm_eps=-1), r"rms_norm_eps is -1; it must be a number above 0"),
        (change_config(hidden_act="gelu"), r"hidden_act is 'gelu'; supported: 'silu'"),
        (change_config(attention_bias=True), r"'model\.layers\.0\.self_attn\.q_proj\.bias' is missing; .* \[64\]"),
        (change_config(attention_bias="no"), r"attention_bias is 'no'; it must be true or false"),
        (
            change_config(architectures=["Qwen3ForCausalLM"]),
            r"'model\.layers\.0\.self_attn\.q_norm\.weight' is missing",
        ),
        (change_config(architectures="LlamaForCausalLM"), r"architectures is LlamaForCausalLM; supported: Llama"),
        (change_config(use_sliding_window=True), r"use_sliding_window is True; supported: False"),
        (change_config(layer_types=["sliding_attention"] * 2), r"layer_types names 'sliding_attention'; supported"),
        (change_config(quantization_config={"bits": 4}), r"quantization_config is \{'bits': 4\}; supported: None"),
        (change_config(tie_word_embeddings="false"), r"tie_word_embeddings is 'false'; it must be true or false"),
        (change_config(rope_parameters={"rope_type": "yarn"}), r"rope_type is 'yarn'; supported: 'default', 'llama3'"),
        (change_config(rope_scaling={"type": "llama3"}, rope_parameters=...), r"config\.json: factor is missing"),
        (
            change_config(
                rope_parameters={"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}
            ),
            r"high_freq_factor is 4; it must be above low_freq_factor, 4",
        ),
        (
            lambda folder: (folder / "generation_config.json").write_text('{"eos_token_id": [3, 999]}'),
            r"generation_config\.json: eos_token_id is \[3, 999\]; ids must be 0 \.\. 257",
        ),
        (change_config(eos_token_id=258), r"eos_token_id is 258; ids must be 0 \.\. 257"),
        (change_config(intermediate_size=161), r"mlp\.gate_proj.* has shape \[160, 64\]; .* \[161, 64\]"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"model\.safetensors: the file is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), r"model\.safetensors: damaged or cut short"),
        (cut_short, r"model\.safetensors: damaged or cut short"),
        (change_weights(lambda w: w.pop(UP)), rf"tensor '{UP}' is missing; its shape must be \[160, 64\]"),
        (change_weights(lambda w: w.update({UP: w[UP].T.contiguous()})), rf"'{UP}' has shape \[64, 160\]"),
        (change_weights(lambda w: w.update({UP: w[UP].int()})), rf"'{UP}' is torch.int32; it must be a floating"),
        (change_weights(lambda w: w.update(extra=torch.ones(1))), r"tensor 'extra' has no place"),
        (index_elsewhere, r"index\.json: weight_map\['a'\] is '\.\./model\.safetensors', not a file name"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), r"tokenizer\.json: not a tokenizer file"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(folder)
    with pytest.raises(ModelFormatError, match=message):
        ModelRunner.load(RunnerConfig(model=str(folder), dtype="float32", num_blocks=4))


def test_a_folder_gives_the_tokens_of_the_weights_it_holds(folder: Path) -> None:
    requests = mixed_requests(count=3)
    from_folder = toy_runner(model=str(folder))
    assert not from_folder.info.is_toy
    assert (
        drive(from_folder, SchedulerPolicy(), requests).tokens
        == drive(toy_runner(), SchedulerPolicy(), requests).tokens
    )


def test_a_sharded_folder_is_one_model(folder: Path) -> None:
    weights = toy_weights(toy_config(), 0)
    names = sorted(weights)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    (folder / "model.safetensors").unlink()
    for file, own in shards.items():
        save_file({name: weights[name] for name in own}, str(folder / file))
    weight_map = {name: file for file, own in shards.items() for name in own}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    loaded = load_folder(folder, quiet)
    assert all(torch.equal(loaded.weights(name), weights[name]) for name in names)
    (folder / "b.safetensors").unlink()
    with pytest.raises(ModelFormatError, match=r"b\.safetensors: the file is missing"):
        load_folder(folder, quiet)


def test_no_such_folder() -> None:
    with pytest.raises(ModelNotFoundError, match="'smollm2', 'toy' or a folder"):
        ModelRunner.load(RunnerConfig(model="no/such/folder"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "tpu"}, "device is 'tpu'; it must be"),
        ({"device": "cuda:x"}, "device is 'cuda:x'; it must be"),
        ({"dtype": "float16"}, "dtype is 'float16'; it must be"),
        ({"threads": -1}, "threads is -1"),
        ({"block_size": 0}, "block_size is 0"),
        ({"num_blocks": 0}, "num_blocks is 0"),
        ({"max_model_len": 1}, r"max_model_len is 1; this model allows 2 \.\. 2048"),
        ({"max_model_len": 2049}, r"max_model_len is 2049; this model allows 2 \.\. 2048"),
        ({"num_blocks": 10**12}, r"num_blocks is 1000000000000; a KV cache of \d+ MiB does not fit"),
    ],
)
def test_start_up_choices_that_cannot_be_met_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RunnerConfigError, match=message):
        toy_runner(**changes)


def test_every_error_is_a_runner_error() -> None:
    assert issubclass(ModelNotFoundError, RunnerError)
    assert issubclass(ModelFormatError, RunnerError)


def test_the_limit_is_what_model_and_pool_allow() -> None:
    assert toy_runner(num_blocks=10).info.max_model_len == 40
    assert toy_runner(num_blocks=4000).info.max_model_len == 2048


def test_a_vocabulary_padded_beyond_the_tokenizer_is_whole(folder: Path) -> None:
    """A padded token can be sampled; its request must be able to come back with it after a restart."""
    backend = Tokenizer(models.BPE({character: i for i, character in enumerate("abc")}, []))
    backend.save(str(folder / "tokenizer.json"))
    tokenizer = load_folder(folder, quiet).tokenizer
    assert tokenizer.vocab_size == CONFIG["vocab_size"]
    assert tokenizer.token_bytes(200) == b""
