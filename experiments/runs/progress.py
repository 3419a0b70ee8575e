"""How far an experiment is: written for pages and people who wait, and the wish to stop it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from experiments.runs.arms import PlannedRun
from experiments.runs.folder import CANCEL_FILE, PROGRESS_FILE, Brief, write_whole
from experiments.runs.lock import is_locked

EVERY_S: Final = 1.0
"""Seconds between two looks at the file ``cancel`` and two writes of ``progress.json`` during a run."""

LEAST_SHARE: Final = 0.1
"""Requests that must have ended in the very first run before anybody guesses how long the rest takes."""

State = Literal["loading", "running", "done", "cancelled", "failed", "interrupted"]


class Progress(msgspec.Struct, frozen=True):
    """state: "interrupted" = its process is gone and said nothing. message: why it failed or stopped, else "".

    done, total: runs. eta_s: seconds that the missing runs will take, from the runs made so far; None = not known yet.
    label, repeat: of the run under way, "" and 0 between runs; requests_done of requests_total have ended in it.
    updated_at: seconds since 1970. pid: of the process that works.
    """

    state: State
    done: int
    total: int
    eta_s: float | None = None
    label: str = ""
    repeat: int = 0
    requests_done: int = 0
    requests_total: int = 0
    message: str = ""
    updated_at: float = 0.0
    pid: int = 0


def read_progress(folder: Path) -> Progress | None:
    """How far the experiment of a folder is; None where nothing was begun, or the file is not one."""
    try:
        found = msgspec.json.decode((folder / PROGRESS_FILE).read_bytes(), type=Progress)
    except (OSError, msgspec.DecodeError):
        return None
    if found.state in ("loading", "running") and not is_locked(folder):
        return msgspec.structs.replace(found, state="interrupted", eta_s=None)
    return found


def ask_to_cancel(folder: Path) -> None:
    """The process that works in the folder stops within about a second; rerunning its command goes on."""
    (folder / CANCEL_FILE).touch()


def seconds_left(
    done: Mapping[PlannedRun, Brief],
    missing: Sequence[PlannedRun],
    elapsed_s: float = 0.0,
    ended_share: float = 0.0,
) -> float | None:
    """Seconds for the missing runs, of which the first has been under way for ``elapsed_s``.

    An arm's next run takes as long as its earlier ones did on average, one without any as long as all did. In the very
    first run it is guessed from the share of its requests that have ended (0..1); None while that is under a tenth.
    """
    by_label: dict[str, list[float]] = {}
    for brief in done.values():
        by_label.setdefault(brief.label, []).append(brief.wall_s)
    means = {label: sum(walls) / len(walls) for label, walls in by_label.items()}
    if done:
        overall = sum(brief.wall_s for brief in done.values()) / len(done)
    elif ended_share >= LEAST_SHARE:
        overall = elapsed_s / ended_share
    else:
        return None
    expected = [means.get(planned.label, overall) for planned in missing]
    return sum(expected) - min(elapsed_s, *expected[:1]) if expected else 0.0


class ProgressFile:
    """Keeps ``progress.json`` of a folder. One thread writes it."""

    def __init__(self, folder: Path, total: int) -> None:
        self._path = folder / PROGRESS_FILE
        self._now = Progress("loading", 0, total, pid=os.getpid())

    @property
    def now(self) -> Progress:
        """What was written last."""
        return self._now

    def write(self, **changes: object) -> None:
        """Say what has changed."""
        self._now = msgspec.structs.replace(self._now, updated_at=time.time(), **changes)
        write_whole(self._path, msgspec.json.encode(self._now), lasting=False)
