"""A small Llama with random weights: for tests, and for a machine with no model. Its text means nothing."""

from __future__ import annotations

import torch

from model_runner.loader import LoadedModel
from model_runner.model_config import HEAD, ModelConfig, tensor_shapes
from model_runner.tokenizer import ByteTokenizer

TOY_NOTE = "toy model with random weights: what it writes means nothing"

_PRINTABLE = range(ord(" "), ord("~") + 1)


def toy_config() -> ModelConfig:
    """Two layers, grouped-query attention and an untied head: every path of a real model, in a millisecond."""
    tokenizer = ByteTokenizer()
    return ModelConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
        rope_theta=10_000.0,
        tie_word_embeddings=False,
        eos_token_ids=tokenizer.eos_token_ids,
    )


def toy_weights(config: ModelConfig, seed: int) -> dict[str, torch.Tensor]:
    """Random float32 weights by checkpoint name, the same for the same seed on every machine.

    Matrices are scaled by 1/sqrt(in), so that activations neither die nor explode and the logits are far from ties.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in tensor_shapes(config):
        if len(shape) == 1:
            weights[name] = 1.0 + 0.1 * torch.randn(shape, generator=generator)
        else:
            weights[name] = torch.randn(shape, generator=generator) * shape[1] ** -0.5
    # Rows of bytes that do not print are zero: their logit is 0, below the best of the printable ones, so that the
    # model writes letters instead of broken characters.
    unprintable = torch.ones(config.vocab_size, dtype=torch.bool)
    unprintable[list(_PRINTABLE)] = False
    weights[HEAD] *= 3.0
    weights[HEAD][unprintable] = 0.0
    return weights


def load_toy(seed: int) -> LoadedModel:
    """The toy model of this seed. Nothing is downloaded or read."""
    config = toy_config()
    weights = toy_weights(config, seed)
    return LoadedModel("toy", TOY_NOTE, config, ByteTokenizer(), weights.__getitem__, is_toy=True)
