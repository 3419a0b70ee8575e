"""The forward pass of a Llama-family model on one flat batch of tokens."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad, rms_norm, silu

from model_runner.attention import Attention, AttentionPlan, AttentionShape, MakePlan, warm_up_decode
from model_runner.embedding_table import EmbeddingTable
from model_runner.inputs import StepInputs
from model_runner.kv_cache import CacheWrite, KVCache
from model_runner.linear import Linear, LinearFactory
from model_runner.loader import Progress, WeightSource
from model_runner.model_config import EMBEDDING, FINAL_NORM, HEAD, ModelConfig, layer_name, tensor_shapes
from model_runner.rotary import RotaryTable, pairs_together, rotate

_ROTATED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.q_norm", "self_attn.k_norm")


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one layer; q, k, v are one product, and so are gate and up.

    qk_norm: [heads + kv_heads, head_dim], a row for each head, None = heads are not normed.
    """

    attention_norm: torch.Tensor
    qkv: Linear
    qk_norm: torch.Tensor | None
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class LlamaModel:
    """Weights on the device and the forward pass over them.

    Products, keys and values are in the model's number type; the residual stream, the norms and the rotation are in
    float32, which costs little and keeps what thirty layers of bfloat16 additions would round away.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: WeightSource,
        device: torch.device,
        dtype: torch.dtype,
        max_model_len: int,
        progress: Progress,
        make_plan: MakePlan = AttentionPlan,
    ) -> None:
        self.config = config
        self._make_plan = make_plan
        self._device, self._dtype = device, dtype
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._linear = LinearFactory(device, dtype)
        self._layers = []
        for layer in range(config.num_hidden_layers):
            self._layers.append(self._load_layer(layer, weights))
            progress("load", (layer + 1) / config.num_hidden_layers, f"layer {layer + 1}")
        self._final_norm = weights(FINAL_NORM).to(device, torch.float32)
        table, tied = weights(EMBEDDING).to(device, dtype), config.tie_word_embeddings
        self._head = self._linear(table if tied else weights(HEAD))
        self._embedding = EmbeddingTable(table, self._head if tied else None)
        self._rotary = RotaryTable(config.head_dim, max_model_len, config.rope_theta, device, config.rope_scaling)

    @property
    def num_parameters(self) -> int:
        """Elements of all weights; a tied head counts once."""
        return sum(math.prod(shape) for _, shape in tensor_shapes(self.config))

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights on the device.

        A tied head lies there twice, once to look up and once to multiply, where rows cannot be read from the product.
        """
        vectors = sum(t.numel() * t.element_size() for t in self._vectors())
        matrices = sum(matrix.num_bytes for matrix in (*self._matrices(), self._head))
        return vectors + matrices + self._embedding.num_bytes

    def forward(self, inputs: StepInputs, cache: KVCache) -> torch.Tensor:
        """Compute all tokens, store their keys and values, return float32 logits [samples, vocab_size]."""
        attention = self._make_plan(inputs.segments, self.attention_shape(cache))
        where = cache.plan_write(inputs.slots)
        return self.compute(inputs.token_ids, inputs.positions, where, attention, inputs.sample_rows, cache)

    def compute(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        where: CacheWrite,
        attention: Attention,
        sample_rows: torch.Tensor,
        cache: KVCache,
    ) -> torch.Tensor:
        """``forward`` with everything that is made once a step; only launches work, and asks the device nothing.

        Only rows that sample go on once the last layer has stored its keys and values: what follows there, nobody
        else reads. The batch is filled up with rows of no request to the sizes that products are compiled for; those
        rows attend to nothing and are not stored.
        """
        tokens, samples = token_ids.shape[0], sample_rows.shape[0]
        pieces, missing = self._pieces(tokens)
        turns = self._rotary.at(pad(positions, (0, missing)))
        x = self._embedding.rows(pad(token_ids, (0, missing))).float()
        for index, layer in enumerate(self._layers):
            q, k, v = self._project(self._norm(x, layer.attention_norm), layer, turns, pieces)
            cache.write(index, where, k[:tokens], v[:tokens])
            attended = attention.run(q, cache.keys(index), cache.values(index)).flatten(1)
            if index == len(self._layers) - 1:
                pieces, missing = self._pieces(samples)
                sampling = pad(sample_rows, (0, missing))
                x, attended = x[sampling], attended[sampling]
            for rows in pieces:
                part = x[rows]
                part += layer.output(attended[rows])
                gate, up = layer.gate_up(self._norm(part, layer.mlp_norm)).chunk(2, -1)
                part += layer.down(silu(gate).mul_(up))
        return self._logits(x, pieces)[:samples]

    @torch.inference_mode()
    def warm_up(self, cache: KVCache) -> None:
        """Ask for every size of product once, so that no later step has to compile one. Stores nothing."""
        for matrix in {matrix.shape: matrix for matrix in (*self._matrices(), self._head)}.values():
            for rows in self._linear.steps.sizes:
                matrix(torch.zeros(rows, matrix.shape[1], device=self._device, dtype=self._dtype))
        warm_up_decode(self.attention_shape(cache), cache.keys(0), cache.values(0))

    def attention_shape(self, cache: KVCache) -> AttentionShape:
        """What attention over this cache must know."""
        return AttentionShape(cache.num_pages, cache.block_size, cache.kv_heads, self._group, self._device, self._dtype)

    def _pieces(self, count: int) -> tuple[list[slice], int]:
        """Rows of each product for a batch of ``count``, and how many rows must be added to fill them."""
        ends = list(itertools.accumulate(self._linear.steps.split(count)))
        starts = [0, *ends]
        return [slice(start, end) for start, end in zip(starts, ends, strict=False)], starts[-1] - count

    def _logits(self, x: torch.Tensor, pieces: Sequence[slice]) -> torch.Tensor:
        if not pieces:
            return torch.empty(0, self.config.vocab_size, device=self._device)
        x = self._norm(x, self._final_norm)
        return _join([self._head(x[rows]).float() for rows in pieces])

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, self.config.rms_norm_eps).to(self._dtype)

    def _project(
        self, x: torch.Tensor, layer: _Layer, turns: torch.Tensor, pieces: Sequence[slice]
    ) -> tuple[torch.Tensor, ...]:
        """Rotated queries [rows, heads, head_dim], rotated keys and plain values [rows, kv_heads, head_dim]."""
        heads, kv_heads = self.config.num_attention_heads, self.config.num_key_value_heads
        projected = _join([layer.qkv(x[rows]) for rows in pieces]).view(-1, heads + 2 * kv_heads, self.config.head_dim)
        turning = projected[:, : heads + kv_heads]
        if layer.qk_norm is not None:
            turning = rms_norm(turning.float(), turning.shape[-1:], None, self.config.rms_norm_eps) * layer.qk_norm
        rotated = rotate(turning, turns).to(self._dtype)
        return rotated[:, :heads], rotated[:, heads:], projected[:, heads + kv_heads :]

    def _load_layer(self, layer: int, weights: WeightSource) -> _Layer:
        def vector(part: str) -> torch.Tensor:
            return read(part).to(self._device, torch.float32)

        def read(part: str, kind: str = "weight") -> torch.Tensor:
            tensor = weights(layer_name(layer, part, kind))
            return pairs_together(tensor, config.head_dim) if part in _ROTATED else tensor

        def matrix(*parts: str, bias: bool) -> Linear:
            weight = torch.cat([read(part) for part in parts])
            return self._linear(weight, torch.cat([read(part, "bias") for part in parts]) if bias else None)

        config, qk_norm = self.config, None
        if config.qk_norm:
            q, k = vector("self_attn.q_norm"), vector("self_attn.k_norm")
            qk_norm = torch.cat((q.expand(config.num_attention_heads, -1), k.expand(config.num_key_value_heads, -1)))
        return _Layer(
            attention_norm=vector("input_layernorm"),
            qkv=matrix("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", bias=config.qkv_bias),
            qk_norm=qk_norm,
            output=matrix("self_attn.o_proj", bias=config.output_bias),
            mlp_norm=vector("post_attention_layernorm"),
            gate_up=matrix("mlp.gate_proj", "mlp.up_proj", bias=config.mlp_bias),
            down=matrix("mlp.down_proj", bias=config.mlp_bias),
        )

    def _vectors(self) -> Iterator[torch.Tensor]:
        for layer in self._layers:
            yield from (layer.attention_norm, layer.mlp_norm)
            if layer.qk_norm is not None:
                yield layer.qk_norm
        yield self._final_norm

    def _matrices(self) -> Iterator[Linear]:
        for layer in self._layers:
            yield from (layer.qkv, layer.output, layer.gate_up, layer.down)


def _join(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
