"""One folder of an experiment, as the list of them shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.runs.folder import Manifest
from experiments.runs.progress import Progress


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder. name: of the folder. manifest: None before its process has begun. progress: None likewise.

    version: changes whenever there are more runs in it.
    """

    name: str
    path: Path
    manifest: Manifest | None
    progress: Progress | None

    @property
    def version(self) -> tuple[str, int]:
        """What results of it are kept under."""
        return self.name, self.progress.done if self.progress else 0
