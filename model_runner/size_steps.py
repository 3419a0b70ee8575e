"""Few sizes of matrix products instead of any size.

oneDNN compiles a kernel for every size it is asked for and keeps it: about 0.6 MB for each size of each matrix, and
nothing gives it back (its cache of primitives can be limited, the kernels inside it stay). Batches of a live scheduler
come in every size, so a process would grow for as long as it meets new ones. Products are therefore rounded up to a
few sizes, all of which are compiled before the first request; from then on memory is flat, and no step waits for a
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence


class SizeSteps:
    """The sizes that are used. sizes: ascending, all >= 1; empty = any size, nothing is rounded."""

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        self.sizes = tuple(sizes)
        self._largest = self.sizes[-1] if self.sizes else 0
        self._next: list[int] = []
        for size in self.sizes:
            self._next += [size] * (size + 1 - len(self._next))

    def split(self, count: int) -> list[int]:
        """Sizes that add up to ``count`` or a little more: the largest as often as it fits, then one for the rest."""
        if count < 1:
            return []
        if not self.sizes:
            return [count]
        whole, rest = divmod(count, self._largest)
        return [self._largest] * whole + ([self._next[rest]] if rest else [])


ANY_SIZE = SizeSteps()

ROW_STEPS = SizeSteps((*range(1, 9), *range(10, 33, 2), *range(36, 65, 4)))
"""Rows of a product with weights on a CPU. One to eight are exact: there a row more is a tenth more time.

Above, rounding costs 3 % on average. From 64 rows on, time is proportional to rows, so more are taken in pieces.
"""

PAGE_STEPS = SizeSteps(range(8, 65, 8))
"""Pages that decodes multiply in one call. A call costs about as much as eight pages."""
