"""A file made at a click stays until the browser has fetched it.

Streamlit 1.67 runs what makes the file at the click, sends its address, and lets go of the file when two more runs of
any page have ended, each tick of each open page among them: with a few pages after some tenths of a second. A busy
browser that asked later was told that there is no such file, and saved nothing. Here it stays for a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from streamlit.runtime.media_file_manager import MediaFileMetadata

KEPT_S: Final = 60.0
_MARKED: Final = "_batchscope_marked_at"


def keep_files(now: Callable[[], float] = time.monotonic) -> None:
    """Hold all files of this process to it. Called once, before the first page is served."""

    def mark(file: MediaFileMetadata) -> None:
        file.__dict__.setdefault(_MARKED, now())

    def is_marked(file: MediaFileMetadata) -> bool:
        marked: float | None = file.__dict__.get(_MARKED)
        return marked is not None and now() - marked >= KEPT_S

    MediaFileMetadata.mark_for_delete = mark  # type: ignore[assignment, method-assign]
    MediaFileMetadata.is_marked_for_delete = property(is_marked)  # type: ignore[assignment, method-assign]
