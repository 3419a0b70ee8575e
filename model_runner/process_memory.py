"""What this process holds of the machine's memory, and what it can give back."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from pathlib import Path


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


def available_bytes(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory that can be taken without anybody being killed for it; None where that cannot be found out.

    Asking the allocator is not enough: Linux promises more than there is, and kills who uses it. group: of this
    process, as a container sees it (cgroup v2).
    """
    found = []
    with contextlib.suppress(OSError, KeyError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    with contextlib.suppress(OSError, ValueError):  # no limit reads "max"
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(found)) if found else None
