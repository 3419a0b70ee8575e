"""What this process holds of the machine's memory, and what it can give back."""

from __future__ import annotations

import ctypes
import gc
import sys


def give_back_free_memory() -> None:
    """Return to the system what the allocator keeps after large tensors were freed.

    glibc keeps freed memory below the top of its heap for later; after loading, that is what sources of packed weights
    and the compiler of products left, tens of MB that nobody needs again. Elsewhere nothing happens.
    """
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not in every C library
        if trim is not None:
            trim(0)
