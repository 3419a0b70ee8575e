"""One process at a time makes runs in a folder; the system lets go of the lock when that process ends, however."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from experiments.runs.spec import SpecError

LOCK_FILE: Final = ".lock"

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises SpecError when another process does."""
    with (folder / LOCK_FILE).open("wb") as file:
        try:
            _take(file)
        except OSError as error:
            raise SpecError(f"{folder}: another process is making runs in this folder") from error
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process is making runs in the folder now."""
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        with hold_lock(folder):
            return False
    except SpecError:
        return True
