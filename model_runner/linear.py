"""Matrix products with weights that never change: packed once, for the machine they run on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch.nn.functional import linear

from model_runner.size_steps import ANY_SIZE, ROW_STEPS, SizeSteps

_PACK_ROWS = 64
"""Batch size the packed layout is chosen for; measured, it is within 2 % of the best from 1 to 512 rows."""


class Linear(ABC):
    """y = x W^T + b for x [rows, in], a fixed W [out, in] and perhaps b [out]. Makes no promise about W's layout."""

    shape: tuple[int, int]
    num_bytes: int

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.shape = (weight.shape[0], weight.shape[1])
        self.num_bytes = weight.numel() * weight.element_size()
        if bias is not None:
            self.num_bytes += bias.numel() * bias.element_size()
        self._bias = bias

    @abstractmethod
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x: [rows, in] in the weight's number type, rows among the factory's ``steps``; returns [rows, out]."""


class KMajorLinear(Linear):
    """Plain torch. W is stored as [in, out]: at one row in fp32 a CPU reads it up to twice as fast."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__(weight, bias)
        self._weight = weight.t().contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self._weight) if self._bias is None else torch.addmm(self._bias, x, self._weight)


class PlainLinear(Linear):
    """W as a checkpoint has it, [out, in], and without a copy: what a GPU's libraries are made for."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__(weight, bias)
        self._weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self._weight, self._bias)


class PackedLinear(Linear):
    """W in oneDNN's blocked layout, packed once instead of in every call.

    These are the operators that torch's own compiler emits for CPU inference. Measured on AVX-512 against ``F.linear``:
    1.15x at 512 rows and 1.6x at 8 in fp32, 2.3x at one row in bf16. They are no public API, so ``make_linear`` tries
    them on this machine before it relies on them.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__(weight, bias)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _PACK_ROWS)
        self._product: Any = torch.ops.mkldnn._linear_pointwise.default

    @property
    def address(self) -> int:
        """Where the packed weight lies in memory."""
        return int(torch.ops.mkldnn.data_ptr(self._packed))

    @property
    def num_packed_bytes(self) -> int:
        """Size of the packed weight, what the layout adds included."""
        return int(torch.ops.mkldnn._nbytes(self._packed))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._product(x, self._packed, self._bias, "none", [], "")
        return y


class LinearFactory:
    """Makes the fastest kind of ``Linear`` that gives right results for a device and number type.

    steps: numbers of rows to call it with, or memory grows with every other one.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.steps: SizeSteps = ROW_STEPS if device.type == "cpu" else ANY_SIZE
        self.kind: type[Linear] = PlainLinear
        if device.type == "cpu":
            self.kind = PackedLinear if packing_works(dtype) else KMajorLinear
        self._device, self._dtype = device, dtype

    def __call__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        return self.kind(self._there(weight), None if bias is None else self._there(bias))

    def _there(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device, self._dtype)


def packing_works(dtype: torch.dtype) -> bool:
    """True when oneDNN's packed product exists here and agrees with plain torch."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(48, 32, generator=generator).to(dtype)
    x = torch.randn(5, 32, generator=generator).to(dtype)
    bias = torch.randn(48, generator=generator).to(dtype)
    try:
        with torch.inference_mode():
            found = torch.stack((PackedLinear(weight)(x), PackedLinear(weight, bias)(x)))
    except (AttributeError, RuntimeError):
        return False
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    plain = torch.stack((linear(x, weight), linear(x, weight, bias)))
    return torch.allclose(found, plain, rtol=tolerance, atol=tolerance * 10)
