"""What is known of the published traces: quantiles of their lengths, and how their requests arrive.

Measured on the whole traces: Azure LLM inference 2023 (CC-BY, Microsoft, github Azure/AzurePublicDataset), Mooncake
(Apache-2.0, kvcache-ai/Mooncake), Vidur's arXiv summarization lengths (MIT, microsoft/vidur) and a ShareGPT subset of
conversations below 8k tokens (quantiles only).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LEVELS: Final = (
    0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85,
    0.9, 0.95, 0.98, 0.99, 0.995, 1.0,
)  # fmt: skip
"""Shares of the requests; entry i of a table is the length that this share of them does not exceed."""

QUANTILES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "azure2023_code.prompt": (
            3, 17, 35, 75, 147, 232, 385, 578, 770, 938, 1075, 1261, 1469, 1690, 1909, 2163, 2433, 2744, 3192, 3920,
            5187, 7303, 7436, 7436, 7436, 7437,
        ),
        "azure2023_code.output": (
            6, 6, 6, 6, 7, 7, 8, 9, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 29, 39, 55, 90, 170, 251, 359, 1899,
        ),
        "azure2023_conv.prompt": (
            2, 29, 91, 181, 207, 372, 387, 396, 403, 414, 703, 984, 1020, 1045, 1071, 1097, 1130, 1189, 1315, 1876,
            2734, 4083, 4098, 4142, 4831, 14050,
        ),
        "azure2023_conv.output": (
            7, 16, 24, 41, 54, 67, 77, 85, 91, 96, 103, 113, 129, 151, 177, 217, 384, 395, 400, 411, 424, 451, 540,
            601, 643, 1000,
        ),
        "mooncake_conversation.prompt": (
            891, 894, 896, 901, 964, 1261, 1662, 2306, 3263, 4251, 4993, 5870, 6909, 8186, 9570, 11237, 13196,
            15367, 17869, 21464, 27367, 39550, 66448, 85400, 100810, 126195,
        ),
        "mooncake_conversation.output": (
            1, 3, 3, 10, 24, 46, 100, 156, 213, 256, 291, 322, 350, 375, 399, 423, 447, 472, 504, 543, 597, 698,
            891, 1118, 1567, 2000,
        ),
        "mooncake_synthetic.prompt": (
            13, 16, 18, 22, 30, 45, 88, 277, 912, 2777, 4364, 6657, 11587, 14724, 16290, 17642, 19408, 23175, 28425,
            34319, 38611, 48904, 56631, 66456, 76328, 191378,
        ),
        "mooncake_synthetic.output": (
            1, 2, 2, 2, 4, 6, 8, 11, 16, 22, 32, 49, 69, 92, 126, 169, 210, 250, 288, 332, 389, 519, 688, 768, 782,
            893,
        ),
        "vidur_arxiv.prompt": (
            1, 73, 229, 748, 1242, 1564, 1802, 1986, 2150, 2308, 2453, 2596, 2730, 2861, 2996, 3127, 3249, 3370,
            3490, 3597, 3702, 3813, 3892, 3933, 3963, 4054,
        ),
        "vidur_arxiv.output": (
            5, 36, 44, 60, 78, 92, 104, 115, 125, 135, 145, 156, 167, 179, 192, 206, 222, 242, 268, 304, 372, 736,
            2775, 3271, 3582, 4056,
        ),
        "sharegpt_8k.prompt": (
            1, 12, 16, 29, 74, 180, 382, 580, 777, 973, 1203, 1457, 1730, 2060, 2401, 2799, 3235, 3734, 4278, 4918,
            5696, 6563, 7164, 7433, 7622, 8141,
        ),
        "sharegpt_8k.output": (
            2, 6, 19, 44, 84, 130, 181, 228, 271, 312, 346, 381, 415, 453, 493, 534, 581, 628, 683, 754, 834, 920,
            975, 998, 1009, 1024,
        ),
    }
)  # fmt: skip
"""Tokens at LEVELS, by trace and side."""

LOGNORMAL: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "azure2023_conv.prompt": (6.63, 0.99),
        "azure2023_conv.output": (5.02, 0.86),
        "azure2023_code.prompt": (7.00, 1.36),
        "azure2023_code.output": (2.79, 0.85),
    }
)
"""(mu, sigma) of the logarithm of the lengths: the fit of largest likelihood. It is rough (Kolmogorov-Smirnov distance
0.07 to 0.22), so lengths are drawn from the quantiles and these are only printed beside them."""
