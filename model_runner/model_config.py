"""Shape of a Llama-family model, and the tensors it must have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Names are Hugging Face's. Sizes are numbers of elements; rms_norm_eps and rope_theta are plain numbers.

    tie_word_embeddings: True = the output head is the embedding matrix. eos_token_ids: may be empty.
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


def layer_name(layer: int, part: str) -> str:
    """Tensor name in a checkpoint, e.g. ``layer_name(0, "mlp.up_proj")``."""
    return f"model.layers.{layer}.{part}.weight"


def tensor_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor a checkpoint must have, with its shape ([out, in] for matrices), in checkpoint names."""
    hidden, ffn = config.hidden_size, config.intermediate_size
    yield EMBEDDING, (config.vocab_size, hidden)
    for layer in range(config.num_hidden_layers):
        yield layer_name(layer, "input_layernorm"), (hidden,)
        yield layer_name(layer, "self_attn.q_proj"), (config.q_size, hidden)
        yield layer_name(layer, "self_attn.k_proj"), (config.kv_size, hidden)
        yield layer_name(layer, "self_attn.v_proj"), (config.kv_size, hidden)
        yield layer_name(layer, "self_attn.o_proj"), (hidden, config.q_size)
        yield layer_name(layer, "post_attention_layernorm"), (hidden,)
        yield layer_name(layer, "mlp.gate_proj"), (ffn, hidden)
        yield layer_name(layer, "mlp.up_proj"), (ffn, hidden)
        yield layer_name(layer, "mlp.down_proj"), (hidden, ffn)
    yield FINAL_NORM, (hidden,)
    if not config.tie_word_embeddings:
        yield HEAD, (config.vocab_size, hidden)
