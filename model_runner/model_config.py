"""Shape of a Llama-family model, and the tensors it must have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Llama3RopeScaling:
    """How Llama 3.1 stretches its positions. Names and meaning are Hugging Face's (rope_type "llama3").

    Wavelengths above original_max_position_embeddings / low_freq_factor are stretched by ``factor``, those below
    original_max_position_embeddings / high_freq_factor stay, and those between go from one to the other.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Names are Hugging Face's. Sizes are numbers of elements; rms_norm_eps and rope_theta are plain numbers.

    tie_word_embeddings: True = the output head is the embedding matrix. eos_token_ids: may be empty.
    rope_scaling: None = positions as they are. qkv_bias, output_bias: of the attention's input and output products.
    mlp_bias: of all three products of the MLP. qk_norm: each head of queries and keys is normed before its rotation.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool
    eos_token_ids: tuple[int, ...] = ()
    rope_scaling: Llama3RopeScaling | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False

    @property
    def q_size(self) -> int:
        """Rows of the query projection: heads x head_dim."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Rows of the key projection, and of the value projection: kv heads x head_dim."""
        return self.num_key_value_heads * self.head_dim


EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


def layer_name(layer: int, part: str, kind: str = "weight") -> str:
    """Tensor name in a checkpoint, e.g. ``layer_name(0, "mlp.up_proj")``. kind: "weight" or "bias"."""
    return f"model.layers.{layer}.{part}.{kind}"


def tensor_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor a checkpoint must have, with its shape ([out, in] for matrices), in checkpoint names."""
    yield EMBEDDING, (config.vocab_size, config.hidden_size)
    for layer in range(config.num_hidden_layers):
        for part, shape, has_bias in _layer_parts(config):
            yield layer_name(layer, part), shape
            if has_bias:
                yield layer_name(layer, part, "bias"), shape[:1]
    yield FINAL_NORM, (config.hidden_size,)
    if not config.tie_word_embeddings:
        yield HEAD, (config.vocab_size, config.hidden_size)


def _layer_parts(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """(name, shape, whether it has a bias) of each weight of a layer."""
    hidden, ffn = config.hidden_size, config.intermediate_size
    yield "input_layernorm", (hidden,), False
    yield "self_attn.q_proj", (config.q_size, hidden), config.qkv_bias
    yield "self_attn.k_proj", (config.kv_size, hidden), config.qkv_bias
    yield "self_attn.v_proj", (config.kv_size, hidden), config.qkv_bias
    yield "self_attn.o_proj", (hidden, config.q_size), config.output_bias
    if config.qk_norm:
        yield "self_attn.q_norm", (config.head_dim,), False
        yield "self_attn.k_norm", (config.head_dim,), False
    yield "post_attention_layernorm", (hidden,), False
    yield "mlp.gate_proj", (ffn, hidden), config.mlp_bias
    yield "mlp.up_proj", (ffn, hidden), config.mlp_bias
    yield "mlp.down_proj", (hidden, ffn), config.mlp_bias
