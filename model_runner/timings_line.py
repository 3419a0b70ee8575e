"""What was measured at the start, in one line for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Timing(Protocol):
    """A ``StartTiming``, of the runner or of the message."""

    @property
    def dtype(self) -> str:
        """Number type."""

    @property
    def threads(self) -> int:
        """Torch threads, >= 1."""

    @property
    def decode_ms(self) -> float:
        """Milliseconds of the largest product of a decode step of 8 requests."""


def timings_line(threads: int, timings: Sequence[Timing]) -> str:
    """threads: the number that was chosen."""
    figures = ", ".join(f"{t.dtype} x {t.threads}: {t.decode_ms:.3g} ms" for t in timings)
    what = "number type x threads, largest product of a decode step"
    return f"threads: {threads}. Measured at the start ({what}): {figures}"
