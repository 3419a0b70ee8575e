"""Turns a GGUF file of the Llama family into Hugging Face form, in memory or in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from model_runner.chat_template import ChatTemplate
from model_runner.errors import ModelFormatError
from model_runner.folder_config import CONFIG_FILE
from model_runner.loader import (
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    LoadedModel,
    Progress,
)
from model_runner.model_config import EMBEDDING, FINAL_NORM, ModelConfig, layer_name
from model_runner.tokenizer import BytePairTokenizer

_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    """A GGUF file's content under the names of a Hugging Face checkpoint, all of it in memory."""

    config: ModelConfig
    tokenizer: Backend
    chat_template: str
    tensors: dict[str, torch.Tensor]

    def loaded(self, name: str, note: str) -> LoadedModel:
        """The model without a folder to read it from."""
        chat = ChatTemplate(self.chat_template, "tokenizer.chat_template") if self.chat_template else None
        tokenizer = BytePairTokenizer(self.tokenizer, self.config.eos_token_ids, chat)
        return LoadedModel(name, note, self.config, tokenizer, self.tensors.__getitem__)

    def write(self, folder: Path) -> None:
        """Write it in Hugging Face form into an existing folder. Raises OSError when that cannot be done."""
        (folder / CONFIG_FILE).write_text(json.dumps(_config_json(self.config), indent=1), encoding="utf-8")
        (folder / TOKENIZER_FILE).write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")
        template = json.dumps({"chat_template": self.chat_template})
        (folder / TOKENIZER_CONFIG_FILE).write_text(template, encoding="utf-8")
        try:
            save_file(self.tensors, str(folder / WEIGHTS_FILE), metadata={"format": "pt"})
        except SafetensorError as error:  # what the library makes of a full disk
            raise OSError(str(error)) from error


def convert_gguf(source: Path, dtype: torch.dtype, progress: Progress) -> ConvertedModel:
    """Raises ModelFormatError when the source is not a whole GGUF file of the Llama family."""
    reader = open_gguf(source)
    metadata = _Metadata(source, reader)
    config = gguf_config(metadata)
    tokenizer, template = gguf_tokenizer(metadata), metadata.get("tokenizer.chat_template", "")
    tensors = {}
    for name, tensor, done in gguf_tensors(reader, source, config):
        tensors[name] = tensor.to(dtype).contiguous()
        progress("convert", 0.9 * done, f"converting {name}")
    return ConvertedModel(config, tokenizer, template, tensors)


def open_gguf(path: Path) -> gguf.GGUFReader:
    """Raises ModelFormatError naming the file when it is cut short or not GGUF."""
    try:
        return gguf.GGUFReader(str(path))
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise ModelFormatError(f"{path}: not a whole GGUF file: {error}") from error


class _Metadata:
    """A GGUF file's metadata, with errors that name file and field."""

    def __init__(self, source: Path, reader: gguf.GGUFReader) -> None:
        self.source = source
        self._fields = reader.fields

    def get(self, name: str, default: Any = None) -> Any:
        field = self._fields.get(name)
        return default if field is None else field.contents()

    def need(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise ModelFormatError(f"{self.source}: metadata field {name} is missing")
        return value

    def must_be(self, name: str, only: object) -> None:
        value = self.need(name)
        if value != only:
            raise ModelFormatError(f"{self.source}: metadata field {name} is {value!r}; supported: {only!r}")


def gguf_config(metadata: _Metadata) -> ModelConfig:
    """Shape of the model from a GGUF file's metadata; an absent ``output.weight`` means a tied head."""
    metadata.must_be("general.architecture", "llama")
    heads, hidden = int(metadata.need("llama.attention.head_count")), int(metadata.need("llama.embedding_length"))
    return ModelConfig(
        vocab_size=int(metadata.need("llama.vocab_size")),
        hidden_size=hidden,
        intermediate_size=int(metadata.need("llama.feed_forward_length")),
        num_hidden_layers=int(metadata.need("llama.block_count")),
        num_attention_heads=heads,
        num_key_value_heads=int(metadata.get("llama.attention.head_count_kv", heads)),
        head_dim=int(metadata.get("llama.rope.dimension_count", hidden // heads)),
        max_position_embeddings=int(metadata.need("llama.context_length")),
        rms_norm_eps=float(metadata.need("llama.attention.layer_norm_rms_epsilon")),
        rope_theta=float(metadata.get("llama.rope.freq_base", 10_000.0)),
        tie_word_embeddings=True,
        eos_token_ids=(int(metadata.need("tokenizer.ggml.eos_token_id")),),
    )


def gguf_tokenizer(metadata: _Metadata) -> Backend:
    """The tokenizer of a GGUF file: digits one by one, then GPT-2's byte-level splitting, then BPE."""
    metadata.must_be("tokenizer.ggml.model", "gpt2")
    metadata.must_be("tokenizer.ggml.pre", "smollm")
    tokens: list[str] = metadata.need("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.need("tokenizer.ggml.merges")]
    backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, merges, fuse_unk=False))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    control = int(gguf.TokenType.CONTROL)
    types = metadata.need("tokenizer.ggml.token_type")
    special = [
        AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types, strict=True) if kind == control
    ]
    backend.add_special_tokens(special)
    return backend


def gguf_tensors(
    reader: gguf.GGUFReader, source: Path, config: ModelConfig
) -> Iterator[tuple[str, torch.Tensor, float]]:
    """Yield (checkpoint name, float32 tensor, fraction done) for every tensor of the model."""
    names = {EMBEDDING: "token_embd.weight", FINAL_NORM: "output_norm.weight"}
    for layer in range(config.num_hidden_layers):
        for part, gguf_part in _PARTS.items():
            names[layer_name(layer, part)] = f"blk.{layer}.{gguf_part}.weight"
    stored = {tensor.name: tensor for tensor in reader.tensors}
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for index, (name, gguf_name) in enumerate(names.items()):
        if gguf_name not in stored:
            raise ModelFormatError(f"{source}: tensor {gguf_name!r} is missing")
        found = stored[gguf_name]
        tensor = torch.from_numpy(np.array(gguf.dequantize(found.data, found.tensor_type), dtype=np.float32))
        part = name.split(".")[-2]
        if part in heads:
            tensor = half_split_rows(tensor, heads[part])
        yield name, tensor, (index + 1) / len(names)


def half_split_rows(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Undo llama.cpp's row order of q and k: pairs (2i, 2i+1) of a head back to (i, i + head_dim/2)."""
    rows, columns = weight.shape
    return weight.view(num_heads, rows // num_heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _config_json(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_word_embeddings,
        "eos_token_id": list(config.eos_token_ids),
    }
