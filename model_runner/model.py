"""The forward pass of a Llama-family model on one flat batch of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch.nn.functional import embedding, rms_norm, silu

from model_runner.attention import AttentionPlan
from model_runner.inputs import StepInputs
from model_runner.kv_cache import KVCache
from model_runner.loader import Progress, WeightSource
from model_runner.model_config import EMBEDDING, FINAL_NORM, HEAD, ModelConfig, layer_name
from model_runner.rotary import Rotation, RotaryTable


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one layer. Matrices are stored K-major, [in, out]: at batch 1 in fp32 that reads them twice as fast.

    qkv: [hidden, q + 2 kv]; gate_up: [hidden, 2 ffn]: one product instead of three and two.
    """

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    output: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class LlamaModel:
    """Weights on the device and the forward pass over them."""

    def __init__(
        self,
        config: ModelConfig,
        weights: WeightSource,
        device: torch.device,
        dtype: torch.dtype,
        max_model_len: int,
        progress: Progress,
    ) -> None:
        self.config = config
        self._device, self._dtype = device, dtype
        self._embedding = weights(EMBEDDING).to(device, dtype)
        self._layers = []
        for layer in range(config.num_hidden_layers):
            self._layers.append(self._load_layer(layer, weights))
            progress("load", (layer + 1) / config.num_hidden_layers, f"layer {layer + 1}")
        self._final_norm = weights(FINAL_NORM).to(device, dtype)
        self._head = self._embedding.t() if config.tie_word_embeddings else self._matrix(weights, HEAD)
        self._rotary = RotaryTable(config.head_dim, max_model_len, config.rope_theta, device, dtype)

    @property
    def num_parameters(self) -> int:
        """Elements of all weights; a tied head counts once."""
        return sum(tensor.numel() for tensor in self._tensors())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights on the device."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._tensors())

    def forward(self, inputs: StepInputs, cache: KVCache) -> torch.Tensor:
        """Compute all tokens, store their keys and values, return float32 logits [samples, vocab_size].

        Only rows that sample go through the final norm and the head.
        """
        eps = self.config.rms_norm_eps
        hidden_size = (self.config.hidden_size,)
        plan = AttentionPlan(inputs.segments, cache.block_size, self._device)
        rotation = self._rotary.at(inputs.positions)
        x = embedding(inputs.token_ids, self._embedding)
        for index, layer in enumerate(self._layers):
            normed = rms_norm(x, hidden_size, layer.attention_norm, eps)
            q, k, v = self._project(normed, layer, rotation)
            cache.write(index, inputs.slots, k, v)
            attended = plan.run(q, cache.keys[index], cache.values[index])
            x = torch.addmm(x, attended.flatten(1), layer.output)
            normed = rms_norm(x, hidden_size, layer.mlp_norm, eps)
            gate, up = torch.mm(normed, layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, silu(gate).mul_(up), layer.down)
        sampled = rms_norm(x[inputs.sample_rows], hidden_size, self._final_norm, eps)
        return torch.mm(sampled, self._head).float()

    def _project(self, x: torch.Tensor, layer: _Layer, rotation: Rotation) -> tuple[torch.Tensor, ...]:
        """Rotated queries [tokens, heads, head_dim], rotated keys and plain values [tokens, kv_heads, head_dim]."""
        config = self.config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        projected = torch.mm(x, layer.qkv).view(-1, heads + 2 * kv_heads, config.head_dim)
        rotated = rotation.apply(projected[:, : heads + kv_heads])
        return rotated[:, :heads], rotated[:, heads:], projected[:, heads + kv_heads :]

    def _load_layer(self, layer: int, weights: WeightSource) -> _Layer:
        def vector(part: str) -> torch.Tensor:
            return weights(layer_name(layer, part)).to(self._device, self._dtype)

        def matrix(*parts: str) -> torch.Tensor:
            return self._matrix(weights, *(layer_name(layer, part) for part in parts))

        return _Layer(
            attention_norm=vector("input_layernorm"),
            qkv=matrix("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            output=matrix("self_attn.o_proj"),
            mlp_norm=vector("post_attention_layernorm"),
            gate_up=matrix("mlp.gate_proj", "mlp.up_proj"),
            down=matrix("mlp.down_proj"),
        )

    def _matrix(self, weights: WeightSource, *names: str) -> torch.Tensor:
        stacked = torch.cat([weights(name).to(self._device, self._dtype) for name in names])
        return stacked.t().contiguous()

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield self._embedding
        for layer in self._layers:
            yield from (getattr(layer, f.name) for f in fields(layer))
        yield self._final_norm
        if not self.config.tie_word_embeddings:
            yield self._head
