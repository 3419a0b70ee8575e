"""``config.json`` of a model folder in Hugging Face form, as the shape of a model; what is not supported is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from model_runner.errors import ModelFormatError
from model_runner.model_config import Llama3RopeScaling, ModelConfig

CONFIG_FILE: Final = "config.json"
GENERATION_CONFIG_FILE: Final = "generation_config.json"

_DEFAULT_ROPE_THETA = 10_000.0


@dataclass(frozen=True, slots=True)
class _Family:
    """What the classes of transformers fix and their config files do not say. qkv_bias: None = ``attention_bias``."""

    qkv_bias: bool | None = None
    qk_norm: bool = False
    head_dim: int | None = None


FAMILIES: Final[Mapping[str, _Family]] = {
    "LlamaForCausalLM": _Family(),
    "Qwen2ForCausalLM": _Family(qkv_bias=True),
    "Qwen3ForCausalLM": _Family(qk_norm=True, head_dim=128),
}
"""Supported values of ``architectures``."""


def read_config(folder: Path) -> ModelConfig:
    """Raises ModelFormatError naming the file and the field that is missing, wrong or not supported."""
    path = folder / CONFIG_FILE
    fields = _Fields(path, read_json(path))
    family = _family(fields)
    fields.must_be("hidden_act", "silu")
    fields.must_be("use_sliding_window", False)
    fields.must_be("partial_rotary_factor", 1.0)
    fields.must_be("quantization_config", None)
    _check_layer_types(fields)
    heads, hidden = fields.size("num_attention_heads"), fields.size("hidden_size")
    kv_heads = fields.size("num_key_value_heads", heads)
    if heads % kv_heads:
        raise fields.error("num_attention_heads", f"it must be a multiple of num_key_value_heads, {kv_heads}")
    head_dim = fields.size("head_dim", family.head_dim or hidden // heads)
    if head_dim % 2:
        raise ModelFormatError(f"{path}: head_dim is {head_dim}; rotary positions need an even number")
    vocab_size, bias = fields.size("vocab_size"), fields.flag("attention_bias")
    max_positions = fields.size("max_position_embeddings")
    theta, scaling = _rope(fields, max_positions)
    return ModelConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=fields.size("intermediate_size"),
        num_hidden_layers=fields.size("num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=max_positions,
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        tie_word_embeddings=fields.flag("tie_word_embeddings"),
        eos_token_ids=_all_eos_token_ids(folder, fields, vocab_size),
        qkv_bias=bias if family.qkv_bias is None else family.qkv_bias,
        output_bias=bias and family.qkv_bias is None,
        mlp_bias=fields.flag("mlp_bias"),
        qk_norm=family.qk_norm,
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises ModelFormatError naming the file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFormatError(f"{path}: the file is missing") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelFormatError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise ModelFormatError(f"{path}: holds a {type(found).__name__}, not a JSON object")
    return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """A config file's fields, with errors that name file and field. A field that is null counts as absent."""

    path: Path
    values: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        value = self.values.get(name)
        return default if value is None else value

    def error(self, name: str, right: str) -> ModelFormatError:
        """``right``: what would be right, a clause."""
        return ModelFormatError(f"{self.path}: {name} is {self.values.get(name)!r}; {right}")

    def size(self, name: str, default: int | None = None) -> int:
        value = self.get(name, default)
        if value is None:
            raise ModelFormatError(f"{self.path}: {name} is missing")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.error(name, "it must be a whole number, 1 or more")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.get(name, default)
        if value is None:
            raise ModelFormatError(f"{self.path}: {name} is missing")
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise self.error(name, "it must be a number above 0")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.get(name, False)
        if not isinstance(value, bool):
            raise self.error(name, "it must be true or false")
        return value

    def must_be(self, name: str, only: object) -> None:
        if self.get(name, only) != only:
            raise self.error(name, f"supported: {only!r}")


def _family(fields: _Fields) -> _Family:
    architectures = fields.get("architectures", [])
    named = architectures if isinstance(architectures, list) else []
    for name in named:
        if isinstance(name, str) and name in FAMILIES:
            return FAMILIES[name]
    raise ModelFormatError(f"{fields.path}: architectures is {architectures}; supported: {', '.join(FAMILIES)}")


def _check_layer_types(fields: _Fields) -> None:
    for kind in fields.get("layer_types", []):
        if kind != "full_attention":
            raise ModelFormatError(f"{fields.path}: layer_types names {kind!r}; supported: 'full_attention'")


def _rope(fields: _Fields, max_positions: int) -> tuple[float, Llama3RopeScaling | None]:
    """Base and scaling. transformers 5 writes ``rope_parameters``, earlier ones ``rope_theta`` and ``rope_scaling``."""
    values = fields.get("rope_parameters", fields.get("rope_scaling", {}))
    if not isinstance(values, dict):
        raise ModelFormatError(f"{fields.path}: rope_parameters is {values!r}; it must be an object")
    parameters = _Fields(fields.path, values)
    theta = parameters.number("rope_theta", fields.number("rope_theta", _DEFAULT_ROPE_THETA))
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ModelFormatError(f"{fields.path}: rope_type is {kind!r}; supported: 'default', 'llama3'")
    scaling = Llama3RopeScaling(
        factor=parameters.number("factor"),
        low_freq_factor=parameters.number("low_freq_factor"),
        high_freq_factor=parameters.number("high_freq_factor"),
        original_max_position_embeddings=parameters.size("original_max_position_embeddings", max_positions),
    )
    if scaling.high_freq_factor <= scaling.low_freq_factor:
        raise parameters.error("high_freq_factor", f"it must be above low_freq_factor, {scaling.low_freq_factor:g}")
    return theta, scaling


def _all_eos_token_ids(folder: Path, fields: _Fields, vocab_size: int) -> tuple[int, ...]:
    """Those of the model and those its authors generate with: instruction-tuned models name more there."""
    path = folder / GENERATION_CONFIG_FILE
    ids = _eos_token_ids(fields, vocab_size)
    if path.exists():
        ids += _eos_token_ids(_Fields(path, read_json(path)), vocab_size)
    return tuple(dict.fromkeys(ids))


def _eos_token_ids(fields: _Fields, vocab_size: int) -> tuple[int, ...]:
    value = fields.get("eos_token_id", [])
    ids = value if isinstance(value, list) else [value]
    if not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < vocab_size for i in ids):
        raise fields.error("eos_token_id", f"ids must be 0 .. {vocab_size - 1}")
    return tuple(ids)
