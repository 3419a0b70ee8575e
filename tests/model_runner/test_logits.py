"""Logits against transformers, an implementation that shares no code with ours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from model_runner.inputs import InputBuilder
from model_runner.kv_cache import KVCache
from model_runner.loader import LoadedModel
from model_runner.model import LlamaModel
from model_runner.model_cache import SMOLLM2, find_file, load_packaged
from model_runner.toy import load_toy, toy_config, toy_weights
from scheduler import ScheduleStep

TOLERANCE = 1e-4
CPU = torch.device("cpu")


def quiet(stage: str, fraction: float, message: str) -> None:
    """Progress nobody looks at."""


class Engine:
    """One request's way through the model, piece by piece."""

    def __init__(self, loaded: LoadedModel, dtype: torch.dtype = torch.float32, block_size: int = 4) -> None:
        self.model = LlamaModel(loaded.config, loaded.weights, CPU, dtype, 512, quiet)
        self.cache = KVCache(loaded.config, 128, block_size, CPU, dtype)
        self.inputs = InputBuilder(block_size, 512, CPU)
        self.block_size = block_size

    @torch.inference_mode()
    def logits(self, prompts: Sequence[Sequence[int]], pieces: Sequence[int]) -> list[torch.Tensor]:
        """Logits after each piece, [prompts, vocab] each. All prompts have the length that the pieces sum up to."""
        per_request = -(-sum(pieces) // self.block_size)
        # Interleaved and in falling order, so that neighbours in the pool belong to different requests.
        tables = {
            str(i): tuple(1 + i + len(prompts) * (per_request - 1 - j) for j in range(per_request))
            for i in range(len(prompts))
        }
        found, start = [], 0
        for size in pieces:
            step = ScheduleStep(
                step_id=0,
                policy_version=1,
                time=0.0,
                num_scheduled_tokens=dict.fromkeys(tables, size),
                kinds=dict.fromkeys(tables, "prefill"),
                token_ids={name: tuple(prompts[int(name)][start : start + size]) for name in tables},
                positions_start=dict.fromkeys(tables, start),
                block_tables=tables,
                sampling_ids=tuple(tables),
            )
            found.append(self.model.forward(self.inputs.build(step), self.cache))
            start += size
        return found


def assert_logits_equal(
    engine: Engine, reference: torch.nn.Module, prompts: Sequence[Sequence[int]], first_piece: int = 1
) -> None:
    """All at once, in uneven chunks, and one by one as in decode. The reference computes in its own number type."""
    with torch.inference_mode():
        expected = reference(torch.tensor(prompts)).logits.float()
    length = len(prompts[0])
    for pieces in ([length], [first_piece] + [1] * (length - first_piece), [5, 1, 1, length - 10, 3]):
        ends = torch.tensor(pieces).cumsum(0) - 1
        for end, found in zip(ends.tolist(), engine.logits(prompts, pieces), strict=True):
            torch.testing.assert_close(found, expected[:, end], rtol=0, atol=TOLERANCE)


def hugging_face_toy(seed: int) -> LlamaForCausalLM:
    config = toy_config()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_position_embeddings,
            rms_norm_eps=config.rms_norm_eps,
            rope_theta=config.rope_theta,
            tie_word_embeddings=config.tie_word_embeddings,
        )
    )
    model.load_state_dict(toy_weights(config, seed))
    return model.eval()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_toy_logits_equal_transformers(seed: int, block_size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    prompts = torch.randint(0, 256, (3, 24), generator=generator).tolist()
    assert_logits_equal(Engine(load_toy(seed), block_size=block_size), hugging_face_toy(seed), prompts)


def test_toy_bfloat16_is_float32_rounded() -> None:
    prompts = [list(range(32, 56)), list(range(60, 84))]
    exact = Engine(load_toy(0)).logits(prompts, [20, 1, 1, 1, 1])[-1]
    rough = Engine(load_toy(0), torch.bfloat16).logits(prompts, [20, 1, 1, 1, 1])[-1]
    # 8 bits of mantissa over two layers: about one percent of the logits' spread (2 to 3 here).
    assert (rough - exact).abs().max() < 0.1 * exact.std()


@pytest.mark.model
def test_smollm2_logits_equal_transformers_on_the_same_file() -> None:
    """The reference computes in float64, so that the difference is ours alone.

    The first token of this model carries activations of 20,000 (an attention sink), whose rounding in float32 moves
    its own logits by 1e-4 in every implementation, transformers' included; no request samples after one such token.
    """
    source = find_file(SMOLLM2)
    reference = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    loaded = load_packaged(SMOLLM2, torch.float32, quiet)
    prompts = [loaded.tokenizer.encode(text)[:24] for text in (TEXT, TEXT[40:])]
    assert_logits_equal(Engine(loaded, block_size=16), reference.double().eval(), prompts, first_piece=8)


TEXT = (
    "Continuous batching lets a new request join the running batch at every iteration, so that a short answer never "
    "waits for a long one. In 2022 a paper called Orca described it first."
)
