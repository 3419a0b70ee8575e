"""How long a step takes: a model fitted from measured steps, or entered by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from experiments.virtual.work import StepWork

KNOTS: Final = (8, 32, 128)
"""Token counts at which the price of a token may rise. A product of few rows waits for the weights, one of many rows
for the arithmetic (Williams et al., Roofline, CACM 2009), so time over tokens is convex: a sum of rising pieces."""

TERMS: Final = ("step", "token", *(f"token_over_{knot}" for knot in KNOTS), "row", "context", "chunk", "pair", "block")
"""What a fitted step time is made of, in seconds a unit: a step at all; each computed token, and each one above a knot;
each request; each KV position read; a step that computes more than decodes; each query-key pair of a prompt's chunk;
each KV block copied to or from the host."""


class CostModel(Protocol):
    """Seconds a step takes. Must be the same for the same work, and above 0 for work."""

    def seconds(self, work: StepWork, /) -> float:
        """Wall seconds of the whole iteration."""
        ...

    def describe(self) -> str:
        """One line that says where the time comes from, for the conditions of a run."""
        ...


@dataclass(frozen=True, slots=True)
class FittedCost:
    """A sum of non-negative prices. coefficients: seconds, one a term of ``TERMS``. source: what it was fitted from."""

    coefficients: tuple[float, ...]
    source: str

    def seconds(self, work: StepWork, /) -> float:
        """Price of the work."""
        step, token, over_a, over_b, over_c, row, context, chunk, pair, block = self.coefficients
        tokens = work.prefill + work.decode + work.recompute + work.padding
        seconds = step + token * tokens + row * work.rows + context * work.context
        if tokens > KNOTS[0]:
            seconds += over_a * (tokens - KNOTS[0])
            if tokens > KNOTS[1]:
                seconds += over_b * (tokens - KNOTS[1])
                if tokens > KNOTS[2]:
                    seconds += over_c * (tokens - KNOTS[2])
        if tokens != work.decode:
            seconds += chunk + pair * work.pairs
        return seconds + block * work.moved_blocks

    def describe(self) -> str:
        """The prices that are not 0, in microseconds."""
        parts = [
            f"{name} {1e6 * price:.4g} us" for name, price in zip(TERMS, self.coefficients, strict=True) if price > 0
        ]
        return f"fitted from {self.source}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a cost needs to know of a model. source: where the numbers are published.

    layers, heads (query heads), kv_heads, head_dim as in its config.json; parameters: all of them.
    """

    name: str
    parameters: float
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    source: str

    def kv_bytes_per_token(self, bytes_per_value: float = 2.0) -> float:
        """Keys and values of one position in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_value


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator, by its data sheet. bandwidth: bytes a second; flops: peak bf16 a second, dense (the data sheets
    print twice as much with sparsity); memory: bytes. source: the sheet."""

    name: str
    bandwidth: float
    flops: float
    memory: float
    source: str


@dataclass(frozen=True, slots=True)
class RooflineCost:
    """max(bytes / bandwidth, operations / peak) + overhead: an entered model, no measurement.

    Bytes: all weights once, and the keys and values of every position read or written. Operations: 2 a parameter and
    token, 4 x layers x heads x head_dim a query-key pair. num_gpus multiplies bandwidth and peak; what they say to each
    other costs nothing here. bandwidth_share, flops_share: of the data sheet's figures that is reached, 0 < x <= 1;
    overhead_s: of each step, whatever is in it. The three defaults are assumptions, not measurements.
    Raises ValueError for a value out of range.
    """

    gpu: Gpu
    model: ModelShape
    num_gpus: int = 1
    bandwidth_share: float = 0.75
    flops_share: float = 0.5
    overhead_s: float = 0.002
    bytes_per_value: float = 2.0

    def __post_init__(self) -> None:
        for name in ("bandwidth_share", "flops_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected a number above 0 and at most 1")
        if self.num_gpus < 1:
            raise ValueError(f"num_gpus is {self.num_gpus!r}, expected a whole number of at least 1")
        if not 0 <= self.overhead_s < 1000:
            raise ValueError(f"overhead_s is {self.overhead_s!r}, expected seconds from 0 to below 1000")
        for name, value in (
            ("bandwidth", self.gpu.bandwidth),
            ("flops", self.gpu.flops),
            ("parameters", self.model.parameters),
            ("bytes_per_value", self.bytes_per_value),
        ):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value!r}, expected a number above 0")

    def seconds(self, work: StepWork, /) -> float:
        """The roofline of the work."""
        model = self.model
        tokens = work.prefill + work.decode + work.recompute + work.padding
        kv = model.kv_bytes_per_token(self.bytes_per_value)
        moved = model.parameters * self.bytes_per_value + kv * (work.context + tokens)
        pairs = work.pairs + (work.context if tokens == work.decode else work.decode * work.context / max(1, work.rows))
        operations = 2.0 * model.parameters * tokens + 4.0 * model.layers * model.heads * model.head_dim * pairs
        return self.overhead_s + max(
            moved / (self.gpu.bandwidth * self.num_gpus * self.bandwidth_share),
            operations / (self.gpu.flops * self.num_gpus * self.flops_share),
        )

    def num_blocks(self, block_size: int, memory_share: float = 0.9) -> int:
        """KV blocks that fit beside the weights into a share of the memory. Raises ValueError when none does."""
        free = self.gpu.memory * self.num_gpus * memory_share - self.model.parameters * self.bytes_per_value
        blocks = int(free // (self.model.kv_bytes_per_token(self.bytes_per_value) * block_size))
        if blocks < 1:
            raise ValueError(
                f"model {self.model.name} needs {self.model.parameters * self.bytes_per_value / 1e9:.1f} GB, "
                f"{self.num_gpus} x {self.gpu.name} have {self.gpu.memory * self.num_gpus * memory_share / 1e9:.1f} GB "
                "to use: choose more GPUs or a smaller model"
            )
        return blocks

    def describe(self) -> str:
        """The entered numbers."""
        return (
            f"entered, not measured: roofline of {self.num_gpus} x {self.gpu.name} ({self.gpu.bandwidth / 1e9:,.0f} "
            f"GB/s x {self.bandwidth_share:g}, {self.gpu.flops / 1e12:,.0f} TFLOPS bf16 x {self.flops_share:g}; "
            f"{self.gpu.source}) and {self.model.name} ({self.model.parameters / 1e9:.3g} billion parameters; "
            f"{self.model.source}), {1e3 * self.overhead_s:g} ms a step besides"
        )
