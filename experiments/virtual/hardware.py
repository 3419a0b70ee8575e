"""GPUs and models by their published numbers, for cost models that are entered, not measured."""

from __future__ import annotations

from typing import Final

from experiments.virtual.cost import Gpu, ModelShape

GB: Final = 1e9
TFLOPS: Final = 1e12

GPUS: Final = {
    gpu.name: gpu
    for gpu in (
        Gpu("A10", 600 * GB, 125 * TFLOPS, 24 * GB, "NVIDIA A10 Tensor Core GPU data sheet"),
        Gpu("A100-40GB", 1555 * GB, 312 * TFLOPS, 40 * GB, "NVIDIA A100 Tensor Core GPU data sheet, 40 GB"),
        Gpu("A100-80GB", 2039 * GB, 312 * TFLOPS, 80 * GB, "NVIDIA A100 Tensor Core GPU data sheet, 80 GB SXM"),
        Gpu("H100-SXM", 3350 * GB, 989 * TFLOPS, 80 * GB, "NVIDIA H100 Tensor Core GPU data sheet, SXM"),
        Gpu("H200-SXM", 4800 * GB, 989 * TFLOPS, 141 * GB, "NVIDIA H200 Tensor Core GPU data sheet, SXM"),
        Gpu("L4", 300 * GB, 121 * TFLOPS, 24 * GB, "NVIDIA L4 Tensor Core GPU data sheet"),
        Gpu("L40S", 864 * GB, 362 * TFLOPS, 48 * GB, "NVIDIA L40S GPU data sheet"),
        Gpu("MI300X", 5300 * GB, 1307 * TFLOPS, 192 * GB, "AMD Instinct MI300X accelerator data sheet"),
    )
}
"""Name -> GPU. Where a sheet prints bf16 with sparsity, half of it stands here."""

MODELS: Final = {
    model.name: model
    for model in (
        ModelShape("SmolLM2-135M", 134.5e6, 30, 9, 3, 64, "HuggingFaceTB/SmolLM2-135M-Instruct config.json"),
        ModelShape("Qwen2.5-7B", 7.61e9, 28, 28, 4, 128, "Qwen/Qwen2.5-7B config.json and model card"),
        ModelShape("Llama-3.1-8B", 8.03e9, 32, 32, 8, 128, "meta-llama/Llama-3.1-8B config.json and model card"),
        ModelShape("OPT-13B", 12.85e9, 40, 40, 40, 128, "facebook/opt-13b config.json"),
        ModelShape("Llama-3.1-70B", 70.6e9, 80, 64, 8, 128, "meta-llama/Llama-3.1-70B config.json and model card"),
    )
}
"""Name -> model."""
