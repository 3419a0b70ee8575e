"""The benchmark's model (32 million random parameters) and its 64 requests: python benchmarks/make_model.py FOLDER.

Both follow from fixed seeds, so that figures of different days and machines are about the same work.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

RECIPE = {
    "vocab_size": 8192,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
MODEL_SEED = 0
WORKLOAD_SEED = 1234
REQUESTS = 64


def requests():
    """64 requests at once: prompts of 16 to 256 tokens, outputs of 8 to 128, evenly spread."""
    rng = random.Random(WORKLOAD_SEED)
    rows = []
    for index in range(REQUESTS):
        prompt_len, output_len = rng.randint(16, 256), rng.randint(8, 128)
        prompt = [rng.randrange(3, RECIPE["vocab_size"]) for _ in range(prompt_len)]
        rows.append({"id": f"r{index:02d}", "prompt": prompt, "prompt_len": prompt_len, "output_len": output_len})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.manual_seed(MODEL_SEED)
    LlamaForCausalLM(LlamaConfig(**RECIPE)).to(torch.float32).save_pretrained(folder / "model")
    (folder / "workload64.json").write_text(json.dumps({"recipe": RECIPE, "requests": requests()}))
    print(f"written: {folder / 'model'}, {folder / 'workload64.json'}")


if __name__ == "__main__":
    main()
