"""Where this user's files of the program lie; imports nothing heavy, so that a page can ask."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "BATCHSCOPE_CACHE"


def cache_root() -> Path:
    """Folder of converted models and of experiments: $BATCHSCOPE_CACHE, else batchscope in the user's cache folder
    (XDG)."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "batchscope"
