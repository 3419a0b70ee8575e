"""Few sizes of matrix products instead of any size.

oneDNN compiles a kernel for every size it is asked for and keeps it: about 0.6 MB for each size of each matrix, and
nothing gives it back (its cache of primitives can be limited, the kernels inside it stay). Batches of a live scheduler
come in every size, so a process would grow for as long as it meets new ones. Products are therefore rounded up to a
few sizes, all of which are compiled before the first request; from then on memory is flat, and no step waits for a
compiler.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence


class SizeSteps:
    """The sizes that are used.

    sizes: ascending, all >= 1; empty = any size, nothing is rounded. most_on_top: by how much a count may be rounded
    up before two calls are cheaper than one.
    """

    def __init__(self, sizes: Sequence[int] = (), most_on_top: float = math.inf) -> None:
        self.sizes = tuple(sizes)
        self._most_on_top = most_on_top

    def split(self, count: int) -> list[int]:
        """Sizes that add up to ``count`` or a little more."""
        if not self.sizes:
            return [count] if count > 0 else []
        taken = []
        while count > 0:
            index = bisect.bisect_left(self.sizes, count)
            fits = index < len(self.sizes) and (index == 0 or self.sizes[index] - count <= self._most_on_top)
            taken.append(self.sizes[index if fits else index - 1])
            count -= taken[-1]
        return taken


ANY_SIZE = SizeSteps()

ROW_STEPS = SizeSteps((*range(1, 9), *range(10, 33, 2), *range(36, 65, 4), 128, 256, 512), most_on_top=3)
"""Rows of a product with weights on a CPU. One to eight are exact: there a row more is a tenth more time.

Above, rounding costs 3 % on average. From 64 rows on, time is proportional to rows, so the rest is a piece of its own.
"""

PAGE_STEPS = SizeSteps((4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512), most_on_top=24)
"""Pages that decodes multiply in one call, in the number types that oneDNN multiplies. A call costs 24 pages' time."""
