"""The folder of an experiment: what it is, its runs one file each, and how far it is. Every file appears whole.

``experiment.json`` spec, hash of the trace, order of the runs; ``trace.json`` the workload;
``runs/NNN-label-repeat.json`` one ``Run`` each; ``progress.json`` how far it is; ``cancel`` put there by whoever wants
it to stop.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.record import Run, decode_run, encode_run
from experiments.runs.arms import PlannedRun
from experiments.runs.lock import hold_lock
from experiments.runs.spec import Spec, SpecError

FORMAT: Final = "batchscope-experiment/1"
MANIFEST_FILE: Final = "experiment.json"
PROGRESS_FILE: Final = "progress.json"
CANCEL_FILE: Final = "cancel"
TRACE_FILE: Final = "trace.json"
RUNS_FOLDER: Final = "runs"


class Manifest(msgspec.Struct, frozen=True):
    """What the runs of a folder have in common.

    settled: device, dtype and threads as they were chosen at the first start, so that all runs have the same.
    """

    spec: Spec
    trace_sha256: str
    runs: tuple[PlannedRun, ...]
    settled: dict[str, str | int] = {}
    format: str = FORMAT


class Brief(msgspec.Struct, frozen=True):
    """What is read of a run that is only counted."""

    label: str
    wall_s: float


class ExperimentFolder:
    """One folder, one experiment. Raises SpecError for a folder that is not, or not the one of the spec."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def runs_folder(self) -> Path:
        """Where the runs lie."""
        return self.path / RUNS_FOLDER

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Nobody else makes runs in this folder meanwhile. Makes the folder, and clears what a crash left."""
        try:
            self.runs_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpecError(f"--out {self.path}: {error.strerror or error}") from error
        with hold_lock(self.path):
            for left in (*self.path.glob(".*.tmp"), *self.runs_folder.glob(".*.tmp")):
                left.unlink(missing_ok=True)
            (self.path / CANCEL_FILE).unlink(missing_ok=True)
            yield

    def manifest(self) -> Manifest | None:
        """What the folder was begun with; None for a fresh one."""
        path = self.path / MANIFEST_FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise SpecError(f"{path}: {error}") from error

    def begin(self, asked: Manifest) -> Manifest:
        """The manifest in force: that of the folder where it asks for the same, else ``asked``, now written.

        A folder without a run is begun anew, so that a spec that the engine refused can be put right.
        Raises SpecError naming what differs from the experiment that the folder holds.
        """
        found = self.manifest()
        empty = not any(self.runs_folder.iterdir())
        if found is None or (empty and (found.spec, found.trace_sha256) != (asked.spec, asked.trace_sha256)):
            if not empty:
                raise SpecError(f"{self.path}: holds runs, but no {MANIFEST_FILE}; use another folder")
            (self.path / TRACE_FILE).unlink(missing_ok=True)
            self.write(MANIFEST_FILE, asked)
            return asked
        changed = differences(msgspec.to_builtins(found.spec), msgspec.to_builtins(asked.spec))
        if not changed and found.trace_sha256 != asked.trace_sha256:
            changed = ["the requests of the trace are others"]
        if changed:
            raise SpecError(
                f"{self.path}: was begun with another spec: {'; '.join(changed[:5])}. Runs of different experiments "
                "are not mixed: name another --out, or put the spec back"
            )
        return found

    def settle(self, manifest: Manifest, settled: Mapping[str, str | int]) -> Manifest:
        """Keep what was chosen at the first start."""
        manifest = msgspec.structs.replace(manifest, settled=dict(settled))
        self.write(MANIFEST_FILE, manifest)
        return manifest

    def finished(self, manifest: Manifest) -> dict[PlannedRun, Brief]:
        """The runs that are there. Raises SpecError naming a file that cannot be read."""
        found = {}
        for planned in manifest.runs:
            path = self.runs_folder / planned.file_name
            if path.exists():
                try:
                    found[planned] = msgspec.json.decode(path.read_bytes(), type=Brief)
                except (OSError, msgspec.DecodeError) as error:
                    raise SpecError(f"{path}: {error}; remove the file, and the run is made again") from error
        return found

    def save(self, planned: PlannedRun, run: Run) -> None:
        """Keep a run for good."""
        write_whole(self.runs_folder / planned.file_name, encode_run(run))

    def write(self, name: str, value: Any) -> None:
        """Write a file of the folder as JSON."""
        write_whole(self.path / name, msgspec.json.format(msgspec.json.encode(value), indent=1))


def write_whole(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """The file appears whole or not at all, whatever happens meanwhile. lasting: also after a loss of power."""
    work = path.with_name(f".{path.name}.tmp")
    try:
        with work.open("wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        work.replace(path)
    except OSError:
        work.unlink(missing_ok=True)
        raise


def load_runs(folder: Path) -> tuple[Run, ...]:
    """All runs of a folder, in the order in which they were made. Raises SpecError naming folder or file."""
    if not (folder / RUNS_FOLDER).is_dir():
        raise SpecError(f"{folder}: no folder of results; python -m experiments run SPEC.toml --out FOLDER makes one")
    runs = []
    for path in sorted((folder / RUNS_FOLDER).glob("[!.]*.json")):
        try:
            runs.append(decode_run(path.read_bytes()))
        except (OSError, msgspec.DecodeError) as error:
            raise SpecError(f"{path}: {error}") from error
    return tuple(sorted(runs, key=lambda run: run.position))


def load_manifest(folder: Path) -> Manifest:
    """What the experiment of a folder is. Raises SpecError where there is none."""
    found = ExperimentFolder(folder).manifest()
    if found is None:
        raise SpecError(f"{folder}: no {MANIFEST_FILE}; python -m experiments run SPEC.toml --out FOLDER makes one")
    return found


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """ "field was old, is new" for each leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        return [
            text
            for name in names
            for text in differences(old.get(name), new.get(name), f"{path}.{name}" if path else name)
        ]
    return [] if old == new else [f"{path} was {old!r:.60}, is {new!r:.60}"]
